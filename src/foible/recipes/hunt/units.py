"""The units of a hunt: a suspect and some lanes each, searched, settled and judged by the whole basket."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from foible import png
from foible.basket import Budget
from foible.data import Photographs, read
from foible.errors import UserError
from foible.findings import with_metadata
from foible.realism import Realism
from foible.realism import fit as fit_realism
from foible.recipes.hunt.rows import make_rows
from foible.recipes.seeds import peers_of
from foible.runs.local import Tick
from foible.runs.task import Task
from foible.search import Trials


class Searching:
    """The units of a hunt, and of any recipe that moves seed images through a space: (suspect, lanes from … to …)."""

    def __init__(self, task: Task) -> None:
        self.task, self.settings = task, task.settings
        if "eligible" in task.seeds and task.named["realism"].startswith("network:"):
            _ = self.realism  # what is wrong with that network should be said now and not after the first unit
        if task.basket.device.type != "cpu" and self.settings["trials"] >= png.MANY:
            png.helpers()  # they start while the GPU searches

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
        rows = make_rows(
            task.parts["space"], task.parts["objective"], basket, trials, found, suspect=suspect,
            data=task.matched.data, index=index, labelled=not settings["unlabelled"], config=task.key,
            shrinks=settings["shrink"], realism=self.realism,
        )  # fmt: skip
        return lambda: with_metadata(rows(), task.basket.classes, {task.key: settings})


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    config, basket, matched = task.config, task.basket, task.matched
    data = matched.data
    channels = data.channels if isinstance(data, Photographs) else data.images.shape[1]
    pixels = channels * matched.size[0] * matched.size[1]
    gpu = basket.device.type != "cpu"  # it likes more lanes at once, and does one unit after another
    share = config.trials if config.atlas or gpu else math.ceil(config.trials / 2)  # an atlas is one map a unit
    lanes, values = (250_000, 256_000_000) if gpu else (20_000, 16_000_000)
    same = ("trials", "seed", "precision", "budget", "unlabelled", "atlas", "shrink")
    return {
        "suspects": list(config.suspect) or [name for name in basket.names if name not in config.peers],
        "peers": list(config.peers),
        **{name: getattr(config, name) for name in same},
        "unit": config.unit or max(16, min(lanes, values // pixels, share)),
    }
