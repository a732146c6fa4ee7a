"""What a run came to, suspect by suspect, counted shard by shard so that memory does not grow with the run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from foible.atlas import COLUMNS, Cell, cell_of, is_atlas
from foible.findings import Findings, read_shard, shard_files

_COLUMNS = (
    "suspect", "outcome", "moves", "candidates", "forwards", "backwards", "networks", "config", "lane",
    *(name for name in COLUMNS if name != "moves"),
)  # fmt: skip


@dataclass
class Tally:
    """Counts of one suspect; the means are over its finds, as in the paper's Table 1.

    A trial of an atlas may have several rows: `trials` counts trials, `solved` those with a find, and `found` finds.
    """

    suspect: str
    networks: int = 0
    trials: int = 0
    solved: int = 0
    found: int = 0
    exhausted: int = 0
    invalid: int = 0
    moves: int = 0  # over finds, as are the next three
    candidates: int = 0
    forwards: int = 0
    backwards: int = 0
    all_forwards: int = 0
    all_backwards: int = 0
    cells: set[Cell] = field(default_factory=set)  # different mistakes: right class, answer, kind and size of change

    def as_row(self) -> dict[str, Any]:
        """Figures for a table or JSON: counts, the success rate with its 95 % interval, means per find.

        Inference-equivalents count a backward pass as two further inferences.
        """
        low, high = wilson(self.solved, self.trials)
        each = (lambda total: total / self.found) if self.found else (lambda _: None)
        return {
            "suspect": self.suspect,
            "trials": self.trials,
            "solved": self.solved,
            "found": self.found,
            "exhausted": self.exhausted,
            "invalid": self.invalid,
            "success": self.solved / self.trials if self.trials else None,
            "low": low,
            "high": high,
            "moves": each(self.moves),
            "inferences_spent": each(self.forwards),
            "backwards_spent": each(self.backwards),
            "inference_equivalents": each(self.forwards + 2 * self.backwards),
            "inferences_as_the_paper_counts": each(self.candidates * self.networks),
            "all_inferences": self.all_forwards,
            "all_backwards": self.all_backwards,
            "all_inference_equivalents": self.all_forwards + 2 * self.all_backwards,
            "pairs": len({(cell.right, cell.said) for cell in self.cells}),
            "cells": len(self.cells),
        }


class Lanes:
    """Which trials were seen, so that one with several rows is counted once. All rows of a trial are in one shard."""

    def __init__(self) -> None:
        self._seen: set[tuple[Any, ...]] = set()

    def first(self, *trial: Any) -> bool:
        """Whether this is the first row of a trial; one without a number is its own."""
        if trial[-1] is None:
            return True
        new = trial not in self._seen
        self._seen.add(trial)
        return new


def wilson(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's score."""
    if not trials:
        return 0.0, 1.0
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    return middle - half if successes else 0.0, middle + half if successes < trials else 1.0


def summarise(run: str | Path | Findings) -> list[dict[str, Any]]:
    """A row for each suspect, in the order in which they first appear."""
    tables: Iterable[pa.Table] = (
        [run.table] if isinstance(run, Findings) else (read_shard(file, _COLUMNS) for file in shard_files(run))
    )
    tallies: dict[str, Tally] = {}
    for table in tables:
        lanes, solved = Lanes(), Lanes()
        configs = json.loads((table.schema.metadata or {}).get(b"foible.configs", b"{}"))
        atlases = {key for key, settings in configs.items() if is_atlas(settings)}
        for row in table.select(list(_COLUMNS)).to_pylist():
            tally = tallies.setdefault(row["suspect"], Tally(row["suspect"], len(row["networks"])))
            trial = (row["suspect"], row["config"], row["lane"])
            tally.trials += lanes.first(*trial)
            tally.all_forwards += row["forwards"] or 0
            tally.all_backwards += row["backwards"] or 0
            tally.invalid += row["outcome"] == "invalid"
            tally.exhausted += row["outcome"] not in ("invalid", "found")
            if row["outcome"] == "found":
                tally.found += 1
                tally.solved += solved.first(*trial)
                tally.moves += row["moves"]
                tally.candidates += row["candidates"]
                tally.forwards += row["forwards"]
                tally.backwards += row["backwards"] or 0
                tally.cells.add(cell_of(row, own=row["config"] in atlases))
    return [tally.as_row() for tally in tallies.values()]
