"""What a recipe works on, and the form of its units: a task is networks and data, matched, and the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from foible.basket import Basket
from foible.basket.matching import Matched
from foible.permission import NOTHING, Permission
from foible.runs.kept_seeds import Kept
from foible.runs.local import Made, Tick
from foible.runs.recipe import Recipe
from foible.runs.record import settings_hash
from foible.runs.spans import Span


class Work(Protocol):
    """The units of a run. Each is a pure function of the settings and its lanes; how many lanes make a unit changes no
    row. It may also say `first` and `least`, in place of `FIRST` and `LEAST`."""

    @property
    def lanes(self) -> Sequence[int]:
        """How many there are: of a hunt for each suspect, of other recipes once. A unit has lanes of one part."""

    @property
    def most(self) -> int:
        """As many as memory holds in one unit."""

    def unit(self, span: Span, tick: Tick) -> Made:
        """The rows of some lanes; `tick(k)` says that the work of k more lanes is done, or of parts of them. Or a
        function that gives them: what is left to be done without the networks, which on a GPU happens beside the next
        unit."""


FIRST = 64  # lanes of a unit that nothing has been measured before
LEAST = 16  # lanes of a unit: fewer would take as long, batches being padded


class ImageUnits:
    """Units of images, in the order of the data: for recipes that judge every one."""

    task: Task

    @property
    def lanes(self) -> list[int]:
        return [len(self.task.matched.index)]

    @property
    def most(self) -> int:
        height, width = self.task.matched.size
        return max(256, min(4096, 21_000_000 // (height * width)))

    def part(self, span: Span) -> Tensor:
        """Positions of the images of a unit."""
        return self.task.matched.index[span.first : span.end]


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
    kept: Kept | None = None  # what was said of images before; only where seeds are looked for
    workers: int | None = None  # threads that judge inside a unit
    folder: Path | None = None  # of the run, where it is on disk
    quiet: bool = True

    @property
    def key(self) -> str:
        """The hash that names the settings in every row."""
        return settings_hash(self.settings)
