"""The page of fooling images: the archive, class by class, how confidence grew, and who else falls for them."""

from __future__ import annotations

import io
import math
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from PIL import Image

from foible.recipes.fool.summary import noted, summarise
from foible.rejection.beside_run import kept
from foible.report import choose
from foible.report.counts import count
from foible.report.page import fitted, skeleton, template
from foible.report.pictures import Picture, frames, picture, size
from foible.report.run import About, OpenRun

COLUMNS = ("id", "suspect", "outcome", "target", "said", "after", "lane", "image", "networks")
STRIP = ("id", "suspect", "target", "image", "film", "trace", "path", "method")
STRIPS = 12  # classes whose generations are shown
PAUSE = 350  # milliseconds of a frame
WIDE, HIGH = 600, 160  # of the drawing of the way
MOST_LINES = 7
CHANCE = 0.5


@dataclass(frozen=True)
class Card:
    id: str
    suspect: str
    target: str
    image: Picture | None
    sure: float
    words: str
    found: bool
    keys: tuple[int, int]


@dataclass(frozen=True)
class Curve:
    """Lines in a drawing of WIDE × HIGH."""

    lines: list[tuple[str, str, float]]  # whose, as a path, and where it ends
    marks: list[tuple[int, float]]  # numbers below it, and where


@dataclass(frozen=True)
class Strip:
    """One cell of an archive, generation by generation."""

    title: str
    frames: list[tuple[Picture, int, float]]  # what it was after which generation, and how sure the network
    moving: Picture | None


def render(source: OpenRun, *, title: str | None = None, gallery: int = 400, **_: Any) -> str:
    """The HTML of a run's fooling images."""
    result, summary = count(source), summarise(source)
    about = result.about
    names = [row["suspect"] for row in summary["suspects"]]
    places = _places(source, gallery)
    rows = [row for row in choose.rows_at(source, places, COLUMNS) if row["id"] not in source.labels.dropped]
    cards = [_card(row, about, names) for row in rows]
    climbs = bool(summary["suspects"]) and summary["suspects"][0]["method"] == "ascent"
    values = skeleton(
        source, about, result.versions, title, again="The same command", summary=summary, climbs=climbs,
        strips=_strips(source, about), curve=_curve(summary, climbs), apart=_apart(source),
    ) | {
        "found": sum(row["images"] for row in summary["suspects"]),
        "filters": [
            ("s", "Suspect", list(enumerate(names))),
            ("t", "Class", sorted({card.keys[1]: card.target for card in cards}.items())),
        ],
    }  # fmt: skip
    page = template("fool.html")
    return fitted(lambda some: page.render(values | {"cards": cards[:some]}), len(cards))


def _apart(source: OpenRun) -> list[tuple[str, list[dict[str, Any]], dict[str, Any] | None]]:
    """Whose images, how well each score tells them from real ones, and the score to be recommended, if there is one."""
    told = []
    for suspect, rows in kept(source.folder).items():
        best = max(rows, key=lambda row: float(row["auroc"]), default=None)
        told.append((suspect, rows, best if best and best["low"] > CHANCE else None))
    return told


def _places(source: OpenRun, most: int) -> list[tuple[int, int]]:
    """Rows for the sheet: of each suspect whole runs, the first ones first."""
    kept: list[tuple[int, int, int, int]] = []
    for part, table in enumerate(source.tables(("suspect", "lane", "target", "outcome"))):
        kept += [
            (row["lane"] or 0, part, place, row["target"])
            for place, row in enumerate(table.to_pylist())
            if row["outcome"] != "invalid" and row["target"] is not None
        ]
    return [(part, place) for _, part, place, _ in sorted(sorted(kept)[:most], key=lambda one: one[1:3])]


def _card(row: dict[str, Any], about: About, names: list[str]) -> Card:
    sure = float(row["after"][0][row["target"]])
    others = [
        f"{name} {about.class_name(max(range(len(after)), key=after.__getitem__))} {max(after):.0%}"
        for name, after in zip(row["networks"][1:4], row["after"][1:4], strict=True)
    ]
    return Card(
        row["id"], row["suspect"], about.class_name(row["target"]), picture(row["image"]), sure, ", ".join(others),
        row["outcome"] == "found", (names.index(row["suspect"]), row["target"]),
    )  # fmt: skip


def _strips(source: OpenRun, about: About) -> list[Strip]:
    strips: list[Strip] = []
    for table in source.tables(STRIP):
        for row in table.filter(table.column("film").is_valid()).to_pylist():
            marks, trace = noted(row)
            shown = frames(row["film"], len(marks), row["image"])
            title = f"{row['suspect']}: {about.class_name(row['target'])}"
            if shown is None or len(strips) >= STRIPS or any(strip.title == title for strip in strips):
                continue
            strips.append(Strip(title, list(zip(shown, marks, trace, strict=True)), _moving(row["film"], len(marks))))
    return strips


def _moving(film: bytes, count: int) -> Picture | None:
    """The frames of a film one after another, as an animated WebP."""
    shape = size(film)
    if shape is None or shape[0] % count:
        return None
    width, height = shape[0] // count, shape[1]
    try:
        with Image.open(io.BytesIO(film), formats=("PNG",)) as strip:
            parts = [strip.crop((at * width, 0, (at + 1) * width, height)).convert("RGB") for at in range(count)]
            out = io.BytesIO()
            pauses = [PAUSE] * (count - 1) + [4 * PAUSE]
            parts[0].save(
                out, "WEBP", save_all=True, append_images=parts[1:], duration=pauses, loop=0, lossless=True, method=4
            )  # fmt: skip
    except Exception:  # the bytes may be anything, and Pillow may have been built without WebP
        return None
    return Picture(f"data:image/webp;base64,{b64encode(out.getvalue()).decode()}", width, height)


def _curve(summary: dict[str, Any], climbs: bool) -> Curve | None:
    """Median confidence on the way, one line a suspect (as in the paper's Sec. D)."""
    rows = [row for row in summary["suspects"] if len(row["medians"]) > 1 and row["marks"][-1] > 1]
    if not rows:
        return None
    last = max(row["marks"][-1] for row in rows)

    def across(mark: int) -> float:
        return round(WIDE * (mark / last if climbs else math.log(max(1, mark)) / math.log(last)), 2)

    lines = []
    for row in rows[:MOST_LINES]:
        points = zip(row["marks"], row["medians"], strict=True)
        path = " L".join(f"{across(mark)},{round(HIGH * (1 - value), 2)}" for mark, value in points)
        lines.append((row["suspect"], f"M{path}", row["medians"][-1]))
    marks = [mark for mark in (0, 1, 10, 100, 1000, 10_000) if mark <= last and (mark > 0) != climbs]
    return Curve(lines, [(mark, across(mark)) for mark in [*marks, last]])
