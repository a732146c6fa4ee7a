"""The page of a ranked pool: images as they are, those first on which the suspect dissents most clearly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from foible.errors import UserError
from foible.recipes.rank.summary import read_summary
from foible.report import choose, figures
from foible.report.atlas import Best, Place, anchor
from foible.report.cards import CARD, Mistake, mistake
from foible.report.counts import Counts, count
from foible.report.page import fitted, skeleton, template
from foible.report.run import OpenRun

_CARD = (*CARD, "outcome", "origin_index")


@dataclass(frozen=True)
class Ranked:
    """One image of the pool."""

    mistake: Mistake
    place: Place
    rank: int
    suspect: int  # its number
    where: str  # its file, or its number in the data
    label: str  # what the data itself calls it; "" where it says nothing
    common: str  # what all peers say
    key: int  # of that class; -1 where they differ on the kept pixels
    unsettled: bool  # only the original file shows it

    @property
    def anchor(self) -> str:
        return anchor(self.place)


def render(source: OpenRun, *, title: str | None = None, gallery: int = 1000, **_: Any) -> str:
    """The HTML of a ranked pool."""
    result = count(source)
    about, axis = result.about, figures.confusion_axis(result)
    summary = _summary(source)
    values = skeleton(
        source, about, result.versions, title,
        result=result,
        summary=summary,
        people=any(config.get("label") == "people" for config in (about.configs or {}).values()),
        first=_first(summary, result),
        axis=[about.class_name(None if label < 0 else label) for label in axis],
        confusions=figures.confusions(result, axis),
    )  # fmt: skip
    page = template("pool.html")
    places = best_places(source, gallery)
    rows = dict(zip(sorted(places), choose.rows_at(source, sorted(places), _CARD), strict=True))
    names = list(result.suspects)
    cards = [
        Ranked(
            mistake(rows[place], about),
            place,
            rank,
            names.index(rows[place]["suspect"]),
            f"image {rows[place]['origin_index']}" if rows[place]["origin_file"] is None else "",
            "" if rows[place]["truth"] is None else about.class_name(rows[place]["truth"]),
            about.class_name(rows[place]["consensus"]),
            -1 if rows[place]["consensus"] is None else rows[place]["consensus"],
            rows[place]["outcome"] == "unsettled",
        )
        for rank, place in enumerate(places, 1)
    ]
    return fitted(lambda count: page.render(values | _gallery(cards[:count], names, result)), len(cards))


def best_places(source: OpenRun, count: int) -> list[Place]:
    """Where the images with the highest scores stand, best first. Of equals the first; what has no score comes last."""
    best = Best(count)
    for part, table in enumerate(source.tables(("score", "outcome"))):
        kept = [(row, score) for row, (score, outcome) in enumerate(zip(*table.to_pydict().values(), strict=True))
                if outcome in ("found", "unsettled")]  # fmt: skip
        best.add([(part, row) for row, _ in kept], [-float("inf") if score is None else score for _, score in kept])
    return best.places(count)


def _gallery(cards: list[Ranked], names: list[str], result: Counts) -> dict[str, Any]:
    mistakes = [card.mistake for card in cards]
    return {
        "cards": cards,
        "typical": any(one.realism is not None for one in mistakes),
        "reduced": any(one.image is not None and one.image.copied for one in mistakes),
        "photos": any(one.image is not None and not one.image.small for one in mistakes),
        "filters": [
            ("s", "Suspect", [(place, name) for place, name in enumerate(names) if result.suspects[name].trials]),
            ("t", "Peers say", sorted({card.key: card.common for card in cards}.items())),
            ("w", "Suspect said", sorted({one.keys[1]: one.said for one in mistakes}.items())),
        ],
    }


def _summary(source: OpenRun) -> dict[str, Any]:
    """pool.json of the run; empty where it is damaged, or for a run that is not finished."""
    try:
        return {} if source.folder is None else read_summary(source.folder)
    except UserError:
        return {}


def _first(summary: dict[str, Any], result: Counts) -> dict[str, Any] | None:
    """The suspect that dissents most often, for the headline."""
    if summary:
        row = max(summary["suspects"], key=lambda row: row["dissent"], default=None)
        if row is not None and row["dissent"]:
            return {"name": row["suspect"], "dissent": row["dissent"], "images": summary["images"]}
        return None
    most = max(result.suspects.values(), key=lambda suspect: suspect.found, default=None)
    return None if most is None or not most.found else {"name": most.name, "dissent": most.found, "images": None}
