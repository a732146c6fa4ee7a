"""The units of a hunt: some lanes of a suspect each, searched, settled and judged by the whole basket."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from foible import png, specs
from foible.basket import Budget
from foible.basket.padding import FEW, LARGE
from foible.data import Photographs, read
from foible.errors import UserError
from foible.findings import with_metadata
from foible.findings.rows import Columns, replaced
from foible.progress import Stages
from foible.realism import Realism
from foible.realism import fit as fit_realism
from foible.recipes.hunt.parts import ATLAS
from foible.recipes.hunt.rows import make_rows
from foible.recipes.seeds import peers_of
from foible.runs.local import Tick
from foible.runs.spans import Span
from foible.runs.task import FIRST, LEAST, Task
from foible.search import Trials
from foible.search.climb.dense import is_cheap
from foible.search.shrink import Shrunk, shrink

SOME = 4000  # lanes of a first unit of small networks on a CPU, two batches,
QUICK = {("affine", search) for search in ("hill-climb", "gradient")}  # by these, which take milliseconds a lane
AT_ONCE = 1024 * 3 * 32 * 32  # values of the images of a first unit on a GPU


class Searching:
    """The units of a hunt, and of any recipe that moves seed images through a space: (suspect, lanes from … to …)."""

    def __init__(self, task: Task) -> None:
        self.task, self.settings, self.stages = task, task.settings, Stages()
        if "eligible" in task.seeds and task.named.get("realism", "").startswith("network:"):
            _ = self.realism  # what is wrong with that network should be said now and not after the first unit
        if task.basket.device.type != "cpu" and self.settings["trials"] >= png.MANY:
            png.helpers()  # they start while the GPU searches

    @property
    def lanes(self) -> list[int]:
        """Trials of each suspect: the parts of a hunt."""
        return [self.settings["trials"]] * len(self.settings["suspects"])

    @property
    def most(self) -> int:
        """A GPU likes more lanes at once, and does one unit after another."""
        lanes, values = (250_000, 256_000_000) if self.task.basket.device.type != "cpu" else (20_000, 16_000_000)
        return max(LEAST, min(lanes, values // self.values))

    @property
    def values(self) -> int:
        """Of an image: pixels × channels."""
        data, (height, width) = self.task.matched.data, self.task.matched.size
        return height * width * int(data.channels if isinstance(data, Photographs) else data.images.shape[1])

    @property
    def least(self) -> int:
        """Of large images a CPU is shown a few at a time."""
        large = self.task.basket.device.type == "cpu" and self.values >= LARGE
        return FEW if large else LEAST

    @property
    def first(self) -> int:
        """Fewer, the larger the images. Small networks take seconds for as many as fill two batches (if the search is
        quick, too; the last lanes of every unit leave a batch half empty), or on a GPU for as many as there may be, and
        nearly as long for a few."""
        cheap, named = is_cheap(self.task.basket, list(self.task.basket.names)), self.task.named
        if self.task.basket.device.type == "cpu":
            many = SOME if cheap and (named.get("space"), named.get("search")) in QUICK else FIRST
            return max(self.least, min(many, many * 3072 // self.values) if self.least == LEAST else 0)
        if cheap:
            return self.most
        return min(self.most, max(FIRST, AT_ONCE // self.values))  # the last lanes of a unit leave a GPU idle

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
        """What tells how typical an image looks: fitted to some images of the data, the same ones in every process and
        however many trials there are."""
        if self.settings["realism"] == "none":
            return None
        clean, matched = self.task.seeds.get("typical", self.task.seeds["eligible"]), self.task.matched
        most = max(64, min(2000, 40_000_000 // (matched.size[0] * matched.size[1])))
        places = torch.linspace(0, len(clean) - 1, min(most, len(clean)), dtype=torch.float64).long()
        seen = read(matched.data, clean[places], [matched.canvas])
        return fit_realism(self.task.named["realism"], seen.images[0], basket=self.task.basket, may=self.task.may)

    def unit(self, span: Span, tick: Tick) -> Any:
        """The rows of some lanes of one suspect."""
        task, settings, suspect = self.task, self.settings, self.settings["suspects"][span.part]
        trials, index = self.trials(torch.arange(span.first, span.end))
        basket, going = task.basket.only([suspect, *peers_of(task.basket, suspect, settings["peers"])]), self.stages
        going.begin(span.size, tick)
        found = task.parts["search"](
            task.parts["space"], task.parts["objective"], basket, trials, suspect=suspect, seed=settings["seed"],
            precision=settings.get("precision", "float32"), budget=Budget(forwards=settings.get("budget")),
            tick=going.tick("search"),
        )  # fmt: skip
        if found.trial is not None:
            trials, index = trials.rows(found.trial), index[found.trial]
        rows = make_rows(
            task.parts["space"], task.parts["objective"], basket, trials, found, suspect=suspect,
            data=task.matched.data, index=index, labelled=not settings["unlabelled"], config=task.key,
            shrinks=self.shrinks, realism=self.realism, going=going, smallest=self.smallest,
        )  # fmt: skip
        own = self.own(trials, index, suspect)
        going.end()
        return lambda: with_metadata(replaced(rows(), own), task.basket.classes, {task.key: settings})

    @property
    def shrinks(self) -> bool:
        """Whether the smallest change is looked for."""
        return bool(self.settings["shrink"])

    def smallest(self, *given: Any, **how: Any) -> Shrunk:
        """What makes a find's change as small as can be."""
        return shrink(*given, **how)

    def own(self, _trials: Trials, _index: Tensor, _suspect: str) -> Columns:
        """Columns of these rows that say something else in another recipe."""
        return {}


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    config, basket = task.config, task.basket
    same = ("trials", "seed", "precision", "budget", "unlabelled", "atlas", "shrink")
    return {
        "suspects": list(config.suspect) or [name for name in basket.names if name not in config.peers],
        "peers": list(config.peers),
        **{name: getattr(config, name) for name in same},
        **_together(task),
    }


def _together(task: Task) -> dict[str, int]:
    """Lanes that share an archive, in the one search whose lanes touch: its rows depend on that."""
    config = task.config
    if specs.parse(task.named["search"]).name != ATLAS:
        return {}
    halves = not config.atlas and task.basket.device.type == "cpu"
    return {"together": config.unit or max(LEAST, -(-config.trials // 2) if halves else config.trials)}
