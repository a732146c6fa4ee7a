"""What a recipe does where it does not say otherwise. `foible.runs.recipe.Recipe` names these."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from torch import Tensor

from foible.basket import Basket
from foible.basket.judging import ask_first
from foible.basket.matching import Matched, match
from foible.data import Dataset, Photographs, read
from foible.runs.recipe import Recipe, known_options
from foible.runs.task import Seeds, Task

LOOKED_AT = 16  # images that networks are tried on before any work


def read_config(recipe: Recipe, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The config from keywords; an unknown one is named. Parts that are no text are objects in memory."""
    options = dict(known_options(recipe.config, options, recipe.name))
    objects = {name: options[name] for name in recipe.parts if not isinstance(options.get(name, ""), str)}
    named = {name: f"object:{getattr(thing, '__name__', type(thing).__name__)}" for name, thing in objects.items()}
    return recipe.config(**options | named), objects


def everybody(basket: Basket, _: Any) -> Basket:
    """All networks, in their order."""
    return basket


def with_suspects(basket: Basket, config: Any) -> Basket:
    """All networks; the config's suspects must be among them."""
    for name in config.suspect:
        basket.peers(name)  # or an error that names it
    return basket


def plainly(data: Dataset | Photographs, basket: Basket, canvas: str | None, labelled: bool) -> Matched:
    """On the canvas that was asked for, or that of the largest network."""
    return match(data, basket, canvas=canvas, labelled=labelled)


def as_it_is(task: Task, _: Any) -> Task:
    """Parts as their specs say."""
    return task


def check_images(task: Task) -> Tensor | None:
    """Try the first images on every network; they (n, channels, height, width) uint8, or None if none can be read."""
    seen = read(task.matched.data, task.matched.index[:LOOKED_AT], [task.matched.canvas])
    if not len(seen.index):
        return None
    task.basket.check(seen.images[0])
    return seen.images[0]


def check_views(task: Task) -> None:
    """Try the first images on every network, each by its own view."""
    ask_first(task.basket, task.matched)


def no_seeds(_: Task) -> Seeds:
    """Units need nothing but the data."""
    return Seeds()


def own_settings(task: Task) -> dict[str, Any]:
    """Every field of the config that is not a part, a split or a canvas, nor the size of a unit."""
    other = (*task.recipe.parts, "split", "canvas", "unit")
    named = {entry.name for entry in fields(task.config)} - set(other)
    return {name: value for name, value in asdict(task.config).items() if name in named}
