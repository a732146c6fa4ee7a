"""What a distortion came to: how far, how often, at what cost, and to whom it transfers. Counted shard by shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pyarrow.compute as pc

from foible.errors import UserError
from foible.findings import Findings
from foible.findings.tally import COUNTED, Opened, Tally, tables, tally
from foible.recipes.distort import robust
from foible.recipes.distort.bystander import Bystander, amplified
from foible.recipes.distort.masking import in_words
from foible.recipes.distort.robust import Standing, read_eps
from foible.records import read_configs, read_json
from foible.runs.record import CONFIG, further
from foible.statistics import wilson

COLUMNS = tuple(dict.fromkeys((*COUNTED, *robust.COLUMNS, "said", "after", "change", "method")))
SIZES = ("rms", "rms before 8 bits", "linf", "linf before 8 bits", "rms of the layer", "share of the layer")
TOLD = ("target", "method", "norm", "layer", "lattice")


@dataclass
class DistortTally:
    """What one source came to under one set of settings. Sizes are of what was found."""

    tally: Tally
    settings: dict[str, Any]
    already: int = 0  # found without any change
    sizes: dict[str, list[float]] = field(default_factory=dict)
    judges: dict[str, Bystander] = field(default_factory=dict)
    standing: Standing = field(default_factory=Standing)
    methods: Counter[str] = field(default_factory=Counter)  # of several, how often each was the nearest

    def add(self, row: dict[str, Any]) -> None:
        """A row that is found."""
        self.already += row["distance_exact"] == 0
        if row["method"] is not None:
            self.methods[row["method"]] += 1
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

    def as_row(self, eps: Sequence[str | float] = ()) -> dict[str, Any]:
        """Figures for a table or JSON; means over what was found, costs over all rows. eps: see `robust.py`."""
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
            "nearest": dict(self.methods),
            "robust": self.standing.as_row(self.settings, eps),
            **({"masking": in_words(self.settings["masking"])} if self.settings.get("masking") else {}),
            "transfer": [] if layered else [judge.as_row(name) for name, judge in self.judges.items()],
        }


def _middles(values: list[float]) -> dict[str, float]:
    return {"mean": fmean(values), "median": median(values)}


def _said(line: list[float]) -> int | None:
    """The class of the greatest probability; None where one is not a number."""
    return None if any(value is None or value != value for value in line) else line.index(max(line))


def summarise_distortions(
    run: str | PathLike[str] | Findings | Opened, eps: Sequence[str | float] = ()
) -> list[dict[str, Any]]:
    """A row for each source and set of settings, in the order in which they first appear. eps: distances whose robust
    accuracy is told, besides those that always are and those that were asked for when the run was made."""
    made: dict[tuple[str, str], DistortTally] = {}
    for table in tables(run, COLUMNS):
        configs = read_configs(table.schema.metadata, "findings")
        for part, config in tally(table, cells=False):
            one = made.setdefault((part.name, config), DistortTally(Tally(part.name), configs.get(config, {})))
            one.settings = further(one.settings, configs.get(config, {}))
            one.tally.add(part)
            mine = pc.and_(pc.equal(table.column("suspect"), part.name), pc.equal(table.column("config"), config))
            one.standing.add(table.filter(mine))
            for name in part.networks[1:]:
                one.judges.setdefault(name, Bystander())
        found = table.filter(pc.equal(table.column("outcome"), "found"))
        for batch in found.to_batches(max_chunksize=1000):
            for row in batch.to_pylist():
                made[row["suspect"], row["config"]].add(row)
    asked = [*noted_eps(run), *eps]
    larger = amplified(run) if len(made) == 1 else []
    return [one.as_row(asked) | {"amplified": larger} for one in made.values()]


def noted_eps(run: str | PathLike[str] | Findings | Opened) -> list[str]:
    """The distances that `--eps` asked for, which stand beside the run's settings."""
    try:
        config = {} if isinstance(run, Findings) else read_json(Path(run) / CONFIG, "")  # type: ignore[arg-type]
        given = config.get("eps", []) if isinstance(config, dict) else []
        for one in given:
            read_eps(one)
        return [str(one) for one in given]
    except (OSError, TypeError, UserError):  # findings without their run, or one that is damaged
        return []


def robust_accuracy(run: str | PathLike[str] | Findings, eps: str | float) -> dict[str, Any]:
    """Of a run of `distort`, in a folder or in memory: of all images drawn, the share that the source gets right and
    that nothing found within `eps` makes wrong, with its 95 % interval by Wilson's score. An upper bound.

    eps: in the run's norm, pixels in [0, 1]; a number, or a text such as "8/255". A dictionary of eps, right (how many
    still are), share, low and high; n, of how many images; and what these are.
    """
    sources = summarise_distortions(run, [eps])
    if len(sources) != 1:
        names = ", ".join(str(row["source"]) for row in sources)
        raise UserError(f"these are distortions of {len(sources)} sources or settings ({names}): give one at a time")
    told = sources[0]["robust"]
    if told is None:
        raise UserError("a layer was distorted, and not images: robust accuracy is of images")
    [line] = [line for line in told["at"] if line["eps"] == read_eps(eps)]
    return {**line, "n": told["n"], "of": told["of"], "norm": told["norm"]}
