"""What a recipe works on, and the form of its units: a task is networks and data, matched, and the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.matching import Matched
from foible.permission import NOTHING, Permission
from foible.runs.local import Made, Tick
from foible.runs.recipe import Recipe
from foible.runs.record import settings_hash


class Work(Protocol):
    """The units of a run. Each is a pure function of the settings and its number."""

    @property
    def sizes(self) -> Sequence[int]:
        """What each unit counts on the bar; there are as many units as sizes."""

    def unit(self, number: int, tick: Tick) -> Made:
        """The rows of one unit; `tick(k)` says that k more are done. Or a function that gives them: what is left to be
        done without the networks, which on a GPU happens beside the next unit."""


class ImageUnits:
    """Units of so many images each, in the order of the data: for recipes that judge every one."""

    task: Task

    @property
    def parts(self) -> Sequence[Tensor]:
        """Positions of the images of each unit."""
        return torch.split(self.task.matched.index, self.task.settings["unit"])

    @property
    def sizes(self) -> list[int]:
        return [len(part) for part in self.parts]


@dataclass(frozen=True, eq=False)
class Seeds:
    """Where units begin: tensors by name, which worker processes are handed too. accuracy: of each network on the
    images that were looked at, where labels tell it. unreadable: a line for each file that could not be read."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    accuracy: dict[str, Any] | None = None
    unreadable: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Task:
    """What a recipe works on: opened, matched, and settled. config: None where the run was opened again."""

    recipe: Recipe
    basket: Basket
    matched: Matched
    parts: Mapping[str, Any]  # space, objective, search, method: made from their specs, or given
    named: Mapping[str, str]  # their specs, as they can be opened from here
    may: Permission = NOTHING
    config: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Tensor] = field(default_factory=dict)
    workers: int | None = None  # threads that judge inside a unit
    quiet: bool = True

    @property
    def key(self) -> str:
        """The hash that names the settings in every row."""
        return settings_hash(self.settings)
