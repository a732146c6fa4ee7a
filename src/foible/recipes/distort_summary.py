"""What a distortion came to: how far, how often, at what cost, and to whom it transfers. Counted shard by shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow as pa

from foible.findings import Findings, read_shard, shard_files
from foible.records import read_configs
from foible.summary import wilson

COLUMNS = (
    "config", "suspect", "networks", "outcome", "truth", "consensus", "said", "before", "after", "change",
    "distance", "distance_exact", "forwards", "backwards",
)  # fmt: skip
SIZES = ("rms", "rms before 8 bits", "linf", "linf before 8 bits", "rms of the layer", "share of the layer")
TOLD = ("target", "method", "norm", "layer", "lattice")


@dataclass
class Judge:
    """One network that the images were not made for."""

    right: int = 0  # of the images found, those that it had right before
    fooled: int = 0  # of these, those that it gets wrong now
    same: int = 0  # of these, those where it says what the source says

    def as_row(self, name: str) -> dict[str, Any]:
        low, high = wilson(self.fooled, self.right)
        share = self.fooled / self.right if self.right else None
        return {
            "judge": name, "right_before": self.right, "wrong_after": self.fooled, "share": share, "low": low,
            "high": high, "as_the_source": self.same,
        }  # fmt: skip


@dataclass
class Distorted:
    """Counts of one source under one set of settings. Sizes are of what was found."""

    source: str
    settings: dict[str, Any]
    outcomes: Counter[str] = field(default_factory=Counter)
    already: int = 0  # found without any change
    sizes: dict[str, list[float]] = field(default_factory=dict)
    forwards: int = 0
    backwards: int = 0
    judges: dict[str, Judge] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        self.outcomes[row["outcome"]] += 1
        self.forwards += row["forwards"] or 0
        self.backwards += row["backwards"] or 0
        judges = [self.judges.setdefault(name, Judge()) for name in row["networks"][1:]]
        if row["outcome"] != "found":
            return
        self.already += row["distance_exact"] == 0
        for name, value in row["change"] or ():
            if name in SIZES:
                self.sizes.setdefault(name, []).append(value)
        label = row["consensus"] if row["truth"] is None else row["truth"]
        for judge, before, after in zip(judges, row["before"][1:], row["after"][1:], strict=True):
            if _said(before) == label:
                judge.right += 1
                judge.fooled += _said(after) != label
                judge.same += _said(after) == row["said"]

    def as_row(self) -> dict[str, Any]:
        """Figures for a table or JSON; means over what was found, costs over all rows."""
        rows, found = self.outcomes.total(), self.outcomes["found"]
        low, high = wilson(found, rows)
        layered = self.settings.get("layer") is not None
        return {
            "source": self.source,
            **{name: self.settings.get(name) for name in TOLD},
            "rows": rows,
            **{name: self.outcomes[name] for name in ("found", "exhausted", "unsettled", "invalid")},
            "already": self.already,
            "share": found / rows if rows else None,
            "low": low,
            "high": high,
            **{name.replace(" ", "_"): _middles(self.sizes[name]) for name in SIZES if name in self.sizes},
            "forwards": self.forwards / rows if rows else None,
            "backwards": self.backwards / rows if rows else None,
            "transfer": [] if layered else [judge.as_row(name) for name, judge in self.judges.items()],
        }


def _middles(values: list[float]) -> dict[str, float]:
    return {"mean": fmean(values), "median": median(values)}


def _said(line: list[float]) -> int | None:
    """The class of the greatest probability; None where one is not a number."""
    return None if any(value is None or value != value for value in line) else line.index(max(line))


def summarise_distortions(run: str | Path | Findings | Iterable[pa.Table]) -> list[dict[str, Any]]:
    """A row for each source and set of settings, in the order in which they first appear.

    run: a run folder, a Parquet file, findings in memory, or tables with `COLUMNS`.
    """
    made: dict[tuple[str, str], Distorted] = {}
    for table in _tables(run):
        configs = read_configs(table.schema.metadata, "findings")
        for batch in table.select(list(COLUMNS)).to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                key = row["suspect"], row["config"]
                if key not in made:
                    made[key] = Distorted(row["suspect"], configs.get(row["config"], {}))
                made[key].add(row)
    return [one.as_row() for one in made.values()]


def _tables(run: str | Path | Findings | Iterable[pa.Table]) -> Iterable[pa.Table]:
    if isinstance(run, Findings):
        return [run.table]
    return (read_shard(file, COLUMNS) for file in shard_files(run)) if isinstance(run, str | Path) else run
