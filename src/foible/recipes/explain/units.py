"""The units of `explain`: images that a network gets wrong, shifted in the latent space until it gets them right."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from foible.basket.accuracy import answers
from foible.basket.judging import Judged
from foible.errors import UserError
from foible.findings.rows import Columns
from foible.images import to_floats
from foible.recipes.explain import ALONE
from foible.recipes.hunt.units import Searching
from foible.recipes.seeds import look, seeds_of, tell_looked
from foible.runs.defaults import check_images
from foible.runs.task import Seeds, Task
from foible.search import Trials
from foible.search.nearest.in_box import nearest_in_box
from foible.search.shrink import Shrunk
from foible.text import did_you_mean

AIMS = ("truth", "each", "runner-up")  # besides classes


def check_task(task: Task) -> None:
    """The class must be one, the generator must draw images of this size, and every network must answer."""
    to, classes = task.config.to, task.basket.classes
    if to not in (*AIMS, *classes):
        known = f"{', '.join(AIMS)}, or one of {', '.join(classes)}"
        raise UserError(f"--to {to!r} is no class{did_you_mean(to, [*AIMS, *classes])}: expected {known}")
    images = check_images(task)
    if images is not None:
        task.parts["space"].start(to_floats(images[:1].to(task.basket.device)))


def images_of(task: Task) -> Seeds:
    """`eligible`: positions of images that the suspect gets wrong, and `aims`: their labels; or of those that it gets
    right, and the classes that they are driven to, one after another."""
    classes, to, wanted = task.basket.classes, task.config.to, task.config.images
    mends, unanswered = to == "truth", 0

    def good(part: Judged, said: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal unanswered
        unanswered += int((said[0] < 0).sum())
        known = (said[0] >= 0) & (labels >= 0)
        aims = part.logits[0].topk(2, 1).indices[:, 1] if to == "runner-up" else labels
        return known & ((said[0] != labels) if mends else (said[0] == labels)), aims

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
    if to in ("truth", "runner-up"):
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

    @property
    def lanes(self) -> list[int]:
        return [len(self.task.seeds["eligible"])]

    @property
    def shrinks(self) -> bool:
        return bool(self.settings["effort"] > 0)

    def smallest(self, *given: Any, **how: Any) -> Shrunk:
        return nearest_in_box(*given, effort=self.settings["effort"], **how)

    def own(self, trials: Trials, index: Tensor, suspect: str) -> Columns:
        """Which images need no shift; and, of images that are right, what they show and where they are driven."""
        alone = self._alone(trials.seeds, trials.aims, suspect)
        own: Columns = {"tags": [[ALONE] if one else [] for one in alone.tolist()]}
        if self.settings["to"] != "truth":
            own |= {"truth": self.task.matched.labels[index].tolist(), "target": trials.aims.tolist()}
        return own

    @torch.no_grad()
    def _alone(self, seeds: Tensor, aims: Tensor, suspect: str) -> Tensor:
        """(n,) bool: where g(z) alone is given the class: then the shift explains little."""
        images = to_floats(seeds.to(self.task.basket.device))
        points = self.task.parts["space"].start(images)
        drawn = (points.image - points.rest).clamp(0, 1) if "rest" in points._fields else images
        said = answers(self.task.basket.judge(drawn, [suspect]).cpu())[0]
        return said == aims
