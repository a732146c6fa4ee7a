"""What a distortion came to: how far, how often, at what cost, and to whom it transfers. Counted shard by shard."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from statistics import fmean, median
from typing import Any

import pyarrow.compute as pc

from foible.findings import Findings
from foible.findings.tally import COUNTED, Opened, Tally, tables, tally
from foible.records import read_configs
from foible.statistics import wilson

COLUMNS = (*COUNTED, "truth", "consensus", "said", "before", "after", "change", "distance_exact")
SIZES = ("rms", "rms before 8 bits", "linf", "linf before 8 bits", "rms of the layer", "share of the layer")
TOLD = ("target", "method", "norm", "layer", "lattice")


@dataclass
class Bystander:
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
class DistortTally:
    """What one source came to under one set of settings. Sizes are of what was found."""

    tally: Tally
    settings: dict[str, Any]
    already: int = 0  # found without any change
    sizes: dict[str, list[float]] = field(default_factory=dict)
    judges: dict[str, Bystander] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        """A row that is found."""
        self.already += row["distance_exact"] == 0
        for name, value in row["change"] or ():
            if name in SIZES:
                self.sizes.setdefault(name, []).append(value)
        label = row["consensus"] if row["truth"] is None else row["truth"]
        lines = zip(row["networks"][1:], row["before"][1:], row["after"][1:], strict=True)
        for name, before, after in lines:
            if _said(before) == label:
                judge = self.judges.setdefault(name, Bystander())
                judge.right += 1
                judge.fooled += _said(after) != label
                judge.same += _said(after) == row["said"]

    def as_row(self) -> dict[str, Any]:
        """Figures for a table or JSON; means over what was found, costs over all rows."""
        rows, found = self.tally.rows, self.tally.found
        low, high = wilson(found, rows)
        layered = self.settings.get("layer") is not None
        return {
            "source": self.tally.name,
            **{name: self.settings.get(name) for name in TOLD},
            "rows": rows,
            **{name: self.tally.outcomes[name] for name in ("found", "exhausted", "unsettled", "invalid")},
            "already": self.already,
            "share": found / rows if rows else None,
            "low": low,
            "high": high,
            **{name.replace(" ", "_"): _middles(self.sizes[name]) for name in SIZES if name in self.sizes},
            "forwards": self.tally.all_forwards / rows if rows else None,
            "backwards": self.tally.all_backwards / rows if rows else None,
            "transfer": [] if layered else [judge.as_row(name) for name, judge in self.judges.items()],
        }


def _middles(values: list[float]) -> dict[str, float]:
    return {"mean": fmean(values), "median": median(values)}


def _said(line: list[float]) -> int | None:
    """The class of the greatest probability; None where one is not a number."""
    return None if any(value is None or value != value for value in line) else line.index(max(line))


def summarise_distortions(run: str | PathLike[str] | Findings | Opened) -> list[dict[str, Any]]:
    """A row for each source and set of settings, in the order in which they first appear."""
    made: dict[tuple[str, str], DistortTally] = {}
    for table in tables(run, COLUMNS):
        configs = read_configs(table.schema.metadata, "findings")
        for part, config in tally(table, cells=False):
            one = made.setdefault((part.name, config), DistortTally(Tally(part.name), configs.get(config, {})))
            one.tally.add(part)
            for name in part.networks[1:]:
                one.judges.setdefault(name, Bystander())
        found = table.filter(pc.equal(table.column("outcome"), "found"))
        for batch in found.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                made[row["suspect"], row["config"]].add(row)
    return [one.as_row() for one in made.values()]
