"""The units of `fool`: independent runs, each of which gives an image for every class."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.errors import UserError
from foible.findings import OUTCOMES, with_metadata
from foible.findings.rows import answered, as_films, as_pngs, as_table, cost, ended, identity, judged_again
from foible.networks.progress_file import Checkpoint
from foible.objectives import probabilities
from foible.recipes.config import FoolConfig
from foible.rejection.beside_run import keep
from foible.runs.defaults import check_images
from foible.runs.folder import RunFolder
from foible.runs.local import Tick
from foible.runs.recipe import Recipe, known_options
from foible.runs.spans import Span
from foible.runs.task import Task
from foible.search.climb import ascend
from foible.search.elites import by_class
from foible.search.elites.encodings import Climb
from foible.search.elites.for_classes import JUDGED, Made, make, room
from foible.search.task import EXHAUSTED, INVALID
from foible.text import did_you_mean

MANY = 100  # classes from which on a generation is larger
HELD = {"cpu": 20_000, "cuda": 1 << 18}  # genomes of a generation, of all runs of a unit
SECONDS = 30.0  # between two notes of where a unit stands


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[FoolConfig, dict[str, Any]]:
    """Keywords as settings; the confidence is a part of the objective."""
    config: FoolConfig = recipe.config(**known_options(recipe.config, dict(options), recipe.name))
    return dataclasses.replace(config, objective=f"confidence?of={config.of}&confidence={config.confidence}"), {}


def check_task(task: Task) -> None:
    """Every class must be one, and every network must answer."""
    classes = task.basket.classes
    for name in task.config.target:
        if name not in classes:
            raise UserError(f"no class {name!r}{did_you_mean(name, classes)}: the networks know {', '.join(classes)}")
    check_images(task)


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    config, classes = task.config, list(task.basket.classes)
    evolution = {
        "generations": config.generations, "population": config.population or (200 if len(classes) < MANY else 400)
    }  # fmt: skip
    return {
        "suspects": list(config.suspect) or list(task.basket.names), "runs": config.runs, "seed": config.seed,
        "targets": sorted({classes.index(name) for name in config.target}) or list(range(len(classes))),
        **({} if isinstance(task.parts["encoding"], Climb) else evolution),
    }  # fmt: skip


def tell_apart(task: Task, _: Any, folder: RunFolder | None) -> None:
    """Can it be told? Kept with the run."""
    if folder is not None:
        keep(folder.path, task.basket, task.settings["suspects"], task.matched.data, task.settings["seed"])


class Fooling:
    """Lanes of each suspect, a run each."""

    least = 1

    def __init__(self, task: Task) -> None:
        self.task, self.settings = task, task.settings

    @property
    def lanes(self) -> list[int]:
        return [self.settings["runs"]] * len(self.settings["suspects"])

    @property
    def first(self) -> int:
        """Runs of a unit that nothing has been measured before: on a CPU one takes seconds."""
        return 4 if self.task.basket.device.type == "cpu" else self.most

    @property
    def most(self) -> int:
        each: int = max(self.settings.get("population", 0), len(self.settings["targets"]))
        return max(1, room(HELD, self.task.basket.device, self.task.matched.shape) // each)

    def unit(self, span: Span, tick: Tick) -> Any:
        """The rows of some runs for one suspect."""
        task, settings, suspect = self.task, self.settings, self.settings["suspects"][span.part]
        basket = task.basket.only([suspect, *task.basket.peers(suspect)])
        lanes = torch.arange(span.first, span.end, device=basket.device)
        stands = None if task.folder is None else RunFolder(task.folder).standing(span)
        form = ascend.KEPT if isinstance(task.parts["encoding"], Climb) else by_class.KEPT
        made = make(
            task.parts["encoding"], task.parts["objective"], basket, lanes, settings["targets"], task.matched,
            seed=settings["seed"], tick=tick, population=settings.get("population"), about=task.key,
            generations=settings.get("generations"), kept=Checkpoint(stands, SECONDS, form),
        )  # fmt: skip
        table = self._rows(basket, lanes, made)
        return lambda: with_metadata(table(), task.basket.classes, {task.key: settings})

    def _rows(self, basket: Basket, lanes: Tensor, made: Made) -> Any:
        """All that networks have to say is asked here; the function puts it together."""
        settings, targets, count = self.settings, self.settings["targets"], len(made.images)
        aims, many = torch.tensor(targets).repeat(len(lanes)), room(JUDGED, basket.device, self.task.matched.shape)
        before, after = (basket.predict(pixels, batch=many) for pixels in (made.first, made.images))
        claimed = torch.where(made.broken.cpu(), INVALID, EXHAUSTED)
        outcome, said = judged_again(self.task.parts["objective"], claimed, after, aims), answers(after)
        images, first, trace = made.images.cpu(), made.first.cpu(), made.trace.cpu()
        films = as_films(made.frames, made.shown, count)

        def table() -> pa.Table:
            each = lanes.cpu().repeat_interleave(len(targets)).tolist()
            own = {
                "target": aims, "method": settings["encoding"].partition("?")[0], "origin": as_pngs(first),
                "path": [[{"step": mark, "draws": []} for mark in made.marks[1:]]] * count,
                "trace": [[[value] for value in row] for row in trace.t().tolist()],
                "point": made.points, "change": [[]] * count, "film": films,
            }  # fmt: skip
            return as_table(
                identity([list(basket.names)] * count, each, config=self.task.key, device=basket.device,
                         which=targets * len(lanes)),
                answered(probabilities(before), probabilities(after), said, truth=None, label_from=None,
                         consensus=torch.full((count,), -1)),
                cost(made.candidates, made.backwards, candidates=made.candidates, moves=len(made.marks) - 1),
                ended([OUTCOMES[one] for one in outcome.tolist()], as_pngs(images)),
                own, count=count,
            )  # fmt: skip

        return table
