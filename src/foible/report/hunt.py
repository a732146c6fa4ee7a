"""The page of a hunt: who can be made wrong, how often, by what, and the images."""

from __future__ import annotations

from typing import Any

from foible.report import choose, figures, words
from foible.report.page import fitted, settings_json, template, versions
from foible.report.source import Source
from foible.report.tally import Tally, tally

_CARD = (
    "id", "suspect", "networks", "truth", "consensus", "said", "after", "change", "image", "origin", "origin_file",
)  # fmt: skip
_SESSION = (*_CARD, "moves", "trace", "film")


def render(source: Source, *, title: str | None = None, gallery: int = 1000, sessions: int = 8) -> str:
    """The HTML of a hunt's report."""
    result = tally(source)
    about, axis = result.about, figures.confusion_axis(result)
    session_rows = choose.rows_at(source, choose.session_places(result, sessions), _SESSION)
    values: dict[str, Any] = {
        "title": title or f"Foible report: {source.name}",
        "run": source.name,
        "units": (len(source.parts), source.units),
        "result": result,
        "clean": source.clean,
        "unread": source.unreadable,
        "notes": source.notes,
        "canvas": words.canvases(about.configs or {}),
        "headline": headline(result),
        "space": words.space_words(about.configs or {}),
        "settings": words.settings(about.configs or {}),
        "results": figures.results(result),
        "sessions": [(figures.mistake(row, about), figures.session(row)) for row in session_rows],
        "axis": [about.class_name(None if label < 0 else label) for label in axis],
        "confusions": [figures.confusion(s, axis, about) for s in result.suspects.values() if s.found],
        "components": figures.components(result),
        "standouts": figures.standouts(result),
        "config_json": settings_json(about.configs),
        "schema_version": about.schema_version,
        "versions": versions(result.versions),
    }
    page = template("hunt.html")
    places = choose.gallery_places(source, result, gallery)
    cards = [figures.mistake(row, about) for row in choose.rows_at(source, places, _CARD)]
    return fitted(lambda count: page.render(values | _gallery(_spread(cards, count), result)), len(cards))


def _spread(cards: list[figures.Mistake], count: int) -> list[figures.Mistake]:
    """So many of the cards, taken evenly."""
    return [cards[place * len(cards) // count] for place in range(count)]


def _gallery(cards: list[figures.Mistake], result: Tally) -> dict[str, Any]:
    """The cards in reading order, and what they can be filtered by."""
    names = list(result.suspects)
    ordered = sorted(cards, key=lambda card: (names.index(card.suspect), card.keys))
    rights = {card.keys[0]: card.right for card in ordered}
    saids = {card.keys[1]: card.said for card in ordered}
    return {
        "cards": [(names.index(card.suspect), card) for card in ordered],
        "reduced": any(card.image is not None and card.image.copied for card in cards),
        "photos": any(card.image is not None and not card.image.small for card in cards),
        "filters": [
            (
                "s",
                "Suspect",
                [(place, name) for place, name in enumerate(names) if result.suspects[name].found],
            ),
            ("t", "Right class", sorted(rights.items())),
            ("w", "Suspect said", sorted(saids.items())),
        ],
    }


def headline(result: Tally) -> dict[str, Any]:
    """The answer of the run in a sentence: the weakest suspect, and what the others came to."""
    suspects = sorted(result.suspects.values(), key=lambda s: -s.found / max(1, s.trials))
    if not suspects or not suspects[0].found:
        return {"suspect": None}
    first, others = suspects[0], [s.found / max(1, s.trials) for s in suspects[1:]]
    peers = {0: "", 1: "its peer stays right", 2: "both peers stay right"}.get(
        first.peers, f"all {words.count_word(first.peers)} peers stay right"
    )
    rest = ""
    if others:
        low, high = words.percent(others[-1]), words.percent(others[0])
        who = (
            f"The other suspect, {suspects[1].name}"
            if len(others) == 1
            else f"The other {words.count_word(len(others))} suspects"
        )
        rest = f"{who}: {low}." if low == high else f"{who}: {low} to {high}."
    return {"suspect": first.name, "found": first.found, "trials": first.trials, "peers": peers, "rest": rest}
