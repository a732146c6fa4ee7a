"""Rows of findings, put together from sections: dictionaries of some of the columns of `foible.findings.schema.SCHEMA`.

What every recipe says of its rows (who was asked, of which image, what they answered, what it cost) is a function here;
a recipe's rows are a union of these and of columns of its own:

    as_table(identity(…), origin(…), answered(…), cost(…), unmoved(count), ended(…), {"distance": …}, count=count)

n stands for the number of rows. Class numbers are tensors with -1 for none, which become null.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import interpolate

import foible
from foible.data import Dataset, Photographs
from foible.findings import SCHEMA
from foible.images import encode_png, to_bytes
from foible.objectives import Objective
from foible.png import packed
from foible.search.shrink import kinds_of
from foible.search.task import EXHAUSTED, FOUND, INVALID, Accepted
from foible.spaces import is_box

Columns = dict[str, Any]
FILM_HEIGHT = 64  # frames of a film are shrunk to at most this


def as_table(*sections: Columns, count: int) -> pa.Table:
    """The sections as `count` rows by `foible.findings.SCHEMA`. Of two with the same column the later wins; a column
    that is in none of them is null."""
    columns = {name: values for section in sections for name, values in section.items()}
    unknown = columns.keys() - set(SCHEMA.names)
    if unknown:
        raise KeyError(f"findings have no column {', '.join(sorted(unknown))}")
    return pa.table([as_column(name, columns.get(name), count) for name in SCHEMA.names], schema=SCHEMA)


def as_column(name: str, values: Any, count: int) -> pa.Array:
    """Values of a column of `count` rows; a text or a number stands for all rows, None for null in all of them."""
    kind = SCHEMA.field(name).type
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, str | int | float):
        return pa.repeat(pa.scalar(values, kind), count)
    if isinstance(values, Tensor):
        values = values.cpu().numpy()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def replaced(table: pa.Table, columns: Columns) -> pa.Table:
    """The table with other values in some of its columns."""
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))
    return table


def identity(
    networks: Sequence[Sequence[str]], lanes: Sequence[int], *, config: str, device: torch.device,
    which: Sequence[Any] | None = None,
) -> Columns:  # fmt: skip
    """networks: of each row, its suspect first. which: tells rows apart that have the same suspect and lane."""
    suspects = [names[0] for names in networks]
    ids = [f"{suspect}-{lane:06d}" for suspect, lane in zip(suspects, lanes, strict=True)]
    if which is not None:
        ids = [f"{id}-{part}" for id, part in zip(ids, which, strict=True)]
    return {
        "id": ids,
        "config": config,
        "suspect": suspects,
        "networks": networks,
        "lane": lanes,
        "versions": versions(device),
    }


def versions(device: torch.device) -> str:
    """What made a row, as JSON."""
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    made = {
        "foible": foible.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": kind,
    }
    return json.dumps(made)


def origin(data: Dataset | Photographs, index: Sequence[int], pngs: pa.Array) -> Columns:
    """index: where in the data the images stand. pngs: they themselves, as `as_pngs` makes them."""
    return {
        "origin": pngs,
        "origin_data": data.name,
        "origin_split": data.split,
        "origin_index": index,
        "origin_file": None if data.files is None else [data.files[position] for position in index],
    }


def answered(
    before: Tensor, after: Tensor, said: Tensor, *, truth: Tensor | None, label_from: str | Sequence[str] | None,
    consensus: Tensor | None = None,
) -> Columns:  # fmt: skip
    """before, after: probabilities (networks, n, classes), the suspect's first. said: (networks, n), the classes that
    `after` prefers. truth: (n,) labels. consensus: (n,) where it is not what the peers agree on in `said`."""
    return {
        "truth": None if truth is None else known(truth),
        "label_from": label_from,
        "consensus": known(agreed(said[1:]) if consensus is None else consensus),
        "said": known(said[0]),
        "before": as_nested(before.transpose(0, 1)),
        "after": as_nested(after.transpose(0, 1)),
    }


def cost(
    forwards: Tensor | int, backwards: Tensor | int = 0, *, candidates: Tensor | int = 1, moves: Tensor | int = 0
) -> Columns:
    """What the rows took: (n,) each, or one number for all rows."""
    return {"moves": moves, "candidates": candidates, "forwards": forwards, "backwards": backwards}


def walked(accepted: Accepted, moves: Tensor, start: Tensor, kept: Tensor) -> Columns:
    """The way through a space. moves: (n,) how many of the accepted are each row's. start: (n, networks), the
    probability of the class aimed at before the first of them. kept: the rows, in order, whose trace is kept."""
    steps = pa.array(accepted.step.to(torch.int32).numpy())
    path = pa.StructArray.from_arrays([steps, as_lists(accepted.draws)], ["step", "draws"])
    rows = torch.cat([torch.arange(len(start)), accepted.row])
    order = rows.argsort(stable=True)  # each start stands before its moves, which are in order already
    order = order[torch.isin(rows[order], kept)]
    trace = as_lists(torch.cat([start, accepted.trace])[order])
    return {
        "path": pa.ListArray.from_arrays(as_offsets(moves), path),
        "trace": spread(pa.ListArray.from_arrays(as_offsets(moves[kept] + 1), trace), kept, len(start)),
    }


def unmoved(count: int) -> Columns:
    """Of images that no space has moved."""
    return {"path": [[]] * count, "point": [[]] * count, "change": [[]] * count}


def place(space: Any, points: Any, count: int) -> Columns:
    """Where the first `count` points are in their space, and what the space can say about it."""
    follows = ("image", *getattr(space, "derived", ()))  # what follows from the image is no part of the place
    fields = [field for name, field in zip(points._fields, points, strict=True) if name not in follows]
    flat = torch.cat([field.float().reshape(len(field), -1) for field in fields], 1)[:count].cpu() if fields else None
    size = None
    if is_box(space):
        size = (2 * space.draws_of(points)[:count].double() - 1).norm(dim=1).float()
    return {
        "point": [[]] * count if flat is None else as_lists(flat),
        "change": described(space, points, count),
        "size": size,
        "kinds": kinds_of(space, type(points)(*(field[:count] for field in points))),
    }


def described(space: Any, points: Any, count: int) -> pa.Array:
    """The change in human units, for the first `count` points; empty where the space cannot say it."""
    describe = getattr(space, "describe", None)
    if describe is None:
        return as_column("change", [[]] * count, count)
    parts = describe(points)
    values = torch.stack([part[:count].float() for part in parts.values()], 1).cpu()
    offsets = as_offsets(torch.full((count,), len(parts)))
    return pa.MapArray.from_arrays(offsets, pa.array(list(parts) * count), pa.array(values.flatten().numpy()))


def ended(
    outcome: Sequence[str], pngs: pa.Array, *, tags: Sequence[Sequence[str]] | None = None,
    score: Tensor | None = None, realism: Tensor | pa.Array | None = None,
) -> Columns:  # fmt: skip
    """What the rows came to. pngs: the very pixels that were judged. score, realism: (n,)."""
    return {
        "outcome": outcome,
        "tags": [[]] * len(outcome) if tags is None else tags,
        "image": pngs,
        "score": score,
        "realism": realism,
    }


def judged_again(
    objective: Objective, claimed: Tensor, after: Tensor, aims: Tensor, firmly: Tensor | None = None
) -> Tensor:
    """(n,) outcomes, on the CPU. The final pixels decide, by what all networks say of them, `after` (networks, n,
    classes): a claim that they do not bear out is no finding, and one that only rounding to 8 bits made is one; where
    it is known, by more than the device's own noise. An answer that is not a number is `invalid`."""
    holds = objective.found(after, aims.to(after.device))
    holds = (holds if firmly is None else holds & firmly).cpu()
    outcome = torch.where(claimed == INVALID, INVALID, torch.where(holds, FOUND, EXHAUSTED))
    return torch.where(after.isfinite().all(2).all(0).cpu(), outcome, INVALID)


def known(values: Tensor) -> pa.Array:
    """Class numbers, null for -1."""
    values = values.cpu()
    return pa.array(values.numpy(), mask=(values < 0).numpy())


def agreed(said: Tensor) -> Tensor:
    """(n,): the class that all answers (networks, n) have in common; -1 where they differ or there are none."""
    if not len(said):
        return torch.full((said.shape[1],), -1)
    return torch.where((said == said[0]).all(0), said[0], -1)


def as_pngs(pixels: Tensor) -> pa.Array:
    """(n, channels, height, width) uint8 as files."""
    lengths, data = packed(pixels.cpu().numpy())
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def thumbnails(images: Tensor) -> np.ndarray:
    """(n, channels, height, width) in [0, 1] as frames of a film: uint8, and not high."""
    height, width = images.shape[2:]
    if height > FILM_HEIGHT:
        images = interpolate(images, (FILM_HEIGHT, max(1, round(width * FILM_HEIGHT / height))), mode="area")
    pixels: np.ndarray = to_bytes(images).cpu().numpy()
    return pixels


def as_film(frames: Iterable[np.ndarray]) -> bytes:
    """A PNG: frames (channels, height, width) side by side."""
    return encode_png(np.concatenate(list(frames), 2))


def as_films(frames: Sequence[Tensor], rows: Sequence[int], count: int) -> pa.Array | None:
    """The films of these of `count` rows, null in the others; None where there are none. frames: one after another,
    (rows, channels, height, width) in [0, 1]."""
    if not rows:
        return None
    small = [thumbnails(frame) for frame in frames]
    films = [as_film(frame[place] for frame in small) for place in range(len(rows))]
    return spread(pa.array(films, pa.binary()), torch.tensor(rows), count)


def spread(values: pa.Array, rows: Tensor, count: int) -> pa.Array:
    """Values that belong to these of `count` rows as a whole column, null in the others."""
    places = torch.full((count,), -1).index_copy(0, rows, torch.arange(len(rows)))
    return values.take(known(places))


def as_offsets(lengths: Tensor) -> pa.Array:
    return pa.array(torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32).numpy())


def as_lists(values: Tensor) -> pa.Array:
    """(n, k) as n lists of k floats."""
    lengths = torch.full((len(values),), values.shape[1])
    return pa.ListArray.from_arrays(as_offsets(lengths), pa.array(values.float().flatten().numpy()))


def as_nested(values: Tensor) -> pa.Array:
    """(n, networks, classes) as lists of lists."""
    return pa.ListArray.from_arrays(
        as_offsets(torch.full((len(values),), values.shape[1])), as_lists(values.flatten(0, 1))
    )
