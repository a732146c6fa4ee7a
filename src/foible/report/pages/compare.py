"""The page of a comparison: what the new network gets wrong that the old one got right."""

from __future__ import annotations

from typing import Any

from foible.recipes.compare.against import TAG as AGAINST
from foible.recipes.compare.against import tell_against
from foible.report import words
from foible.report.choose import shares
from foible.report.page import fitted, settings_json, skeleton, template
from foible.report.pages.compare_examples import TAGS, Card, Examples, Kind, cards, gather
from foible.report.pages.compare_numbers import Comparison, OneClass, Share, read_comparison
from foible.report.pages.compare_scales import Scale
from foible.report.run import SUMMARY, OpenRun

EACH_END = 20  # classes shown at each end, of more than twice as many


def render(source: OpenRun, *, title: str | None = None, gallery: int = 1000, **_: Any) -> str:
    """The HTML of a comparison's report. Without its summary (a run not finished, findings alone), the images."""
    file = source.folder / SUMMARY if source.folder is not None else None
    summary = read_comparison(file) if file is not None and file.exists() else None
    examples = gather(source, gallery, summary.against if summary else None)
    settings = source.config.get("settings")
    configs = examples.about.configs or ({"run": settings} if isinstance(settings, dict) else {})
    setting = next(iter(configs.values()), {})
    order = list(summary.networks) if summary else [str(name) for name in setting.get("names") or ()]
    labelled = summary.labelled if summary else setting.get("labelled") is not False
    old, new = (summary.old, summary.new) if summary else (setting.get("old"), setting.get("new"))
    versus = labelled and old is not None and new is not None
    kinds = kinds_shown(examples, order)
    given = shares({kind: examples.counts[kind] for kind in kinds}, gallery)
    places = {kind: examples.places(kind, given[kind]) for kind in kinds}
    made = cards(source, (place for some in places.values() for place in some), examples, order)
    values = skeleton(
        source, examples.about, examples.versions,
        title or (f"What {new} gets wrong that {old} got right" if versus else "Where the networks differ"),
        versus=versus and title is None,
        summary=summary, old=old, new=new, labelled=labelled, order=order,
        sources=list(examples.sources),
        notes=list(summary.notes if summary and summary.notes else source.notes),
        canvas=words.pixels(summary.canvas) if summary else words.canvases(configs),
        settings=[(key, value) for key, value in words.settings(configs) if key not in ("labelled", "unit")],
        config_json=settings_json(configs),
        accuracy=accuracy(summary.accuracy, old, new) if summary else None,
        difference=difference(summary) if summary else None,
        flips=flip_picture(summary) if summary else None,
        change=changes(summary) if summary else None,
        consensus=consensus(summary) if summary else None,
        against=tell_against(summary.doubtful, summary.against)[1:] if summary else [],
        scored=summary is not None and summary.against is not None,
    )  # fmt: skip
    page = template("compare.html")

    def draw(count: int) -> str:
        fewer = shares({kind: len(places[kind]) for kind in kinds}, count)
        chosen = {kind: [made[place] for place in places[kind][: fewer[kind]]] for kind in kinds}
        return page.render(values | galleries(chosen, examples, summary, labelled))

    return fitted(draw, sum(map(len, places.values())))


def kinds_shown(examples: Examples, order: list[str]) -> list[Kind]:
    """The kinds that have images: by tag, and by network in the run's order."""
    ranks = {name: rank for rank, name in enumerate(order)}
    return sorted(examples.counts, key=lambda kind: (TAGS.index(kind[0]), ranks.get(kind[1], len(ranks)), kind[1]))


def galleries(
    chosen: dict[Kind, list[Card]], examples: Examples, summary: Comparison | None, labelled: bool
) -> dict[str, Any]:
    """The images by tag, how many there are of each, and the classes they can be filtered by."""
    by_tag: dict[str, list[dict[str, Any]]] = {}
    for kind, some in chosen.items():
        tag, network = kind
        total = examples.counts[kind]
        if summary is not None:
            flips = summary.flips
            known = {AGAINST: summary.doubtful, "dissent": summary.dissent.get(network)}
            known |= {"broken": flips.broken, "fixed": flips.fixed} if flips else {}
            total = max(total, known.get(tag) or 0)
        by_tag.setdefault(tag, []).append({"network": network, "cards": some, "total": total})
    everything = [card for some in chosen.values() for card in some]
    classes = sorted({card.key: card.right for card in everything}.items())
    return {
        "galleries": [(tag, by_tag[tag]) for tag in TAGS if tag in by_tag],
        "filters": [("t", "Images labelled" if labelled else "The others say", classes)] if everything else [],
        "reduced": any(card.image is not None and card.image.copied for card in everything),
        "tiny": all(card.image is None or card.image.small for card in everything),
    }


def accuracy(rows: tuple[Share, ...], old: str | None, new: str | None) -> dict[str, Any]:
    """A dot with its interval for every network, on one scale."""
    known = [row for row in rows if row.share == row.share]
    scale = Scale.over(value for row in known for value in (row.low, row.high))
    return {
        "ticks": scale.ticks,
        "rows": [
            {
                "row": row, "kind": "new" if row.network == new else "old" if row.network == old else "other",
                "at": scale.at(row.share), "low": scale.at(row.low),
                "width": round(scale.at(row.high) - scale.at(row.low), 3),
            }
            for row in known
        ],
    }  # fmt: skip


def difference(summary: Comparison) -> dict[str, str] | None:
    """New less old in points, in words. Beyond chance where its interval leaves out 0."""
    if summary.flips is None:
        return None
    points, low, high = summary.flips.difference
    return {
        "points": words.plus(points, 2), "low": words.plus(low, 2), "high": words.plus(high, 2),
        "size": words.number(abs(points), 2),
        "way": "better" if points > 0 else "worse",
        "sure": "yes" if low > 0 or high < 0 else "",
        "p": words.p_value(summary.flips.p),
    }  # fmt: skip


def flip_picture(summary: Comparison) -> list[dict[str, Any]] | None:
    """The four cells, old right before old wrong; the area of each one's square is its count."""
    flips = summary.flips
    if flips is None:
        return None
    cells = (
        ("both-right", "both right", flips.both_right), ("broken", "broken", flips.broken),
        ("fixed", "fixed", flips.fixed), ("both-wrong", "both wrong", flips.both_wrong),
    )  # fmt: skip
    most = max(1, *(count for _, _, count in cells))
    return [
        {
            "kind": kind, "text": text, "count": count, "share": count / max(1, flips.n),
            "side": round(100 * (count / most) ** 0.5, 2),
        }
        for kind, text, count in cells
    ]  # fmt: skip


def changes(summary: Comparison) -> dict[str, Any] | None:
    """Accuracy per class from old to new, the worst change first; of many classes the two ends."""
    pairs = []
    for one in summary.per_class:
        before, after = one.share(summary.old), one.share(summary.new)
        if before is not None and after is not None:
            pairs.append((one, before.share, after.share))
    if not pairs:
        return None
    pairs.sort(key=lambda pair: (pair[2] - pair[1], -pair[0].broken, pair[0].name))
    many = len(pairs) > 2 * EACH_END
    shown = pairs[:EACH_END] + pairs[-EACH_END:] if many else pairs
    scale = Scale.over(value for _, before, after in shown for value in (before, after))
    rows = [_change(one, before, after, scale, summary) for one, before, after in shown]
    return {
        "ticks": scale.ticks, "rows": rows, "classes": len(pairs), "gap": EACH_END if many else None,
        "others": [name for name in summary.networks if name not in (summary.old, summary.new)],
    }  # fmt: skip


def _change(one: OneClass, before: float, after: float, scale: Scale, summary: Comparison) -> dict[str, Any]:
    start, end = scale.at(before), scale.at(after)
    order = [name for name in (summary.old, summary.new) if name is not None]
    order += [name for name in summary.networks if name not in order]
    return {
        "one": one, "points": words.plus(100 * (after - before)), "old": start, "new": end,
        "way": "same" if start == end else "worse" if after < before else "better",
        "left": min(start, end), "width": round(abs(end - start), 3),
        "shares": [one.share(name) for name in order],
    }  # fmt: skip


def consensus(summary: Comparison) -> dict[str, Any] | None:
    """Without labels: how often the networks agree, and who dissents."""
    if summary.consensus is None:
        return None
    each = summary.consensus.dissent if len(summary.networks) > 2 else {}  # of two, each dissents from the other
    most = max(1, *each.values()) if each else 1
    return {
        "agree": summary.consensus.agree, "split": summary.consensus.split, "alone": sum(each.values()),
        "share": summary.consensus.agree / max(1, summary.images),
        "rows": [(name, count, round(100 * count / most, 2)) for name, count in each.items()],
    }  # fmt: skip
