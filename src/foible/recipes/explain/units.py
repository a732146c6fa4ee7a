"""The units of `explain`: images that a network gets wrong, shifted in the latent space until it gets them right."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Budget
from foible.basket.accuracy import answers
from foible.basket.judging import Judged
from foible.errors import UserError
from foible.findings import with_metadata
from foible.images import to_floats
from foible.recipes.explain import ALONE
from foible.recipes.hunt.rows import make_rows
from foible.recipes.hunt.units import Searching
from foible.recipes.seeds import look, seeds_of, tell_looked
from foible.runs.defaults import check_images
from foible.runs.local import Tick
from foible.runs.spans import Span
from foible.runs.task import Seeds, Task
from foible.search.nearest.in_box import nearest_in_box
from foible.text import did_you_mean


def check_task(task: Task) -> None:
    """The class must be one, the generator must draw images of this size, and every network must answer."""
    to, classes = task.config.to, task.basket.classes
    if to not in ("truth", "each", *classes):
        raise UserError(
            f"--to {to!r} is no class{did_you_mean(to, classes)}: expected truth, each, or one of {', '.join(classes)}"
        )
    images = check_images(task)
    if images is not None:
        task.parts["space"].start(to_floats(images[:1].to(task.basket.device)))


def images_of(task: Task) -> Seeds:
    """`eligible`: positions of images that the suspect gets wrong, and `aims`: their labels; or of those that it gets
    right, and the classes that they are driven to, one after another."""
    classes, to, wanted = task.basket.classes, task.config.to, task.config.images
    mends, unanswered = to == "truth", 0

    def good(_: Judged, said: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal unanswered
        unanswered += int((said[0] < 0).sum())
        known = (said[0] >= 0) & (labels >= 0)
        return known & ((said[0] != labels) if mends else (said[0] == labels)), labels

    found = look(task, "explain.images", wanted, good, "Looking for mistakes" if mends else "Choosing images")
    tell_looked(task, found, ())
    if not found.have:
        name, data = task.basket.names[0], task.matched.data
        if unanswered:
            raise UserError(
                f"{name!r} answers {unanswered} of {found.seen} images of {data.name!r} with NaN or infinity, and "
                "there is none of the others to explain: check its weights and its preprocessing"
            )
        if mends:
            whole = f"all {found.seen} images of {data.name!r} ({data.split})"
            raise UserError(f"{name!r} gets {whole} right: there is nothing to mend")
        raise UserError(f"{name!r} gets none of the {found.seen} images of {data.name!r} right: check the class order")
    places, labels = (torch.cat(parts)[:wanted] for parts in (found.positions, found.aims))
    if mends:
        return seeds_of(task, found, eligible=places, aims=labels)
    targets = torch.arange(len(classes)) if to == "each" else torch.tensor([list(classes).index(to)])
    aims = targets.expand(len(places), -1)
    others = aims != labels[:, None]
    return seeds_of(task, found, eligible=places[:, None].expand_as(aims)[others], aims=aims[others])


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    config = task.config
    return {
        "suspects": [task.basket.names[0]], "peers": [], "trials": config.images, "to": config.to,
        "seed": config.seed, "effort": config.effort, "unlabelled": False, "realism": "none",
    }  # fmt: skip


class Explaining(Searching):
    """Lanes of one suspect, an image (and class) each."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.smallest: Callable[..., Any] = partial(nearest_in_box, effort=max(1, self.settings["effort"]))

    @property
    def lanes(self) -> list[int]:
        return [len(self.task.seeds["eligible"])]

    def unit(self, span: Span, tick: Tick) -> Any:
        """The rows of some lanes."""
        task, settings, basket, going = self.task, self.settings, self.task.basket, self.stages
        trials, index = self.trials(torch.arange(span.first, span.end))
        suspect, space = settings["suspects"][0], task.parts["space"]
        going.begin(span.size, tick)
        found = task.parts["search"](
            space, task.parts["objective"], basket, trials, suspect=suspect, seed=settings["seed"],
            budget=Budget(), tick=going.tick("search"),
        )  # fmt: skip
        if found.trial is not None:  # of `edges`, which has several rows of an image
            trials, index = trials.rows(found.trial), index[found.trial]
        rows = make_rows(
            space, task.parts["objective"], basket, trials, found, suspect=suspect, data=task.matched.data,
            index=index, labelled=True, config=task.key, shrinks=settings["effort"] > 0, going=going,
            smallest=self.smallest,
        )  # fmt: skip
        alone = self._alone(trials.seeds, trials.aims, suspect)
        going.end()

        def table() -> pa.Table:
            made = rows()
            own = {"tags": [[ALONE] if one else [] for one in alone.tolist()]}
            if settings["to"] != "truth":
                own |= {"truth": task.matched.labels[index].tolist(), "target": trials.aims.tolist()}
            for name, values in own.items():
                place, kind = made.schema.get_field_index(name), made.schema.field(name)
                made = made.set_column(place, kind, pa.array(values, kind.type))
            return with_metadata(made, basket.classes, {task.key: settings})

        return table

    @torch.no_grad()
    def _alone(self, seeds: Tensor, aims: Tensor, suspect: str) -> Tensor:
        """(n,) bool: where g(z) alone is given the class: then the shift explains little."""
        images = to_floats(seeds.to(self.task.basket.device))
        points = self.task.parts["space"].start(images)
        drawn = (points.image - points.rest).clamp(0, 1) if "rest" in points._fields else images
        said = answers(self.task.basket.judge(drawn, [suspect]).cpu())[0]
        return said == aims
