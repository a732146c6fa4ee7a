"""Distorted images as panels: original, difference ×10 around grey, distorted (paper 3, Fig. 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from foible.errors import UserError
from foible.images import decode_png, encode_png
from foible.report import words
from foible.report.atlas import Place
from foible.report.choose import fewer, rows_at
from foible.report.pictures import Picture, picture, size
from foible.report.run import About, OpenRun

TIMES = 10  # by which a difference is shown larger
FIRST = ("outcome", "truth", "consensus", "change", "versions", "origin_data", "origin_split")
CARD = (
    "id", "suspect", "networks", "outcome", "truth", "consensus", "said", "target", "after", "before", "change",
    "distance_exact", "image", "origin", "origin_index", "origin_file",
)  # fmt: skip
LOST = 24  # of the images that were not found, so many of each outcome are shown


@dataclass(frozen=True)
class Panel:
    id: str
    place: Place
    right: str
    said: str
    sure: str  # the source's probability for what it says now
    asked: str  # the label that it was to say, where it says another; "" otherwise
    outcome: str
    sizes: str
    rms: float | None  # for ordering
    fooled: tuple[str, ...]  # judges that had it right before and do not now
    judges: int  # how many had it right before
    where: str
    keys: tuple[int, int]  # class indices, right and said
    layered: bool  # a layer's output was distorted, and the image was not
    origin: Picture | None
    difference: Picture | None  # None where nothing was changed
    image: Picture | None


def difference(origin: bytes | None, image: bytes | None) -> bytes | None:
    """image − origin, `TIMES` larger, around the grey of 128, as a PNG; None where they cannot be told apart."""
    if origin is None or image is None or origin == image or size(origin) != size(image) or size(image) is None:
        return None
    try:
        old, new = (decode_png(png).to(torch.int16) for png in (origin, image))
    except UserError:  # no picture, or one that is damaged
        return None
    if old.shape != new.shape:
        return None
    return encode_png((128 + TIMES * (new - old)).clamp(0, 255).to(torch.uint8))


def panel(row: dict[str, Any], place: Place, about: About) -> Panel:
    """One row in words and pictures."""
    right = row["consensus"] if row["truth"] is None else row["truth"]
    lines = list(zip(row["networks"] or (), row["before"] or (), row["after"] or (), strict=False))
    layered = any(name.endswith("of the layer") for name, _ in row["change"] or ())
    judges = [(name, _said(after)) for name, before, after in lines[1:] if _said(before) == right and not layered]
    change = dict(row["change"] or ())
    own = lines[0][2] if lines else []
    sure = own[row["said"]] if row["said"] is not None and row["said"] < len(own) else None
    asked = row["target"] if row["target"] != row["said"] else None
    return Panel(
        id=str(row["id"]),
        place=place,
        right=about.class_name(right),
        said="no answer" if row["said"] is None else about.class_name(row["said"]),
        sure=words.probability(sure),
        asked="" if asked is None else about.class_name(asked),
        outcome=str(row["outcome"]),
        sizes=_sizes(change),
        rms=change.get("rms", change.get("rms of the layer")),
        fooled=tuple(str(name) for name, said in judges if said != right),
        judges=len(judges),
        where=f"image {row['origin_index']}" if row["origin_file"] is None else str(row["origin_file"]),
        keys=(-1 if right is None else right, -1 if row["said"] is None else row["said"]),
        layered=layered,
        origin=picture(row["origin"]),
        difference=picture(difference(row["origin"], row["image"])),
        image=picture(row["image"]),
    )


def _sizes(change: dict[str, float]) -> str:
    if "share of the layer" in change:
        return f"{words.percent(change['share of the layer'])} of the layer’s length"
    if not change.get("rms"):
        return "no change"
    largest = f", largest pixel {round(255 * change.get('linf', 0.0))} of 255 levels"
    return f"RMS {change['rms']:.4f}{largest}"


def _said(line: list[float | None] | None) -> int | None:
    values = [value for value in line or () if value is not None and value == value]
    return values.index(max(values)) if values and len(values) == len(line or ()) else None


def chosen(outcomes: Iterable[tuple[Place, str]], gallery: int) -> list[Place]:
    """Of what was found an even spread of `gallery`; of each other outcome a few."""
    kinds: dict[str, list[Place]] = {}
    for place, outcome in outcomes:
        kinds.setdefault(outcome, []).append(place)
    some: list[Place] = []
    for outcome, places in kinds.items():
        most = gallery if outcome == "found" else min(LOST, gallery)
        some += [places[number] for number in fewer([0] * len(places), most)]
    return sorted(some)


def panels(source: OpenRun, places: list[Place], about: About) -> list[Panel]:
    """The panels of these rows, by label and answer, the smallest change first."""
    rows = zip(places, rows_at(source, places, CARD), strict=True)
    made = [panel(row, place, about) for place, row in rows]
    return sorted(made, key=lambda one: (one.outcome != "found", one.outcome, one.keys, one.rms or 0.0, one.place))
