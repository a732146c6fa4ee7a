"""Networks of a wanted accuracy: on its way up each is kept where it stands within a band around one of its targets.

Accuracy does not rise evenly: from step to step it goes up and down by more than a narrow band is wide. So a network is
looked at often where a target is within a jump or two, on few test images first and on all of them where these leave
it open; it has overshot a target once every look of a whole epoch was clearly above it. Whoever overshoots a target, or
has not arrived when its epochs are over, is tried again from another seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from foible.networks.fleet import Fleet
from foible.networks.material import accuracies
from foible.networks.preprocess import Preprocess

RETRIES = 3
APART = 1_000_000  # the seed of a retry is so much above the one before; seeds that are asked for are below it
SELDOM, OFTEN = 20, 100  # looks an epoch, far from every target and near one
PARTS = (0.1, 0.4, 1.0)  # of the test images, which are looked at first (all of them only where a GPU may be quick),
WORTH = 500  # where they are at least so many
SURE = 2.0  # standard deviations by which a part must miss the band for the rest not to be looked at
ROUNDING = 3  # images that a network may judge otherwise where a GPU rounds
SLACK = 1e-9  # accuracies are counts by counts


@dataclass
class Climb:
    """How one network stands towards its targets. Goes into the checkpoint as JSON."""

    wanted: list[float]  # the targets that are left, lowest first
    last: float = 0.0  # accuracy at the last look, perhaps of a part of the images
    jump: float = 0.0  # by how much it has changed from look to look, of late
    best: float = 0.0  # of the looks at all images
    above: dict[str, int] = field(default_factory=dict)  # by target, the step since which it was clearly above it
    overshot: list[float] = field(default_factory=list)

    def due(self, step: int, per_epoch: int, within: float) -> bool:
        """Is it to be looked at after this step? That depends on itself alone."""
        near = any(abs(self.last - target) <= 2 * max(within, self.jump) for target in self.wanted)
        return step % max(1, per_epoch // (OFTEN if near else SELDOM)) == 0 or step % per_epoch == 0

    def saw(self, accuracy: float, step: int, per_epoch: int, within: float, *, whole: bool) -> list[float]:
        """Take note of a look; the targets that it stands at come back, and are wanted no more.

        whole: all test images were looked at.
        """
        self.jump += 0.2 * (abs(accuracy - self.last) - self.jump)
        self.last = accuracy
        self.best = max(self.best, accuracy) if whole else self.best
        reached = [target for target in self.wanted if whole and abs(accuracy - target) <= within + SLACK]
        for target in self.wanted:
            if accuracy > target + 2 * within + SLACK:
                self.above.setdefault(str(target), step)
            else:
                self.above.pop(str(target), None)
        over = [target for target in self.wanted if step - self.above.get(str(target), step) >= per_epoch]
        self.overshot += [target for target in over if target not in reached]
        self.wanted = [target for target in self.wanted if target not in (*reached, *over)]
        return reached


def retry(seed: int) -> int | None:
    """The seed to try after this one; None where it was the last."""
    return seed + APART if seed < RETRIES * APART else None


def tries(seed: int) -> list[int]:
    """The seeds that a network of `seed` may be tried from, in turn."""
    return [seed + again * APART for again in range(RETRIES + 1)]


class Looks:
    """The test images, in an order in which any beginning of them stands for all."""

    def __init__(self, images: Tensor, labels: Tensor, preprocess: Preprocess) -> None:
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).to(images.device)
        self.images, self.labels = images.index_select(0, order), labels.index_select(0, order)
        self.preprocess = preprocess

    def __call__(self, fleet: Fleet, climbs: Sequence[Climb], rows: Sequence[int], within: float,
                 *, whole: bool) -> dict[int, tuple[float, bool]]:  # fmt: skip
        """By row of the fleet, its accuracy, and whether all images were looked at; `climbs` go with `rows`.

        whole: look at all images of everybody.
        """
        wanted, right, seen = dict(zip(rows, climbs, strict=True)), dict.fromkeys(rows, 0), dict[int, float]()
        total, rounds = len(self.images), fleet.device.type != "cpu"
        left, start = list(rows), 0
        for many in () if whole else (int(part * total) for part in PARTS):
            if left and many >= WORTH and (many < total or rounds):
                for row, more in zip(left, self._right(fleet, left, start, many, rough=True), strict=True):
                    right[row] += more
                    seen[row] = right[row] / many
                left, start = [row for row in left if self._open(wanted[row], seen[row], many, within)], many
        found = {row: (accuracy, False) for row, accuracy in seen.items()}
        if left:  # what was rounded does not count in the end
            start, right = (0, dict.fromkeys(rows, 0)) if rounds else (start, right)
            exact = self._right(fleet, left, start, total, rough=False)
            found |= {row: ((right[row] + more) / total, True) for row, more in zip(left, exact, strict=True)}
        return found

    def _right(self, fleet: Fleet, rows: Sequence[int], start: int, end: int, *, rough: bool) -> list[int]:
        """How many of these images each of the members gets right."""
        images, labels = self.images[start:end], self.labels[start:end]
        shares = accuracies(fleet.only(rows), images, labels, self.preprocess, rough=rough)
        return [round(share * (end - start)) for share in shares]

    def _open(self, climb: Climb, accuracy: float, many: int, within: float) -> bool:
        """May the network stand at a target, by what it does with the first `many` images?"""
        rest, rounding = 1 - many / len(self.images), ROUNDING / len(self.images)
        return any(
            abs(accuracy - target)
            <= within + rounding + SURE * math.sqrt((target * (1 - target) + within) * rest / many)
            for target in climb.wanted
        )
