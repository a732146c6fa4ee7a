"""Distortions to be transferred: one network's, and how they are read from the findings of `foible distort`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from foible.errors import UserError
from foible.findings import Findings
from foible.images import decode_png, to_floats
from foible.randomness import integers

READINGS = ("best", "random", "worst")  # of a run with a row for each label
IMAGES = {"exact": "distance_exact", "saved": "distance"}  # which images are meant, and the column of their distances


@dataclass(frozen=True, eq=False)
class Source:
    """One network's distortions. images, origins: (n, channels, height, width) in [0, 1]; labels: (n,), the truth.

    Where nothing was found, and where the network erred already, leave the image as the search left it: it is counted
    like any other, as in the paper's "accuracy on the whole training set".
    found, places: (n,) whether something was, and where the images stand in their data, if that is known.
    """

    images: Tensor
    origins: Tensor
    labels: Tensor
    norm: str = "l2"
    target: str = "best"
    method: str = "closest"
    found: Tensor | None = None
    places: Tensor | None = None


def from_findings(*runs: Findings | str | Path, images: str = "exact") -> dict[str, list[Source]]:
    """What `foible distort` found, as `transfer` takes it: for each network that was distorted for, a `Source` a run.

    runs: findings, or run folders. Images that all of them distorted are taken, in the order of the first: with
        `wrong=True` and one seed, or the same `places`, these are all images, for whatever source.
    images: "exact", the floats that were found, which rows keep of up to 12,288 values, or with `floats=True` of any
        number; or "saved", those on 8 bits.

    A run with `target="each"` gives three sources: "best" has the nearest label of each image, "worst" the farthest
    that was reached, and "random" the one that `target="random"` would have drawn (unless `likeliest` left it out).
    """
    if images not in IMAGES:
        raise UserError(f"images is {images!r}: expected {' or '.join(IMAGES)}")
    opened = [run if isinstance(run, Findings) else Findings.open(run) for run in runs]
    findings = Findings.concat(opened)
    parts: list[tuple[str, str, dict[str, Any], pa.Table]] = []
    configs = findings.configs
    for key in pc.unique(findings.table.column("config")).to_pylist():
        settings = configs[key]
        _check_settings(settings)
        mine = findings.filter(config=key).table
        for source in pc.unique(mine.column("suspect")).to_pylist():
            here = mine.filter(pc.equal(mine.column("suspect"), source))
            parts += [
                (source, target, settings, here.take(rows))
                for target, rows in _readings(here, settings, len(findings.classes), images)
            ]
    if not parts:
        raise UserError("the findings have no rows: nothing was distorted")
    common = set.intersection(*({*table.column("origin_index").to_pylist()} for *_, table in parts))
    if not common:
        raise UserError(
            "no image was distorted in all runs: distort the same images for every source, of the same data with the "
            "same seed and with wrong=True"
        )
    first = parts[0][3].column("origin_index").to_pylist()
    places = torch.tensor([place for place in first if place in common])
    made: dict[str, list[Source]] = {}
    for source, target, settings, table in parts:
        made.setdefault(source, []).append(_source(table, places, target, settings, images))
    return made


def _check_settings(settings: Mapping[str, Any]) -> None:
    if not {"target", "norm", "method"} <= settings.keys():
        raise UserError(f"findings of {settings.get('recipe')!r}: expected those of `foible distort`")
    if settings.get("layer") is not None:
        raise UserError(f"findings in the layer {settings['layer']!r}: its images are as they were, none to transfer")


def _readings(table: pa.Table, settings: Mapping[str, Any], classes: int, images: str) -> list[tuple[str, list[int]]]:
    """(what the target is called, the row of each image), once for every way to take one row an image."""
    by_place: dict[int, list[int]] = {}
    for row, place in enumerate(table.column("origin_index").to_pylist()):
        by_place.setdefault(place, []).append(row)
    if settings["target"] != "each":
        return [(settings["target"], [rows[0] for rows in by_place.values()])]
    rows = torch.tensor([*by_place.values()])
    sizes = torch.tensor(table.column(IMAGES[images]).to_numpy())[rows]
    found, targets = found_in(table, images)[rows], torch.tensor(table.column("target").to_numpy())[rows]
    # The draw of `target="random"`, by place: the same label, whichever way it is asked for.
    places = torch.tensor([*by_place])
    drawn = integers(settings["seed"], places, stream="distort.target", high=classes - 1, count=1)[:, 0]
    labels = _labels(table.take(rows[:, 0].tolist()), settings)
    named = targets == (drawn + (drawn >= labels))[:, None]
    kinds = [kind for kind in READINGS if kind != "random" or bool(named.any(1).all())]
    taken = {kind: one_each(kind, sizes, found, named.int().argmax(1)) for kind in kinds}
    return [(kind, rows.gather(1, which[:, None])[:, 0].tolist()) for kind, which in taken.items()]


def one_each(reading: str, sizes: Tensor, found: Tensor, drawn: Tensor) -> Tensor:
    """(n,): which of the k labels that were tried for each image is meant: "best" is the nearest that was reached,
    "worst" the farthest, "random" the one that is `drawn` (n,). sizes, found: (n, k). One that was not reached is the
    best or the worst only where none was."""
    if reading == "random":
        return drawn
    if reading == "best":
        return sizes.masked_fill(~found, torch.inf).argmin(1)
    return sizes.masked_fill(~found, -1.0).argmax(1)


def found_in(table: pa.Table, images: str = "exact") -> Tensor:
    """(n,) whether these images are what was asked for: of exact ones those that 8 bits cannot hold are too."""
    wanted = ["found", "unsettled"] if images == "exact" else ["found"]
    hit = pc.is_in(table.column("outcome"), value_set=pa.array(wanted))
    return torch.tensor(pc.and_(hit, table.column(IMAGES[images]).is_valid()).to_pylist(), dtype=torch.bool)


def _labels(table: pa.Table, settings: Mapping[str, Any]) -> Tensor:
    labels = table.column("consensus" if settings.get("unlabelled") else "truth")
    if labels.null_count:
        raise UserError("some findings have no label: errors cannot be counted on them")
    return torch.tensor(labels.to_pylist())


def _source(table: pa.Table, places: Tensor, target: str, settings: Mapping[str, Any], images: str) -> Source:
    where = {place: row for row, place in enumerate(table.column("origin_index").to_pylist())}
    table = table.take([where[place] for place in places.tolist()])
    origins = _pixels(table, "origin")
    moved = _pixels(table, "image") if images == "saved" else points_in(table, origins.shape)
    labels, found = _labels(table, settings), found_in(table, images)
    return Source(moved, origins, labels, settings["norm"], target, settings["method"], found, places)


def points_in(table: pa.Table, shape: Sequence[int]) -> Tensor:
    """(n, …), as `shape` says: the floats that were found, as the rows hold them."""
    points = table.column("point")
    if pc.unique(pc.list_value_length(points)).to_pylist() != [math.prod(shape) // len(table)]:
        raise UserError(
            "the rows do not hold their exact floats (of at most 12,288 values, unless distorted with --floats): take "
            'images="saved", on 8 bits'
        )
    return torch.tensor(pc.list_flatten(points).to_numpy()).view(*shape)


def _pixels(table: pa.Table, column: str) -> Tensor:
    """(n, channels, height, width) in [0, 1]."""
    rows = zip(table.column("id").to_pylist(), table.column(column).to_pylist(), strict=True)
    pictures = [decode_png(data, repr(id)) for id, data in rows]
    if len({picture.shape for picture in pictures}) > 1:
        raise UserError("the images of the findings have different sizes: give runs of one network and one size")
    return to_floats(torch.stack(pictures))
