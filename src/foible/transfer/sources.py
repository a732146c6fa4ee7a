"""Distortions to be transferred: one network's, and how they are read from the findings of `foible distort`."""

from __future__ import annotations

from collections.abc import Mapping
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

    runs: findings, or run folders. Images that all of them distorted are taken, in the order of the data: with
        `wrong=True` and one seed these are all images, for whatever source.
    images: "exact", the floats that were found, which rows keep of up to 12,288 values; or "saved", those on 8 bits.

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
    places = torch.tensor(sorted(common))
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
    sizes, found = table.column(IMAGES[images]).to_pylist(), _found(table, images).tolist()
    best = [min(rows, key=lambda row: sizes[row] if found[row] else torch.inf) for rows in by_place.values()]
    worst = [max(rows, key=lambda row: sizes[row] if found[row] else -1.0) for rows in by_place.values()]
    # The draw of `target="random"`, by place: the same label, whichever way it is asked for.
    places = torch.tensor([*by_place])
    drawn = integers(settings["seed"], places, stream="distort.target", high=classes - 1, count=1)[:, 0]
    labels = _labels(table.take(best), settings)
    wanted = (drawn + (drawn >= labels)).tolist()
    targets = table.column("target").to_pylist()
    named = [[row for row in rows if targets[row] == to] for rows, to in zip(by_place.values(), wanted, strict=True)]
    random = [("random", [rows[0] for rows in named])] if all(named) else []
    return [("best", best), *random, ("worst", worst)]


def _found(table: pa.Table, images: str) -> Tensor:
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
    if images == "saved":
        moved = _pixels(table, "image")
    else:
        values = pc.list_value_length(table.column("point"))
        if pc.unique(values).to_pylist() != [origins[0].numel()]:
            raise UserError(
                'the rows do not hold their exact floats (of at most 12,288 values): take images="saved", on 8 bits'
            )
        moved = torch.tensor(pc.list_flatten(table.column("point")).to_numpy()).view_as(origins)
    return Source(
        moved, origins, _labels(table, settings), settings["norm"], target, settings["method"], _found(table, images),
        places,
    )  # fmt: skip


def _pixels(table: pa.Table, column: str) -> Tensor:
    """(n, channels, height, width) in [0, 1]."""
    rows = zip(table.column("id").to_pylist(), table.column(column).to_pylist(), strict=True)
    pictures = [decode_png(data, repr(id)) for id, data in rows]
    if len({picture.shape for picture in pictures}) > 1:
        raise UserError("the images of the findings have different sizes: give runs of one network and one size")
    return to_floats(torch.stack(pictures))
