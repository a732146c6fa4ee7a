"""Columns of a shard as they are kept for looking: texts as numbers, and what is computed from several of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foible.findings.tally import Ints, codes, floats, lengths, numbers, whole

CODED = ("suspect", "outcome")
NUMBERS = ("truth", "consensus", "said", "moves", "lane", "origin_index")
AMOUNTS = ("size", "realism", "score", "distance")
READ = {
    "confidence": ("suspect", "networks", "said", "after"),
    "kind": ("kinds",),
    **dict.fromkeys(("knew", "fooled"), ("networks", "truth", "consensus", "before", "after")),
}  # what ours are made of


def compact(name: str, table: pa.Table) -> Any:
    """A column of a shard as it is kept."""
    if name == "confidence":
        return confidence(table)
    if name in ("knew", "fooled"):
        return _by_network(table, name)
    column = table.column({"kind": "kinds"}.get(name, name))
    if name in CODED:
        values, which = codes(column)
        return values, which.astype(np.int16)
    if name == "kind":
        return _first(column)
    if name == "tags":
        return column, table.num_rows
    if name in NUMBERS:
        return numbers(column).astype(np.int32 if name != "origin_index" else np.int64)
    if name in AMOUNTS:
        return floats(column).astype(np.float32)
    return column


def _first(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """The kind that each change is mostly made of; "" where nothing says it."""
    kinds = whole(column)
    many = lengths(kinds)
    values, which = codes(kinds.flatten().take(pa.array((np.cumsum(many) - many)[many > 0])))
    made = np.full(len(kinds), len(values))
    made[many > 0] = which
    return [*values, ""], made


def joined(name: str, parts: list[Any]) -> Any:
    """The same of all shards."""
    if name in (*CODED, "kind"):
        names = list(dict.fromkeys(value for values, _ in parts for value in values))
        maps = [np.array([names.index(value) for value in values], np.int16) for values, _ in parts]
        some = [which if not len(to) else to[which] for to, (_, which) in zip(maps, parts, strict=True)]
        return names, np.concatenate(some) if some else np.zeros(0, np.int16)
    if name in ("knew", "fooled"):
        every = list(dict.fromkeys(network for networks, _ in parts for network in networks))[:60]
        bits = [
            sum((right[:, at].astype(np.int64) << every.index(one) for at, one in enumerate(networks) if one in every),
                np.zeros(len(right), np.int64))
            for networks, right in parts
        ]  # fmt: skip
        return every, np.concatenate(bits) if bits else np.zeros(0, np.int64)
    if name == "tags":
        found: dict[str, list[Ints]] = {}
        start = 0
        for column, count in parts:
            tags = whole(column)
            owner = np.repeat(np.arange(len(tags)), lengths(tags))
            values, which = codes(tags.flatten())
            for code, value in enumerate(values):
                found.setdefault(value, []).append(start + owner[which == code])
            start += count
        return {value: np.concatenate(some) for value, some in found.items()}
    if name in (*NUMBERS, *AMOUNTS, "confidence"):
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string() if not parts else None)


def confidence(table: pa.Table) -> NDArray[np.float32]:
    """How sure the suspect is of what it says of each image; NaN where it says nothing."""
    after, networks = whole(table.column("after")), whole(table.column("networks"))
    many = lengths(networks)
    starts = np.cumsum(many) - many
    owner = np.repeat(np.arange(len(many)), many)
    own = np.asarray(pc.equal(networks.flatten(), whole(table.column("suspect")).take(pa.array(owner))))
    line = np.full(len(many), -1)
    hit = np.flatnonzero(own)
    line[owner[hit]] = hit - starts[owner[hit]]
    said = numbers(table.column("said"))
    lines = after.flatten()
    wide = lengths(lines)
    flat = floats(lines.flatten())
    made = np.full(len(many), np.nan, np.float32)
    known = (line >= 0) & (said >= 0)
    if known.any():
        classes = int(wide[0])  # checked when the shard was read: all lines are as long as there are classes
        made[known] = flat[(starts[known] + line[known]) * classes + said[known]]
    return made


def _by_network(table: pa.Table, name: str) -> tuple[list[str], NDArray[np.bool_]]:
    """The networks of a shard, and for each row (rows, networks) which of them were right of the origin, or, for
    "fooled", right of the origin and wrong of the image. Rows with other networks than the first count for none."""
    if not table.num_rows:
        return [], np.zeros((0, 0), bool)
    networks = whole(table.column("networks"))
    first = networks[0].as_py()
    joined = pc.binary_join(networks, "\x00")
    same = np.asarray(pc.equal(joined, joined[0]))
    truth, peers = numbers(table.column("truth")), numbers(table.column("consensus"))
    right = np.where(truth < 0, peers, truth)[same]

    def said(column: str) -> Any:
        lines = whole(table.column(column)).filter(pa.array(same))
        flat = floats(lines.flatten().flatten()).reshape(len(right), len(first), -1)
        return np.where(np.isnan(flat).any(2), -2, np.nan_to_num(flat).argmax(2))

    knew = said("before") == right[:, None]
    made = np.zeros((table.num_rows, len(first)), bool)
    made[same] = knew if name == "knew" else knew & (said("after") != right[:, None])
    return list(first), made
