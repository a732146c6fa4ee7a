"""What a hunt takes from its data and networks where nobody said otherwise: how sure peers must be, how photographs are
moved, and how far the whole way may lead. All of it is written into the specs, so that settings and report tell it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from foible import specs
from foible.objectives import OBJECTIVES
from foible.recipes.hunt.most import read_most
from foible.recipes.hunt.parts import make_parts
from foible.runs.task import Task

SIDE = 28  # a photograph is shifted by as much of its shorter side as a pixel is of this many


def sure(classes: int) -> float:
    """How sure every peer must be, where nobody says: a half for up to ten classes, a tenth less for each tenfold of
    these (0.4 of a hundred, 0.3 of a thousand), and at least a quarter. Below that a peer hardly holds the class."""
    return round(min(0.5, max(0.25, 0.5 - 0.1 * math.log10(max(1, classes) / 10))), 2)


def fitted(task: Task, objects: Collection[str]) -> Task:
    """The task with its space and objective fitted to data and networks, but for those given as objects."""
    named, shorter = dict(task.named), min(task.matched.size)
    if "objective" not in objects and specs.parse(named["objective"]).name in OBJECTIVES:
        named["objective"] = _with(named["objective"], peer_confidence=sure(len(task.basket.classes)))
    if "space" not in objects:
        chosen: dict[str, Any] = {}
        if task.matched.canvas is not None:  # photographs
            chosen |= {"border": "reflect", "pixels": max(1.0, round(shorter / SIDE, 1))}
        if task.config.most is not None:
            chosen |= read_most(task.config.most).options(shorter)
        parts = specs.chained(named["space"])
        named["space"] = "+".join(
            _with(part, **chosen) if specs.parse(part).name == "affine" else part for part in parts
        )
    changed = {name: spec for name, spec in named.items() if spec != task.named[name]}
    if not changed:
        return task
    return replace(task, named=named, parts={**task.parts, **make_parts(changed, task.may, {})})


def _with(spec: str, **options: Any) -> str:
    """The spec with these options too, as far as it does not say them itself."""
    said = specs.parse(spec).options
    for name, value in options.items():
        if name not in said:
            text = f"{value:g}" if isinstance(value, float) else value
            spec += f"{'&' if '?' in spec else '?'}{name}={text}"
    return spec
