"""Put a report together and write it."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings import Findings
from foible.report import choose, figures, words
from foible.report.source import Source
from foible.report.tally import Tally, tally

LIMIT = 8_000_000  # bytes of a report
_CARD = ("id", "suspect", "networks", "truth", "consensus", "said", "after", "change", "image", "origin")
_SESSION = (*_CARD, "moves", "trace", "film")


def write_report(
    run: str | Path | Findings,
    out: str | Path | None = None,
    *,
    title: str | None = None,
    gallery: int = 1000,
    sessions: int = 8,
) -> Path:
    """Write one HTML file that shows a run, and return its path.

    It needs nothing but itself: no network, no script. The same run gives the same bytes.

    run: a run folder, a Parquet file of findings, or findings in memory.
    out: the file to write, or a folder for `report.html`; by default inside the run folder, or beside
        the Parquet file.
    gallery: at most so many findings are shown as cards; fewer where the file would grow beyond 8 MB.
    sessions: so many findings are shown step by step.
    """
    source = Source.open(run)
    target = _target(run, out)
    page = render(source, title=title, gallery=gallery, sessions=sessions)
    _write(target, page.encode("utf-8", "replace"))  # a name may hold half a surrogate pair
    return target


def render(source: Source, *, title: str | None = None, gallery: int = 1000, sessions: int = 8) -> str:
    """The HTML of a report."""
    result = tally(source)
    about, axis = result.about, figures.confusion_axis(result)
    session_rows = choose.rows_at(source, choose.session_places(result, sessions), _SESSION)
    values: dict[str, Any] = {
        "title": title or f"Foible report: {source.name}",
        "run": source.name,
        "units": (len(source.parts), source.units),
        "result": result,
        "headline": headline(result),
        "space": words.space_words(about.configs or {}),
        "settings": words.settings(about.configs or {}),
        "results": figures.results(result),
        "sessions": [(figures.mistake(row, about), figures.session(row)) for row in session_rows],
        "axis": [about.class_name(None if label < 0 else label) for label in axis],
        "confusions": [figures.confusion(s, axis, about) for s in result.suspects.values() if s.found],
        "components": figures.components(result),
        "standouts": figures.standouts(result),
        "config_json": json.dumps(about.configs, indent=2, sort_keys=True, ensure_ascii=False),
        "versions": sorted(_versions(text) for text in result.versions),
    }
    template = _template()
    places = choose.gallery_places(source, result, gallery)
    cards = [figures.mistake(row, about) for row in choose.rows_at(source, places, _CARD)]
    while True:
        page = template.render(values | _gallery(cards, result))
        size = len(page.encode("utf-8", "replace"))
        if size <= LIMIT or not cards:
            return page
        cards = _spread(cards, min(len(cards) - 1, int(0.99 * len(cards) * LIMIT / size)))


def _spread(cards: list[figures.Mistake], count: int) -> list[figures.Mistake]:
    """Fewer cards, taken evenly."""
    return [cards[place * len(cards) // count] for place in range(count)]


def _gallery(cards: list[figures.Mistake], result: Tally) -> dict[str, Any]:
    """The cards in reading order, and what they can be filtered by."""
    names = list(result.suspects)
    ordered = sorted(cards, key=lambda card: (names.index(card.suspect), card.keys))
    rights = {card.keys[0]: card.right for card in ordered}
    saids = {card.keys[1]: card.said for card in ordered}
    return {
        "cards": [(names.index(card.suspect), card) for card in ordered],
        "reduced": any(card.image is not None and card.image.reduced for card in cards),
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


def _versions(text: str) -> str:
    try:
        return ", ".join(f"{key} {value}" for key, value in json.loads(text).items())
    except (ValueError, AttributeError):
        return text


def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=words.number, percent=words.percent, compact=words.compact)
    files = resources.files("foible.report")
    environment.globals["css"] = Markup(files.joinpath("style.css").read_text("utf-8"))  # ours, not the user's
    return environment.from_string(files.joinpath("template.html").read_text("utf-8"))


def _target(run: str | Path | Findings, out: str | Path | None) -> Path:
    if out is not None:
        return Path(out) / "report.html" if Path(out).is_dir() else Path(out)
    if isinstance(run, Findings):
        raise UserError(
            "these findings are in memory: say where the report goes, write_report(findings, 'report.html')"
        )
    return Path(run) / "report.html" if Path(run).is_dir() else Path(run).with_suffix(".html")


def _write(target: Path, data: bytes) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {str(target.parent)!r}: {error.strerror or error}") from error
    write_atomically(target, data)
