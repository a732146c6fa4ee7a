"""The page of a hunt: who can be made wrong, how often, by what, and the images."""

from __future__ import annotations

from typing import Any

from foible.report import atlas, choose, figures, words
from foible.report.atlas import Place
from foible.report.cards import CARD, Mistake, mistake, ordered
from foible.report.counts import Counts, Suspect, count
from foible.report.mended import mended_of
from foible.report.page import fitted, skeleton, template
from foible.report.run import OpenRun
from foible.report.why import maps_of

_SESSION = (*CARD, "trace", "film")


def render(source: OpenRun, *, title: str | None = None, gallery: int = 1000, sessions: int = 8) -> str:
    """The HTML of a hunt's report."""
    result = count(source)
    about, axis = result.about, figures.confusion_axis(result)
    why, mended = maps_of(source), mended_of(source)
    dropped = source.labels.dropped
    session_rows = [
        row
        for row in choose.rows_at(source, choose.session_places(result, sessions), _SESSION)
        if row["id"] not in dropped
    ]
    values = skeleton(
        source, about, result.versions, title,
        again="The same hunt command",
        result=result,
        canvas=words.canvases(about.configs or {}),
        headline=headline(result),
        space=words.space_words(about.configs or {}),
        results=figures.results(result),
        sessions=[(mistake(row, about, why, mended), figures.session(row)) for row in session_rows],
        explained=bool(why),
        axis=[about.class_name(None if label < 0 else label) for label in axis],
        confusions=figures.confusions(result, axis),
        backwards=any(suspect.backwards for suspect in result.suspects.values()),
        components=figures.components(result),
        standouts=figures.standouts(result),
    )  # fmt: skip
    page = template("hunt.html")
    places = list(choose.gallery_places(source, result, gallery))
    rows = choose.rows_at(source, [place for place, _ in places], CARD)
    kept = [(place, rank, row) for (place, rank), row in zip(places, rows, strict=True) if row["id"] not in dropped]
    cards = [(place, mistake(row, about, why, mended)) for place, _, row in kept]
    ranks = [rank for _, rank, _ in kept]

    def draw(count: int) -> str:
        return page.render(values | _gallery([cards[place] for place in choose.fewer(ranks, count)], result))

    return fitted(draw, len(cards))


def _gallery(some: list[tuple[Place, Mistake]], result: Counts) -> dict[str, Any]:
    """The cards, what they can be filtered and ordered by, and the maps that link to them."""
    names = list(result.suspects)
    cards, orders = ordered(some, names)
    mistakes = [mistake for _, mistake in some]
    suspects = {
        name: suspect.atlas
        for name, suspect in result.suspects.items()
        if result.atlas or suspect.found >= figures.ENOUGH
    }
    return {
        "cards": cards,
        "orders": orders,
        "atlas": atlas.draw(suspects, result.about, {place for place, _ in some}, result.atlas),
        "reduced": any(one.image is not None and one.image.copied for one in mistakes),
        "photos": any(one.image is not None and not one.image.small for one in mistakes),
        "shrunk": any(one.least is not None for one in mistakes),
        "typical": any(one.realism is not None for one in mistakes),
        "filters": [
            (
                "s",
                "Suspect",
                [(place, name) for place, name in enumerate(names) if result.suspects[name].found],
            ),
            ("t", "Right class", sorted({one.keys[0]: one.right for one in mistakes}.items())),
            ("w", "Suspect said", sorted({one.keys[1]: one.said for one in mistakes}.items())),
        ],
    }


def headline(result: Counts) -> dict[str, Any]:
    """The answer of the run in a sentence: the weakest suspect, and what the others came to."""

    def weakness(suspect: Suspect) -> float:
        return len(suspect.atlas.cells) if result.atlas else suspect.solved / max(1, suspect.trials)

    suspects = sorted(result.suspects.values(), key=lambda s: -weakness(s))
    if not suspects or not suspects[0].found:
        return {"suspect": None}
    first, others = suspects[0], [weakness(s) for s in suspects[1:]]
    stay = "agree" if result.consensus else "stay right"
    peers = {0: "", 1: "its peer keeps its answer" if result.consensus else "its peer stays right"}.get(
        first.peers, f"both peers {stay}" if first.peers == 2 else f"all {words.count_word(first.peers)} peers {stay}"
    )
    rest = ""
    if others:
        say = words.number if result.atlas else words.percent
        low, high = say(others[-1]), say(others[0])
        who = (
            f"The other suspect, {suspects[1].name}"
            if len(others) == 1
            else f"The other {words.count_word(len(others))} suspects"
        )
        rest = f"{who}: {low}." if low == high else f"{who}: {low} to {high}."
    return {
        "suspect": first.name, "solved": first.solved, "trials": first.trials, "cells": len(first.atlas.cells),
        "images": first.images, "images_solved": first.images_solved,
        "peers": peers, "rest": rest,
    }  # fmt: skip
