"""What a run came to, suspect by suspect: the one place where findings are counted, whatever is made of the numbers.

Counted shard by shard and a column at a time, so that neither memory nor patience gives out with a long run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foible.cells import COLUMNS as CELL
from foible.cells import MOVES, SIZES, UNKNOWN, Cell, is_atlas
from foible.findings import Findings, read_shard, shard_files
from foible.records import read_configs
from foible.statistics import wilson

Ints = NDArray[np.int64]
COUNTED = (
    "suspect", "config", "lane", "origin_index", "networks", "outcome", "label_from", "moves", "candidates", "forwards",
    "backwards",
)  # fmt: skip
_SUMMED = ("moves", "forwards", "backwards", "counted")


@runtime_checkable
class Opened(Protocol):
    """A run whose shards are known and checked, such as a report's."""

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]: ...


@dataclass
class Tally:
    """Counts of one suspect. A trial of an atlas may have several rows: `trials` counts trials, `solved` those with a
    find, `consensus` those whose right class is the networks' consensus and no label. Several trials may begin with one
    image: `images` counts images, `images_solved` those with a find."""

    name: str
    networks: tuple[str, ...] = ()
    trials: int = 0
    solved: int = 0
    consensus: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)  # rows
    moves: int = 0  # over finds, as are the next three
    forwards: int = 0
    backwards: int = 0
    counted: int = 0  # candidates times networks: every candidate through every network, as the paper counts
    all_forwards: int = 0
    all_backwards: int = 0
    cells: set[Cell] = field(default_factory=set)  # different mistakes: right class, answer, kind and size of change
    seeds: dict[str, tuple[Ints, Ints]] = field(default_factory=dict)  # by data: places of images, and with a find

    @property
    def rows(self) -> int:
        return self.outcomes.total()

    @property
    def images(self) -> int:
        return sum(len(places) for places, _ in self.seeds.values())

    @property
    def images_solved(self) -> int:
        return sum(len(places) for _, places in self.seeds.values())

    @property
    def found(self) -> int:
        return self.outcomes["found"]

    @property
    def exhausted(self) -> int:
        return self.outcomes["exhausted"]

    @property
    def invalid(self) -> int:
        return self.outcomes["invalid"]

    def add(self, other: Tally) -> None:
        """Count what another part of the run holds of this suspect."""
        for name in ("trials", "solved", "consensus", *_SUMMED, "all_forwards", "all_backwards"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.outcomes.update(other.outcomes)
        self.cells |= other.cells
        for key, parts in other.seeds.items():
            here = self.seeds.get(key)
            self.seeds[key] = parts if here is None else (union(here[0], parts[0]), union(here[1], parts[1]))

    def as_row(self) -> dict[str, Any]:
        """Figures for a table or JSON: counts, the success rate with its 95 % interval, and means per find, as in the
        paper's Table 1.

        Inference-equivalents count a backward pass as two further inferences.
        """
        low, high = wilson(self.solved, self.trials)
        each = (lambda total: total / self.found) if self.found else (lambda _: None)
        return {
            "suspect": self.name,
            "trials": self.trials,
            "solved": self.solved,
            "images": self.images,
            "images_solved": self.images_solved,
            "found": self.found,
            "exhausted": self.rows - self.found - self.invalid,
            "invalid": self.invalid,
            "success": self.solved / self.trials if self.trials else None,
            "low": low,
            "high": high,
            "moves": each(self.moves),
            "inferences_spent": each(self.forwards),
            "backwards_spent": each(self.backwards),
            "inference_equivalents": each(self.forwards + 2 * self.backwards),
            "inferences_as_the_paper_counts": each(self.counted),
            "all_inferences": self.all_forwards,
            "all_backwards": self.all_backwards,
            "all_inference_equivalents": self.all_forwards + 2 * self.all_backwards,
            "pairs": len({(cell.right, cell.said) for cell in self.cells}),
            "cells": len(self.cells),
        }


def summarise(run: str | PathLike[str] | Findings | Opened) -> list[dict[str, Any]]:
    """A row for each suspect, in the order in which they first appear."""
    tallies: dict[str, Tally] = {}
    for table in tables(run, (*COUNTED, *(name for name in CELL if name not in COUNTED))):
        for part, _ in tally(table):
            tallies.setdefault(part.name, Tally(part.name)).add(part)
    return [one.as_row() for one in tallies.values()]


def tables(run: str | PathLike[str] | Findings | Opened, columns: Sequence[str]) -> Iterator[pa.Table]:
    """These columns of a run folder, of a Parquet file, or of findings in memory: one shard after another."""
    if isinstance(run, Findings):
        yield run.table.select(list(columns))
    elif isinstance(run, Opened):
        yield from run.tables(columns)
    else:
        yield from (read_shard(file, columns) for file in shard_files(Path(run)))


def tally(table: pa.Table, cells: bool = True) -> Iterator[tuple[Tally, str]]:
    """What each suspect came to under each set of settings, in the order in which they first appear, and the hash of
    the settings. All rows of a trial are in one table.

    cells: whether to count different mistakes too, from the columns of `foible.cells.COLUMNS`.
    """
    if not table.num_rows:
        return
    known = read_configs(table.schema.metadata, "findings")
    atlases = {key for key, settings in known.items() if is_atlas(settings)}
    table = table.combine_chunks()
    suspects, configs, outcomes = (codes(table.column(name)) for name in ("suspect", "config", "outcome"))
    first, group = distinct(suspects[1], configs[1])
    found = outcomes[1] == outcomes[0].index("found") if "found" in outcomes[0] else np.zeros(len(group), bool)
    lanes = numbers(table.column("lane"))
    trial = np.where(lanes < 0, -1 - np.arange(len(lanes)), lanes)  # without a number, each row is a trial
    trials, _ = distinct(group, trial)
    index = numbers(table.column("origin_index"))
    places = np.where(index < 0, -2 - np.abs(trial), index)  # a trial that begins with no image counts as one
    solved, _ = distinct(group[found], trial[found])
    unlabelled = numbers(pc.equal(table.column("label_from"), "consensus"))[trials] > 0
    costs = each_row(table)
    for number, row in enumerate(first.tolist()):
        here = group == number
        finds = np.flatnonzero(here & found)
        config = configs[0][configs[1][row]]
        one = Tally(suspects[0][suspects[1][row]], tuple(table.column("networks")[row].as_py()))
        one.trials = int((group[trials] == number).sum())
        one.solved = int((group[found][solved] == number).sum())
        one.consensus = int((group[trials][unlabelled] == number).sum())
        kinds, counts = np.unique(outcomes[1][here], return_counts=True)
        one.outcomes.update(
            {outcomes[0][kind]: count for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True)}
        )
        for name in _SUMMED:
            setattr(one, name, int(costs[name][finds].sum()))
        one.all_forwards, one.all_backwards = (int(costs[name][here].sum()) for name in ("forwards", "backwards"))
        if cells and len(finds):
            one.cells = set(cells_of(table.select(list(CELL)).take(pa.array(finds)), config in atlases)[0])
        data = known.get(config, {})
        key = f"{data.get('data_sha256', config)} {data.get('split', '')}"
        begun, ended = trials[group[trials] == number], np.flatnonzero(found)[solved]
        one.seeds = {key: (np.unique(places[begun]), np.unique(places[ended[group[ended] == number]]))}
        yield one, config


def each_row(table: pa.Table) -> dict[str, Ints]:
    """What each row cost: moves, forwards, backwards, and `counted`, candidates times networks, as the paper counts."""
    costs = {name: numbers(table.column(name)).clip(0) for name in ("moves", "forwards", "backwards", "candidates")}
    return costs | {"counted": costs["candidates"] * lengths(table.column("networks"))}


def row_by_row(run: str | PathLike[str] | Findings) -> dict[str, dict[str, Ints]]:
    """Suspect by suspect, in the order in which they first appear: what `each_row` says, and `found`, 1 for a find."""
    parts: dict[str, dict[str, list[Ints]]] = {}
    for table in tables(run, COUNTED):
        names, which = codes(table.column("suspect"))
        costs = each_row(table) | {"found": numbers(pc.equal(table.column("outcome"), "found"))}
        for number, name in enumerate(names):
            here = parts.setdefault(name, {column: [] for column in costs})
            for column, values in costs.items():
                here[column].append(values[which == number])
    return {name: {key: np.concatenate(some) for key, some in one.items()} for name, one in parts.items()}


def cells_of(table: pa.Table, own: bool) -> tuple[list[Cell], Ints]:
    """The different cells of found rows, in the order in which they first appear, and which of them each row is in:
    what `foible.cells.cell_of` says of one row, of all at once. own: as there."""
    truth, consensus, said, moves = (numbers(table.column(name)) for name in ("truth", "consensus", "said", "moves"))
    right = np.where(truth < 0, consensus, truth)
    kinds = whole(table.column("kinds"))
    some = lengths(kinds)
    named, which = codes(kinds.flatten().take(pa.array((np.cumsum(some) - some)[some > 0])))
    kind = np.full(len(table), len(named))
    kind[some > 0] = which
    size = floats(table.column("size"))
    known = numbers(pc.is_valid(table.column("size"))) > 0
    moves = moves.clip(0)
    if not own:
        least = whole(table.column("least_path"))
        steps = lengths(least, -1)
        moves = np.where(steps < 0, moves, steps)
        alone = known & (steps == 1)
        size[alone] = _lengths_of_single_moves(least, steps, alone)
    place = np.where(known, np.searchsorted(SIZES, size, "right"), np.searchsorted(MOVES, moves, "right"))
    first, number = distinct(right, said, kind, place)
    names = [*named, UNKNOWN]
    rows = zip(*(column[first].tolist() for column in (right, said, kind, place)), strict=True)
    return [Cell(a, b, names[c], d) for a, b, c, d in rows], number


def _lengths_of_single_moves(least: pa.ListArray, steps: Ints, alone: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Of the rows whose least change is a single move, how long that is, in largest moves."""
    steps = steps.clip(0)
    inner = least.flatten()
    draws = lengths(inner)
    flat = floats(inner.flatten())
    owner = np.full(len(inner), -1)
    owner[(np.cumsum(steps) - steps)[alone]] = np.arange(alone.sum())
    owners = np.repeat(owner, draws)
    mine = owners >= 0
    return np.sqrt(np.bincount(owners[mine], (2 * flat[mine] - 1) ** 2, minlength=int(alone.sum())))


def whole(column: pa.ChunkedArray | pa.Array) -> Any:
    """A column in one piece."""
    made = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return made if isinstance(made, pa.Array) else pa.concat_arrays(made.chunks)


def numbers(column: pa.ChunkedArray | pa.Array, missing: int = -1) -> Ints:
    """Integers, or 1 for true, with nulls as -1."""
    return np.asarray(pc.fill_null(column.cast(pa.int64()), missing).to_numpy(zero_copy_only=False))


def floats(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float64]:
    """Numbers, with nulls as NaN; a copy."""
    return np.array(column.to_numpy(zero_copy_only=False), np.float64)


def lengths(column: pa.ChunkedArray | pa.Array, missing: int = 0) -> Ints:
    """How long each list of a column is."""
    return numbers(pc.list_value_length(column), missing)


def codes(column: pa.ChunkedArray | pa.Array) -> tuple[list[str], Ints]:
    """The different texts of a column, in the order in which they first appear, and which of them each row has."""
    encoded = pc.fill_null(whole(column), "?").dictionary_encode()
    return encoded.dictionary.to_pylist(), numbers(encoded.indices)


def union(ours: Ints, theirs: Ints) -> Ints:
    """The different numbers of both, in order."""
    return np.asarray(np.union1d(ours, theirs))


def distinct(*columns: Ints) -> tuple[Ints, Ints]:
    """Of rows of whole numbers, given by columns: where each different one first stands, in that order, and which of
    them each row is."""
    order = np.lexsort(columns)  # stable: of equals, the first stands first
    new = np.zeros(len(order), bool)
    new[:1] = True
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    firsts = order[new]
    appearance = np.argsort(firsts)
    rank = np.empty(len(firsts), np.int64)
    rank[appearance] = np.arange(len(firsts))
    number = np.empty(len(order), np.int64)
    number[order] = rank[np.cumsum(new) - 1]
    return firsts[appearance], number
