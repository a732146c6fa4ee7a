"""The page of a distortion: how small a change changes an answer, what it looks like, and who else falls for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from foible.recipes.distort.summary import summarise_distortions
from foible.report.atlas import Place
from foible.report.choose import fewer
from foible.report.page import fitted, skeleton, template
from foible.report.pages.distort_panels import FIRST, Panel, chosen, panels
from foible.report.pages.distort_robust import robust_of, ticks
from foible.report.run import About, OpenRun
from foible.report.sample import Sample

PAIRS = 30
BINS = 32
WIDE, HIGH = 640, 120  # of the histogram


def render(source: OpenRun, *, title: str | None = None, gallery: int = 1000, **_: Any) -> str:
    """The HTML of a distortion's report."""
    about, made, from_where = About(), set[str](), Counter[str]()
    outcomes: list[tuple[Place, str]] = []
    sizes = {"rms": Sample(), "rms before 8 bits": Sample()}
    for part, table in enumerate(source.tables(FIRST)):
        about.add(table)
        made.update(text for text in table.column("versions").unique().to_pylist() if text)
        from_where.update(f"{d}, {s} split" for d, s in zip(*_two(table), strict=True) if d is not None)
        for row, outcome in enumerate(table.column("outcome").to_pylist()):
            outcomes.append(((part, row), str(outcome)))
        _measure(table, sizes)
    summary = summarise_distortions(source)
    shown = panels(source, chosen(outcomes, gallery), about)
    values = skeleton(
        source, about, made, title,
        summary=summary,
        first=next((row for row in summary if row["found"]), None),
        rows=len(outcomes),
        classes=len(about.classes),
        sources=[text for text, _ in from_where.most_common(4)],
        asked=asked_words(about.configs or {}),
        histogram=histogram(sizes),
        robust=robust_of(summary),
        pairs=pairs(shown),
        transfers=[
            (row["source"], factor, judge)
            for row in summary
            for factor, judges in [(1, row["transfer"]), *((o["factor"], o["transfer"]) for o in row["amplified"])]
            for judge in judges
        ],
    )  # fmt: skip
    page = template("distort.html")
    order = fewer_first(shown)
    return fitted(lambda count: page.render(values | _gallery([shown[k] for k in sorted(order[:count])])), len(shown))


def _two(table: pa.Table) -> tuple[list[Any], list[Any]]:
    return table.column("origin_data").to_pylist(), table.column("origin_split").to_pylist()


def _measure(table: pa.Table, sizes: dict[str, Sample]) -> None:
    found: dict[str, list[float]] = {name: [] for name in sizes}
    for outcome, change in zip(table.column("outcome").to_pylist(), table.column("change").to_pylist(), strict=True):
        for name, value in (change or ()) if outcome == "found" else ():
            if name in found and value is not None:
                found[name].append(value)
    for name, values in found.items():
        sizes[name].add(np.asarray(values, np.float32))


def asked_words(configs: dict[str, dict[str, Any]]) -> str:
    """What the source was to say, in words."""
    told = {
        "best": "the nearest of all other labels", "worst": "the farthest of all other labels",
        "random": "another label, drawn for each image", "next": "the label that follows its own",
        "each": "each other label in turn", "any": "any other label",
    }  # fmt: skip
    targets = dict.fromkeys(str(config.get("target") or "any") for config in configs.values())
    return " or ".join(told.get(target, f"“{target.removeprefix('class:')}”") for target in targets)


def histogram(sizes: dict[str, Sample]) -> dict[str, Any] | None:
    """How the changes found are spread: bars of those on 8 bits, an outline of those in floats."""
    ours, floats = sizes["rms"].values, sizes["rms before 8 bits"].values
    if len(ours) < 8 or not float(ours.max()):
        return None
    top = float(max(ours.max(), floats.max(initial=0))) * 1.02
    counts, edges = np.histogram(ours, BINS, (0, top))
    others = np.histogram(floats, BINS, (0, top))[0] * (len(ours) / max(1, len(floats)))
    high = max(counts.max(), others.max(), 1)
    step = WIDE / BINS
    bars = [
        (round(k * step, 1), round(HIGH * (1 - count / high), 1), round(HIGH * count / high, 1), int(count))
        for k, count in enumerate(counts)
    ]
    line = " ".join(
        f"{'M' if k == 0 else 'L'}{k * step:.1f},{HIGH * (1 - n / high):.1f} H{(k + 1) * step:.1f}"
        for k, n in enumerate(others)
    )
    return {
        "bars": bars, "line": line, "width": WIDE, "height": HIGH, "bar": round(step - 1, 1), "ticks": ticks(top),
        "median": round(WIDE * float(np.median(ours)) / top, 1), "bins": float(edges[1]),
    }  # fmt: skip


def pairs(shown: list[Panel]) -> list[Panel]:
    """Found images for a sheet of pairs, spread over labels and answers."""
    some = [one for one in shown if one.outcome == "found" and one.difference is not None]
    return [some[number] for number in fewer([0] * len(some), PAIRS)]


def fewer_first(shown: list[Panel]) -> list[int]:
    """Panels in the order in which they are worth keeping where the page grows too long: an even spread first."""
    count, order, seen = len(shown), list[int](), set[int]()
    step = max(1, 1 << max(0, count - 1).bit_length())
    while step:
        order += [k for k in range(0, count, step) if k not in seen]
        seen.update(range(0, count, step))
        step //= 2
    return order


def _gallery(shown: list[Panel]) -> dict[str, Any]:
    ranked = sorted(range(len(shown)), key=lambda k: (shown[k].rms is None, shown[k].rms or 0.0, k))
    ranks = {k: rank for rank, k in enumerate(ranked)}
    return {
        "cards": [(one, f"--z:{ranks[k]};--l:{len(shown) - ranks[k]}") for k, one in enumerate(shown)],
        "orders": [("z", "smallest change first"), ("l", "largest change first")],
        "reduced": any(one.image is not None and one.image.copied for one in shown),
        "photos": any(one.image is not None and not one.image.small for one in shown),
        "filters": [
            ("t", "Label", sorted({one.keys[0]: one.right for one in shown}.items())),
            ("w", "Says now", sorted({one.keys[1]: one.said for one in shown}.items())),
            ("o", "Outcome", sorted({one.outcome: one.outcome for one in shown}.items())),
        ],
    }
