"""Hunt: images that a suspect gets wrong while all its peers get them right (paper 1).

    seeds that the whole basket gets right → a search through a space of small changes → findings

Every trial is a lane, numbered from 0; the same lane starts from the same seed image and draws the same numbers
whichever network is the suspect, so that suspects compare pairwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget
from foible.data import Dataset, Photographs, read
from foible.errors import UserError
from foible.findings import Findings, with_metadata
from foible.realism import Realism
from foible.realism import fit as fit_realism
from foible.recipes.config import HuntConfig
from foible.recipes.hunt.rows import make_rows
from foible.recipes.seeds import chosen, peers_of, right_under_all
from foible.runs.job import Task, run
from foible.runs.local import Tick
from foible.runs.recipe import Recipe
from foible.search import Trials


class Searching:
    """The units of a hunt, and of any recipe that moves seed images through a space: (suspect, lanes from … to …)."""

    def __init__(self, task: Task) -> None:
        self.task, self.settings = task, task.settings
        if "eligible" in task.seeds and task.named["realism"].startswith("network:"):
            _ = self.realism  # what is wrong with that network should be said now and not after the first unit

    @cached_property
    def units(self) -> list[tuple[str, int, int]]:
        """(suspect, first lane, end) of every unit."""
        size, trials = self.settings["unit"], self.settings["trials"]
        return [
            (suspect, first, min(first + size, trials))
            for suspect in self.settings["suspects"]
            for first in range(0, trials, size)
        ]

    @property
    def sizes(self) -> list[int]:
        return [end - first for _, first, end in self.units]

    def trials(self, lanes: Tensor) -> tuple[Trials, Tensor]:
        """The trials of these lanes, and where in the data their seed images stand."""
        eligible, matched = self.task.seeds["eligible"], self.task.matched
        drawn = lanes % len(eligible)  # each once, and round again only when all are used
        index, aims = eligible[drawn], self.task.seeds["aims"][drawn]
        once, places = index.unique(return_inverse=True)
        seen = read(matched.data, once, [matched.canvas])
        if seen.problems:
            position, why = seen.problems[0]
            raise UserError(f"image {position} of {matched.data.name!r} could be read and cannot now: {why}")
        return Trials(lanes, seen.images[0][places], aims), index

    @cached_property
    def realism(self) -> Realism | None:
        """What tells how typical an image looks: fitted to some of the seed images, the same ones in every process."""
        if self.settings["realism"] == "none":
            return None
        eligible, matched = self.task.seeds["eligible"], self.task.matched
        most = max(64, min(2000, 40_000_000 // (matched.size[0] * matched.size[1])))
        places = torch.linspace(0, len(eligible) - 1, min(most, len(eligible)), dtype=torch.float64).long()
        seen = read(matched.data, eligible[places], [matched.canvas])
        return fit_realism(self.task.named["realism"], seen.images[0], basket=self.task.basket, may=self.task.may)

    def unit(self, number: int, tick: Tick) -> Any:
        """The rows of one unit."""
        task, settings, (suspect, first, end) = self.task, self.settings, self.units[number]
        trials, index = self.trials(torch.arange(first, end))
        basket = task.basket.only([suspect, *peers_of(task.basket, suspect, settings["peers"])])
        found = task.parts["search"](
            task.parts["space"], task.parts["objective"], basket, trials, suspect=suspect, seed=settings["seed"],
            precision=settings["precision"], budget=Budget(forwards=settings["budget"]), tick=tick,
        )  # fmt: skip
        if found.trial is not None:
            trials, index = trials.rows(found.trial), index[found.trial]
        table = make_rows(
            task.parts["space"], task.parts["objective"], basket, trials, found, suspect=suspect,
            data=task.matched.data, index=index, labelled=not settings["unlabelled"], config=task.key,
            shrinks=settings["shrink"], realism=self.realism,
        )  # fmt: skip
        return with_metadata(table, task.basket.classes, {task.key: settings})


def _settings(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    config, basket, matched = task.config, task.basket, task.matched
    data = matched.data
    channels = data.channels if isinstance(data, Photographs) else data.images.shape[1]
    pixels = channels * matched.size[0] * matched.size[1]
    gpu = basket.device.type != "cpu"  # it likes more lanes at once, and does one unit after another
    share = config.trials if config.atlas or gpu else math.ceil(config.trials / 2)  # an atlas is one map a unit
    lanes, values = (100_000, 256_000_000) if gpu else (20_000, 16_000_000)
    same = ("trials", "seed", "precision", "budget", "unlabelled", "atlas", "shrink")
    return {
        "suspects": list(config.suspect) or [name for name in basket.names if name not in config.peers],
        "peers": list(config.peers),
        **{name: getattr(config, name) for name in same},
        "unit": config.unit or max(16, min(lanes, values // pixels, share)),
    }


HUNT = Recipe(
    "hunt", HuntConfig, work=Searching, doing="Hunting", read="foible.recipes.hunt.parts:read_options",
    parts=("space", "objective", "search", "realism"), networks=chosen, seeds=right_under_all, settings=_settings,
    papers=lambda _: ("baluja2015virtues", "wilson1927probable"),
)  # fmt: skip


def hunt(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs = "digits",
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Findings:
    """Hunt with each suspect in turn; findings in memory, or with `out` in a run folder that can be resumed.

    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "mnist" or "folder:photos", a `Dataset`, or `Photographs`.
    workers: processes (default: one a core on a CPU, where basket and data can be opened by each).
    trust: load network files that can run code.
    options: the fields of `HuntConfig`: suspect, peers, trials, seed, split, space, objective, search, canvas, …
        `space`, `objective` and `search` may also be objects and functions.
    """
    return run(HUNT, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
