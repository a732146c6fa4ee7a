"""What a run came to, suspect by suspect, counted shard by shard so that memory does not grow with the run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from foible.findings import Findings, read_shard, shard_files

_COLUMNS = ("suspect", "outcome", "moves", "candidates", "forwards", "networks")


@dataclass
class Tally:
    """Counts of one suspect; the means are over its successful trials, as in the paper's Table 1."""

    suspect: str
    networks: int = 0
    trials: int = 0
    found: int = 0
    invalid: int = 0
    moves: int = 0  # over found trials, as are the next two
    candidates: int = 0
    forwards: int = 0
    all_forwards: int = 0

    def as_row(self) -> dict[str, Any]:
        """Figures for a table or JSON: counts, the success rate with its 95 % interval, means per success."""
        low, high = wilson(self.found, self.trials)
        each = (lambda total: total / self.found) if self.found else (lambda _: None)
        return {
            "suspect": self.suspect,
            "trials": self.trials,
            "found": self.found,
            "exhausted": self.trials - self.found - self.invalid,
            "invalid": self.invalid,
            "success": self.found / self.trials if self.trials else None,
            "low": low,
            "high": high,
            "moves": each(self.moves),
            "inferences_spent": each(self.forwards),
            "inferences_as_the_paper_counts": each(self.candidates * self.networks),
            "all_inferences": self.all_forwards,
        }


def wilson(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's score."""
    if not trials:
        return 0.0, 1.0
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def summarise(run: str | Path | Findings) -> list[dict[str, Any]]:
    """A row for each suspect, in the order in which they first appear."""
    tables: Iterable[pa.Table] = (
        [run.table] if isinstance(run, Findings) else (read_shard(file, _COLUMNS) for file in shard_files(run))
    )
    tallies: dict[str, Tally] = {}
    for table in tables:
        for row in table.select(list(_COLUMNS)).to_pylist():
            tally = tallies.setdefault(row["suspect"], Tally(row["suspect"], len(row["networks"])))
            tally.trials += 1
            tally.all_forwards += row["forwards"]
            tally.invalid += row["outcome"] == "invalid"
            if row["outcome"] == "found":
                tally.found += 1
                tally.moves += row["moves"]
                tally.candidates += row["candidates"]
                tally.forwards += row["forwards"]
    return [tally.as_row() for tally in tallies.values()]
