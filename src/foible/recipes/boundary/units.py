"""The units of `boundary`: lines from one code to another, every point of which is drawn, judged and kept."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import torch
from torch import Tensor

from foible import specs
from foible.basket.accuracy import answers
from foible.errors import UserError
from foible.findings import with_metadata
from foible.findings.rows import Columns, agreed, answered, as_lists, as_pngs, as_table, cost, ended, identity, known
from foible.generators.pixels import PIXELS
from foible.images import to_bytes, to_floats
from foible.objectives import probabilities
from foible.permission import Permission
from foible.processes import one_thread
from foible.recipes.boundary.ends import ends_sha256
from foible.recipes.boundary.pairs import read_pairs
from foible.recipes.boundary.reading import ALPHA
from foible.recipes.boundary.samples import SAMPLED, shape_of
from foible.recipes.config import BoundaryConfig
from foible.recipes.rank.rows import TO_LABEL
from foible.recipes.replay import Replayed, odd, replayed
from foible.runs.defaults import check_images
from foible.runs.local import Tick
from foible.runs.recipe import Recipe, known_options
from foible.runs.spans import Span
from foible.runs.task import Task
from foible.search.walk import walk
from foible.spaces.line import Line

VALUES = {"cpu": 20_000_000, "cuda": 200_000_000}  # of the images of a unit


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[BoundaryConfig, dict[str, Any]]:
    """Keywords as settings; generator and path are those of the line. A generator in memory makes it an object."""
    options, objects = dict(known_options(recipe.config, options, recipe.name)), {}
    generator = options.get("generator", "")
    if generator and not isinstance(generator, str):
        objects["space"] = Line(generator, options.get("path", "straight"))
        options["generator"], options["space"] = f"object:{type(generator).__name__}", "object:Line"
    config: BoundaryConfig = recipe.config(**options)
    space = config.space if objects else f"line?path={config.path}&generator={quote(config.generator, safe='/:,')}"
    ends = config.ends or ("images" if config.generator == PIXELS else "samples")
    if ends in SAMPLED and config.generator == PIXELS and config.first is None:
        raise UserError("--generator pixels draws no samples: it fades images into each other; say --ends images")
    if ends == "images" and config.unlabelled:
        raise UserError("--ends images takes one of each class: it needs labels; give other --ends, or --from and --to")
    return dataclasses.replace(config, space=space, ends="" if config.first else ends), objects


def make_line(named: Mapping[str, Any], may: Permission, objects: Mapping[str, Any]) -> dict[str, Any]:
    """The line, from its spec unless it is given."""
    if not objects and named["space"].startswith("object:"):
        raise UserError("the generator of this run was an object in memory: it cannot be made again")
    return dict(objects) or {"space": specs.resolve(named["space"], {"line": Line}, "space", may)}


def check_task(task: Task) -> None:
    """The generator must draw images of this size, and every network must answer; pairs must be of classes."""
    settings_of(task)
    task.parts["space"].on(task.basket.device, shape_of(task))
    check_images(task)


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have. pairs: classes by number, -1 of photographs."""
    config, given = task.config, ends_sha256(task.config)
    same = ("ends", "steps", "samples", "sure", "candidates", "seed", "unlabelled")
    pairs = [(-1, -1)] if config.first is not None else read_pairs(config.pairs, task.basket.classes)
    return {
        **{name: getattr(config, name) for name in same}, "pairs": [list(pair) for pair in pairs],
        **({"ends_sha256": given} if given else {}),
    }  # fmt: skip


class Walking:
    """Lanes are lines; of a sheet of candidates, these."""

    least = 1

    def __init__(self, task: Task) -> None:
        self.task, self.settings, self.shape = task, task.settings, shape_of(task)
        self.steps = 1 if self.settings["candidates"] else self.settings["steps"]

    @property
    def lanes(self) -> list[int]:
        return [len(self.task.seeds["codes" if self.settings["candidates"] else "first"])]

    @property
    def most(self) -> int:
        values = VALUES.get(self.task.basket.device.type, 20_000_000)
        return max(1, values // (self.steps * math.prod(self.shape)))

    def unit(self, span: Span, tick: Tick) -> Any:
        """The rows of some lines, point after point."""
        basket, task, line, part = self.task.basket, self.task, self.task.parts["space"], slice(span.first, span.end)
        if self.settings["candidates"]:
            codes = task.seeds["codes"][part]
        else:
            ends = (task.seeds[name][part].to(basket.device) for name in ("first", "second"))
            codes = line.between(*ends, self.steps).flatten(0, 1)
        made = walk(lambda some: line.draw(some, self.shape), basket, codes, lambda rows: tick(rows / self.steps))
        origin = None if self.settings["candidates"] else task.seeds["origin"][part]
        before = made.logits if origin is None else basket.predict(origin).repeat_interleave(self.steps, 1)
        return lambda: with_metadata(
            self._rows(span, codes.cpu(), made.images, before, made.logits, origin), basket.classes,
            {task.key: self.settings},
        )  # fmt: skip

    def _rows(
        self, span: Span, codes: Tensor, images: Tensor, before: Tensor, after: Tensor, origin: Tensor | None
    ) -> pa.Table:
        basket, count, steps = self.task.basket, len(codes), self.steps
        said = answers(after)
        lanes = [lane for lane in range(span.first, span.end) for _ in range(steps)]
        names = [list(basket.names)] * count
        own: Columns = {"path": [[]] * count, "point": as_lists(codes), **self._where(lanes)}
        if origin is not None:
            own["origin"] = as_pngs(origin).take(pa.array([lane - span.first for lane in lanes]))
        which = None if origin is None else [f"{step:0{len(str(steps - 1))}d}" for step in range(steps)] * span.size
        return as_table(
            identity(names, lanes, config=self.task.key, device=basket.device, which=which),
            answered(probabilities(before), probabilities(after), said, truth=None, label_from=None,
                     consensus=agreed(said)),
            cost(len(basket)),
            ended(["between" if fine else "invalid" for fine in (said >= 0).all(0).tolist()], as_pngs(images)),
            own, count=count,
        )  # fmt: skip

    def _where(self, lanes: list[int]) -> Columns:
        """Which line, how far along it, and the class that it leads to; of a candidate, what it is one of."""
        classes = self.task.basket.classes
        if self.settings["candidates"]:
            shows = self.task.seeds["classes"][lanes]
            return {"target": known(shows), "change": [[]] * len(lanes),
                    "tags": [[TO_LABEL, classes[one]] for one in shows.tolist()]}  # fmt: skip
        pairs = [self.settings["pairs"][lane] for lane in lanes]
        alpha = [step / (self.steps - 1) for step in range(self.steps)] * (len(lanes) // self.steps)
        return {
            "target": known(torch.tensor([pair[1] for pair in pairs])), "change": [[(ALPHA, one)] for one in alpha],
            "tags": [[TO_LABEL] if one < 0 else [TO_LABEL, f"{classes[one]} → {classes[other]}"]
                     for one, other in pairs],
        }  # fmt: skip


def drawn_again(row: dict[str, Any], task: Task) -> Replayed:
    """A row from its code: drawn and judged again."""
    basket, line, code = task.basket, task.parts["space"], torch.tensor([row["point"] or []])
    if code.shape[1] != line.on(basket.device, shape_of(task)).latent:
        raise odd(row, f"its code has {code.shape[1]} numbers")
    with torch.no_grad(), one_thread():
        image = to_bytes(line.draw(code.to(basket.device), shape_of(task)))
        logits = basket.judge(to_floats(image), row["networks"]).cpu()
    return replayed(row, image[0].cpu(), logits, found=False)
