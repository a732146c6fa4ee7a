"""The page of explanations: each mistake beside what would have mended it, and where a network is mended most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foible.errors import UserError
from foible.images import MOST_JUDGED, decode_png, encode_png
from foible.recipes.explain.summary import explained, summarise
from foible.report import choose
from foible.report.counts import count
from foible.report.page import fitted, skeleton, template
from foible.report.pictures import Picture, picture, whole
from foible.report.run import About, OpenRun

Floats = NDArray[np.float32]
COLUMNS = (
    "id", "suspect", "networks", "outcome", "truth", "target", "said", "before", "after", "change", "least_change",
    "tags", "candidates", "origin", "image", "least_image", "origin_file",
)  # fmt: skip
GROUP = 5  # explanations of one confusion from which on they are averaged


@dataclass(frozen=True)
class Card:
    """One mistake, and what mends it."""

    id: str
    right: str  # the class that is given at last
    was: str  # what the suspect said before
    origin: Picture | None
    first: Picture | None  # x′ at the first step that is mended, and what was added to x
    first_map: Picture | None
    least: Picture | None  # the smallest change that mends it
    least_map: Picture | None
    words: str
    remarks: tuple[str, ...]
    keys: tuple[int, int]  # class indices: given at last, and said before


@dataclass(frozen=True)
class Heat:
    """Where the explanations of one confusion change an image, on average."""

    title: str
    count: int
    size: Picture | None  # mean |x′ − x|
    signed: Picture | None


def render(source: OpenRun, *, title: str | None = None, gallery: int = 400, **_: Any) -> str:
    """The HTML of a run's explanations."""
    result, summary = count(source), summarise(source)
    about = result.about
    places = [
        (part, row)
        for part, table in enumerate(source.tables(("outcome",)))
        for row, outcome in enumerate(table.column("outcome").to_pylist())
        if outcome == "found"
    ][:gallery]
    rows = [row for row in choose.rows_at(source, places, COLUMNS) if row["id"] not in source.labels.dropped]
    changes = [changes_of(row) for row in rows]
    scale = scale_of([one for pair in changes for one in pair if one is not None])
    cards = [_card(row, pair, scale, about) for row, pair in zip(rows, changes, strict=True)]
    values = skeleton(
        source, about, result.versions, title,
        again="The same command",
        result=result, summary=summary, mends=summary["to"] == "truth", scale=round(255 * scale),
        heats=_heats(rows, changes, about),
    )  # fmt: skip
    page = template("explain.html")
    values |= {
        "found": len(cards),
        "filters": [
            (
                "t",
                "Class given" if summary["to"] != "truth" else "Right class",
                sorted({c.keys[0]: c.right for c in cards}.items()),
            ),
            ("w", "Suspect said", sorted({c.keys[1]: c.was for c in cards}.items())),
        ],
    }
    return fitted(lambda some: page.render(values | {"cards": cards[:some]}), len(cards))


def scale_of(changes: list[Floats]) -> float:
    """The change that is drawn in full colour: few pixels change by more."""
    largest = [float(np.quantile(np.abs(one), 0.98)) for one in changes]
    return max(8 / 255, float(np.quantile(largest, 0.9))) if largest else 1.0


def changes_of(row: dict[str, Any]) -> tuple[Floats | None, Floats | None]:
    """What was added to the pixels, (height, width) means over channels: by the first shift, and by the smallest."""
    origin, first, least = (_pixels(row[name]) for name in ("origin", "image", "least_image"))
    if origin is None or first is None or first.shape != origin.shape:
        return None, None
    small = least if least is not None and least.shape == origin.shape else None
    return (first - origin).mean(0), None if small is None else (small - origin).mean(0)


def _pixels(png: bytes | None) -> Floats | None:
    try:
        return None if png is None else (decode_png(png, "an image", MOST_JUDGED).float() / 255).numpy()
    except UserError:
        return None


def coloured(change: Floats, scale: float) -> NDArray[np.uint8]:
    """(3, height, width): white where nothing changes, towards orange where light is added, blue where it is taken."""
    part = np.clip(change / scale, -1, 1)[None]
    more, less = (np.array(colour, np.float32)[:, None, None] for colour in ((213, 94, 0), (47, 115, 169)))
    end = np.where(part > 0, more, less)
    return np.asarray(255 + np.abs(part) * (end - 255), np.uint8)


def hot(size: Floats) -> NDArray[np.uint8]:
    """(3, height, width): white where nothing changes, black where most does."""
    part = (size / max(float(size.max()), 1e-12))[None]
    return np.repeat(np.asarray(255 * (1 - part), np.uint8), 3, 0)


def _drawn(pixels: NDArray[np.uint8] | None) -> Picture | None:
    return None if pixels is None else picture(encode_png(pixels))


def _card(row: dict[str, Any], pair: tuple[Floats | None, Floats | None], scale: float, about: About) -> Card:
    told = explained(row)
    aim = row["truth"] if row["target"] is None else row["target"]
    was = int(np.argmax(row["before"][0])) if row["before"] else None
    own = row["after"][0][aim] if row["after"] and aim is not None else float("nan")
    distances = ", ".join(
        f"{word} {told[name]:.2f}" for word, name in (("‖e‖ first", "first"), ("smallest", "closest")) if told[name]
    )
    remarks = []
    if told["of"]:
        who = "the other network" if told["of"] == 1 else f"{told['peers']} of {told['of']} other networks"
        remarks.append(
            f"{who} accept{'s' if told['of'] == 1 else ''} it" if told["peers"] else "no other network accepts it"
        )
    if told["alone"]:
        remarks.append("right already as the generator draws it, unshifted")
    first, least = (None if one is None else coloured(one, scale) for one in pair)
    return Card(
        id=str(row["id"]), right=about.class_name(aim), was=about.class_name(was), origin=picture(row["origin"]),
        first=picture(row["image"]), first_map=_drawn(first), least=picture(row["least_image"]),
        least_map=_drawn(least),
        words=f"{distances} · {row['candidates']} step{'' if row['candidates'] == 1 else 's'} · {own:.2f}",
        remarks=tuple(remarks), keys=(-1 if aim is None else aim, -1 if was is None else was),
    )  # fmt: skip


def _heats(rows: list[dict[str, Any]], changes: list[tuple[Floats | None, Floats | None]], about: About) -> list[Heat]:
    """All explanations together, and confusion by confusion where there are enough."""
    groups: dict[tuple[int, int] | None, list[Floats]] = {None: []}
    for row, (first, _) in zip(rows, changes, strict=True):
        if first is None or not row["before"]:
            continue
        key = int(np.argmax(row["before"][0])), row["truth"] if row["target"] is None else row["target"]
        for group in (None, key):
            groups.setdefault(group, []).append(first)
    heats = []
    for group, some in sorted(groups.items(), key=lambda item: -len(item[1])):
        shapes = {one.shape for one in some}
        if len(some) < GROUP or len(shapes) > 1:
            continue
        name = "all" if group is None else f"{about.class_name(group[0])} → {about.class_name(group[1])}"
        size, signed = np.mean([np.abs(one) for one in some], 0), np.mean(some, 0)
        largest = max(float(np.abs(signed).max()), 1e-12)
        heats.append(
            Heat(
                name,
                len(some),
                whole(encode_png(_large(hot(size)))),
                whole(encode_png(_large(coloured(signed, largest)))),
            )
        )
    return heats[:12]


def _large(pixels: NDArray[np.uint8], least: int = 112) -> NDArray[np.uint8]:
    """Small pictures with every pixel drawn as a square."""
    factor = max(1, -(-least // max(pixels.shape[1:])))
    return np.ascontiguousarray(pixels.repeat(factor, 1).repeat(factor, 2))
