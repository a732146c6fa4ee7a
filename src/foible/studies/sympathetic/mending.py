"""One classifier, one space, some images: what gradient descent makes of them (paper 2's method), and what is nearest.

Both are the package's own searches (`descend`, `nearest_in_box`) in memory. A shift is in units of the code, because
the spaces here have a largest move of 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.images import settle, to_floats
from foible.objectives import Restore
from foible.search.climb.descend import descend
from foible.search.nearest.in_box import nearest_in_box
from foible.search.task import FOUND, Trials
from foible.search.walking import Paths

ROWS = 2000  # images that are drawn and judged at once


@dataclass(frozen=True, eq=False)
class Images:
    """images: (n, channels, height, width) in [0, 1]; aims: (n,), the class that each should be given; index: (n,),
    where in the data they stand."""

    images: Tensor
    aims: Tensor
    index: Tensor

    def __len__(self) -> int:
        return len(self.aims)

    def __getitem__(self, rows: Tensor) -> Images:
        return Images(self.images[rows], self.aims[rows], self.index[rows.to(self.index.device)])


@dataclass(frozen=True, eq=False)
class Mended:
    """What became of n images.

    found: (n,) bool, the class is given. steps: (n,), taken until then, or all. shift: (n, draws), e. changed: as the
    images, x′; what a PNG holds of it where that was asked for.
    """

    given: Images
    found: Tensor
    steps: Tensor
    shift: Tensor
    changed: Tensor

    @property
    def distances(self) -> Tensor:
        """(n,): ‖e‖."""
        far: Tensor = self.shift.norm(dim=1)
        return far

    @property
    def change(self) -> Tensor:
        """x′ − x, as the images."""
        return self.changed - self.given.images

    @property
    def mended(self) -> Mended:
        """Those that were found."""
        rows = self.found.nonzero()[:, 0]
        return Mended(self.given[rows], self.found[rows], self.steps[rows], self.shift[rows], self.changed[rows])


@dataclass(frozen=True)
class Descent:
    """How gradient descent goes. png: what counts is what a PNG will hold, clipped and in 8 bits; the paper's form is
    the other one, whose pixels may leave [0, 1]."""

    steps: int = 1000
    rate: float = 0.1
    momentum: float = 0.0
    restarts: int = 0
    png: bool = True


def mend(space: Any, basket: Basket, suspect: str, given: Images, how: Descent, *, seed: int = 0) -> Mended:
    """Descend the cross entropy of each image's aim under the suspect, until it gives that class."""
    device, space = basket.device, _clipped(space, how.png)
    given = Images(given.images.to(device), given.aims.to(device), given.index)
    alone = basket.only([suspect])
    trials = Trials(torch.arange(len(given), device=device), given.images, given.aims)
    came = descend(
        space, Restore(), alone, trials, suspect=suspect, seed=seed, rate=how.rate, steps=how.steps,
        momentum=how.momentum, restarts=how.restarts, settled=how.png,
    )  # fmt: skip
    moved = (2 * came.accepted.draws - 1).to(device)
    shift = torch.zeros(len(given), space.draws, device=device).index_add(0, came.accepted.row.to(device), moved)
    changed = shifted(space, given.images, shift)
    return Mended(
        given, (came.outcome == FOUND).to(device), came.candidates.to(device), shift,
        settle(changed) if how.png else changed,
    )  # fmt: skip


def _clipped(space: Any, png: bool) -> Any:
    return replace(space, clip=png) if hasattr(space, "clip") else space


@torch.no_grad()
def shifted(space: Any, images: Tensor, shift: Tensor) -> Tensor:
    """x′ of images (n, …) for shifts (n, draws)."""
    parts = zip(images.split(ROWS), shift.split(ROWS), strict=True)
    made = [space.render(space.move(space.start(some), 0.5 + 0.5 * moved)) for some, moved in parts]
    return torch.cat([images[:0], *made])


def nearest(space: Any, basket: Basket, suspect: str, mended: Mended, effort: int) -> Mended:
    """The smallest shift of the mended images that a PNG holds (those alone), or the one that they have."""
    first = mended.mended
    if not len(first.given):
        return first
    space = _clipped(space, True)
    paths = Paths((0.5 + 0.5 * first.shift).cpu(), torch.ones(len(first.given), dtype=torch.int64))
    least = nearest_in_box(
        space, Restore(), basket.only([suspect]), first.given.images, first.given.aims, paths, suspect=suspect,
        effort=effort,
    )  # fmt: skip
    return replace(first, shift=least.points.shift, changed=to_floats(least.images))


def route(space: Any, basket: Basket, suspect: str, given: Images, how: Descent, at: list[int]) -> Tensor:
    """(len(at), n, draws): where each image is after so many steps, whether or not it was mended before.

    A search keeps the way of what it finds and no other; so it is asked for each number of steps again, and for a
    certainty that no network has.
    """
    never = Restore(confidence=1.0)
    device, space = basket.device, _clipped(space, how.png)
    trials = Trials(torch.arange(len(given), device=device), given.images.to(device), given.aims.to(device))
    places = []
    for steps in at:
        shift = torch.zeros(len(given), space.draws, device=device)
        if steps:
            came = descend(
                space, never, basket.only([suspect]), trials, suspect=suspect, rate=how.rate, steps=steps,
                momentum=how.momentum,
            )  # fmt: skip
            shift.index_add_(0, came.accepted.row.to(device), (2 * came.accepted.draws - 1).to(device))
        places.append(shift)
    return torch.stack(places)
