"""The units of `fool`: independent runs, each of which gives an image for every class."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.errors import UserError
from foible.findings import OUTCOMES, with_metadata
from foible.findings.rows import answered, as_pngs, as_table, cost, ended, identity, spread
from foible.images import encode_png, to_bytes, to_floats
from foible.objectives import probabilities
from foible.recipes.config import FoolConfig
from foible.recipes.hunt.rows import thumbnails
from foible.runs.defaults import check_images
from foible.runs.local import Tick
from foible.runs.recipe import Recipe, known_options
from foible.runs.spans import Span
from foible.runs.task import Task
from foible.search.climb.ascend import ascend, mean_image, starts
from foible.search.elites.by_class import Shape, evolve
from foible.search.elites.encodings import Climb
from foible.search.task import EXHAUSTED, FOUND, INVALID
from foible.text import did_you_mean

FILMED = 12  # classes of a unit's first run of which the generations are kept as pictures
MANY = 100  # classes from which on a generation is larger
ROWS = {"cpu": 1000, "cuda": 1 << 16}  # images at once, of 28×28
HELD = {"cpu": 20_000, "cuda": 1 << 18}  # genomes of a generation, of all runs of a unit


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[FoolConfig, dict[str, Any]]:
    """Keywords as settings; the confidence is a part of the objective."""
    config: FoolConfig = recipe.config(**known_options(recipe.config, dict(options), recipe.name))
    said = {"of": config.of, "confidence": config.confidence}
    spec = "confidence?" + "&".join(f"{key}={value}" for key, value in said.items())
    return dataclasses.replace(config, objective=spec), {}


def check_suspects(basket: Basket, config: FoolConfig) -> Basket:
    """Every network; those that are to be fooled must be among them."""
    for name in config.suspect:
        basket.peers(name)
    return basket


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
    climbs = isinstance(task.parts["encoding"], Climb)
    evolution = {
        "generations": config.generations, "population": config.population or (200 if len(classes) < MANY else 400)
    }  # fmt: skip
    return {
        "suspects": list(config.suspect) or list(task.basket.names), "runs": config.runs, "seed": config.seed,
        "targets": sorted({classes.index(name) for name in config.target}) or list(range(len(classes))),
        **({} if climbs else evolution),
    }  # fmt: skip


class Made(NamedTuple):
    """What a unit's runs came to, a row for each run and class, on the basket's device."""

    images: Tensor  # uint8
    first: Tensor  # uint8: the best of the first generation, or where a climb began
    trace: Tensor  # (marks, rows): the confidence on the way
    marks: tuple[int, ...]  # generations, or steps
    points: list[list[float]]  # genomes, written down; empty where the image is all there is
    films: dict[int, bytes]
    broken: Tensor  # rows whose run was answered with NaN or infinity alone
    tried: int  # images of one run
    slopes: int = 0  # of one run


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
        """Runs of a unit that nothing has been measured before: on a CPU one takes seconds, and a unit is what a kill
        can cost."""
        return 4 if self.task.basket.device.type == "cpu" else self.most

    @property
    def most(self) -> int:
        genomes: int = self.settings.get("population", 0)
        return max(1, self._held(HELD) // max(genomes, len(self.settings["targets"])))

    def _held(self, table: dict[str, int]) -> int:
        return max(64, table.get(self.task.basket.device.type, 1000) * 784 // max(784, math.prod(self.shape)))

    @property
    def shape(self) -> Shape:
        data, (height, width) = self.task.matched.data, self.task.matched.size
        channels = getattr(data, "channels", None) or data.images.shape[1]  # type: ignore[union-attr]
        return int(channels), height, width

    def unit(self, span: Span, tick: Tick) -> Any:
        """The rows of some runs for one suspect."""
        task, settings, suspect = self.task, self.settings, self.settings["suspects"][span.part]
        basket = task.basket.only([suspect, *task.basket.peers(suspect)])
        lanes = torch.arange(span.first, span.end, device=basket.device)
        way = self._climbed if isinstance(task.parts["encoding"], Climb) else self._evolved
        made = way(basket, lanes, tick)
        table = self._rows(basket, lanes, made)
        return lambda: with_metadata(table(), task.basket.classes, {task.key: settings})

    def _evolved(self, basket: Basket, lanes: Tensor, tick: Tick) -> Made:
        settings, shape, encoding = self.settings, self.shape, self.task.parts["encoding"]
        objective, targets = self.task.parts["objective"], torch.tensor(settings["targets"], device=lanes.device)
        asked = basket.names if objective.asks == "all" else basket.names[:1]
        cells = len(targets)
        shown = torch.linspace(0, cells - 1, min(FILMED, cells), device=lanes.device).long().unique()
        frames: list[np.ndarray] = []

        def every(images: Tensor) -> Tensor:
            scores: Tensor = objective.every(basket.judge(images, asked))
            return scores.index_select(1, targets)

        def watch(_: int, genomes: Any) -> None:
            some = type(genomes)(*(field.index_select(0, shown) for field in genomes))
            frames.append(thumbnails(encoding.render(some, shape)))

        done = evolve(
            encoding, every, shape, lanes, population=settings["population"], generations=settings["generations"],
            seed=settings["seed"], rows=self._held(ROWS), watch=watch, tick=tick,
        )  # fmt: skip
        films = {int(row): encode_png(np.concatenate([one[at] for one in frames], 2)) for at, row in enumerate(shown)}
        images, first = (
            torch.cat([
                to_bytes(encoding.render(type(genomes)(*(f[at : at + 4096] for f in genomes)), shape))
                for at in range(0, len(genomes[0]), 4096)
            ])
            for genomes in (done.genomes, done.first)
        )  # fmt: skip
        return Made(
            images, first, done.trace.flatten(1).sigmoid(), done.marks, encoding.written(done.genomes, shape), films,
            (done.score.isinf()).flatten(), settings["population"] * settings["generations"],
        )  # fmt: skip

    def _climbed(self, basket: Basket, lanes: Tensor, tick: Tick) -> Made:
        settings, how, classes = self.settings, self.task.parts["encoding"].how, len(basket.classes)
        targets = torch.tensor(settings["targets"], device=lanes.device)
        mean = mean_image(self.task.matched).to(lanes.device)
        aims = targets.repeat(len(lanes))
        begun = starts(mean, settings["seed"], (lanes[:, None] * classes + targets).flatten())
        done = ascend(
            basket, basket.names[0], begun, mean, aims, how, every=max(1, how.steps // 20),
            tick=lambda rows: tick(rows / len(targets)),
        )  # fmt: skip
        return Made(
            done.images, to_bytes(begun), done.trace, done.steps, [[]] * len(aims), {}, done.invalid,
            how.steps * len(targets), how.steps * len(targets),
        )  # fmt: skip

    def _rows(self, basket: Basket, lanes: Tensor, made: Made) -> Any:
        """All that networks have to say is asked here; the function puts it together."""
        settings, targets = self.settings, self.settings["targets"]
        aims, count = torch.tensor(targets).repeat(len(lanes)), len(lanes) * len(targets)
        before, after = (
            torch.cat([basket.judge(to_floats(part)) for part in pixels.split(self._held(ROWS))], 1)
            for pixels in (made.first, made.images)
        )
        found = self.task.parts["objective"].found(after, aims.to(after.device)).cpu()
        valid = after.isfinite().all(2).all(0).cpu() & ~made.broken.cpu()
        outcome = torch.where(valid, torch.where(found, FOUND, EXHAUSTED), INVALID)
        said = answers(after.cpu())
        before, after = (probabilities(logits).cpu() for logits in (before, after))
        images, first, trace = made.images.cpu(), made.first.cpu(), made.trace.cpu()

        def table() -> pa.Table:
            marks = made.marks
            each = lanes.cpu().repeat_interleave(len(targets)).tolist()
            spent = {name: _shared(total, len(targets), len(lanes)) for name, total in
                     (("candidates", made.tried), ("forwards", made.tried), ("backwards", made.slopes))}  # fmt: skip
            films = sorted(made.films)
            own = {
                "target": aims, "method": settings["encoding"].partition("?")[0], "origin": as_pngs(first),
                "path": [[{"step": mark, "draws": []} for mark in marks[1:]]] * count,
                "trace": [[[value] for value in row] for row in trace.t().tolist()],
                "point": made.points, "change": [[]] * count,
                "film": spread(pa.array([made.films[row] for row in films], pa.binary()), torch.tensor(films), count)
                if films else None,
            }  # fmt: skip
            return as_table(
                identity([list(basket.names)] * count, each, config=self.task.key, device=basket.device,
                         which=targets * len(lanes)),
                answered(before, after, said, truth=None, label_from=None, consensus=torch.full((count,), -1)),
                cost(spent["forwards"], spent["backwards"], candidates=spent["candidates"], moves=len(marks) - 1),
                ended([OUTCOMES[one] for one in outcome.tolist()], as_pngs(images)),
                own, count=count,
            )  # fmt: skip

        return table


def _shared(total: int, rows: int, runs: int) -> Tensor:
    """What a run took, over its rows: they sum to it."""
    each = torch.full((rows,), total // rows)
    each[: total % rows] += 1
    return each.repeat(runs)
