"""Networks of a wanted accuracy: on its way up each is kept where it stands within a band around one of its targets.

Accuracy does not rise evenly: from step to step it goes up and down by more than a narrow band is wide. So a network is
looked at often where a target is within a jump or two, on few test images first and on all of them where these leave
it open. The few are those that it was least sure of when it was last asked about all: nearly all its mistakes are still
among them. It has overshot a target once every look of a whole epoch was clearly above it. Whoever overshoots a target,
or has not arrived when its epochs are over, is tried again from another seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from foible.networks.fleet import Fleet
from foible.networks.material import margins, rights
from foible.networks.preprocess import Preprocess

RETRIES = 3
APART = 1_000_000  # the seed of a retry is so much above the one before; seeds that are asked for are below it
SELDOM, OFTEN = 20, 100  # looks an epoch, far from every target and near one
PARTS = (0.1, 0.4)  # of the test images, which are looked at first while none are known to be hard,
WORTH = 500  # where they are at least so many
HARDEST = 1000  # images, and at most a tenth of all
FULL = 0.5  # the share of them beyond which mistakes at the time are too many for most later ones to be among them
OUTSIDE = 0.25  # for each mistake among them, at most so many elsewhere; of cnn4 on MNIST 0.1, and at most 0.35
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
    """The test images, in an order in which any beginning of them stands for all, and each network's hardest of them.

    hard: by seed, the numbers (`many`,) of the images of the smallest margins when all were looked at last; they come
    from the network's own answers alone.
    """

    def __init__(self, images: Tensor, labels: Tensor, preprocess: Preprocess) -> None:
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).to(images.device)
        self.images, self.labels = images.index_select(0, order), labels.index_select(0, order)
        self.preprocess = preprocess
        self.many = min(HARDEST, len(images) // 10)
        self.hard: dict[int, Tensor] = {}

    def tensors(self, seeds: Sequence[int]) -> dict[str, Tensor]:
        """What a checkpoint holds of these networks."""
        return {f"hard.{seed}": self.hard[seed] for seed in seeds if seed in self.hard}

    def restore(self, held: Mapping[str, Tensor], seeds: Sequence[int]) -> bool:
        """Take over what `tensors` gave; False where it cannot have."""
        found = {seed: held[f"hard.{seed}"] for seed in seeds if f"hard.{seed}" in held}
        for numbers in found.values():
            if numbers.dtype != torch.int32 or numbers.shape != (self.many,):
                return False
            if len(numbers.unique()) < self.many or not 0 <= numbers.min() <= numbers.max() < len(self.images):
                return False
        self.hard = {seed: numbers.to(self.images.device) for seed, numbers in found.items()}
        return True

    def __call__(self, fleet: Fleet, climbs: Sequence[Climb], rows: Sequence[int], within: float,
                 *, whole: bool) -> dict[int, tuple[float, bool]]:  # fmt: skip
        """By row of the fleet, its accuracy, and whether all images were looked at; `climbs` go with `rows`.

        whole: look at all images of everybody.
        """
        if whole:
            return self._exact(fleet, rows)
        wanted, seen, right = dict(zip(rows, climbs, strict=True)), dict[int, float](), dict.fromkeys(rows, 0)
        known = [row for row in rows if fleet.seeds[row] in self.hard]
        unknown = [row for row in rows if row not in known]
        if known:
            seen |= self._by_hardest(fleet, known)
            known = [row for row in known if self._may_stand(wanted[row], seen[row], within)]
        total, start = len(self.images), 0
        for many in (int(part * total) for part in PARTS):
            if unknown and many >= WORTH:
                for row, more in zip(unknown, self._right(fleet, unknown, start, many), strict=True):
                    right[row] += more
                    seen[row] = right[row] / many
                unknown, start = [row for row in unknown if self._open(wanted[row], seen[row], many, within)], many
        if fleet.device.type == "cpu":
            exact = self._exact(fleet, known) | self._exact(fleet, unknown, start, right)
        else:  # what was rounded does not count in the end
            left = sorted(known + unknown)
            if left and total >= WORTH:
                seen |= dict(zip(left, (count / total for count in self._right(fleet, left, 0, total)), strict=True))
                left = [row for row in left if self._open(wanted[row], seen[row], total, within)]
            exact = self._exact(fleet, left)
        return {row: (accuracy, False) for row, accuracy in seen.items()} | exact

    def _exact(
        self, fleet: Fleet, rows: Sequence[int], start: int = 0, before: Mapping[int, int] | None = None
    ) -> dict[int, tuple[float, bool]]:
        """Look at all images, or at those from `start` on, of which each got `before` right; and note the hardest."""
        if not rows:
            return {}
        part, total = fleet.only(rows), len(self.images)
        right, found = margins(part, self.images[start:], self.labels[start:], self.preprocess)
        if not start and self.many >= WORTH:
            hardest = found.argsort(dim=1, stable=True)[:, : self.many].to(torch.int32)
            for seed, count, numbers in zip(part.seeds, right, hardest, strict=True):
                self.hard.pop(seed, None)
                if total - count <= FULL * self.many:
                    self.hard[seed] = numbers.clone()
        before = before or dict.fromkeys(rows, 0)
        return {row: ((before[row] + count) / total, True) for row, count in zip(rows, right, strict=True)}

    def _right(self, fleet: Fleet, rows: Sequence[int], start: int, end: int) -> list[int]:
        """How many of these images each of the members gets right, roughly."""
        images, labels = self.images[start:end], self.labels[start:end]
        return rights(fleet.only(rows), images, labels, self.preprocess, rough=True)

    def _by_hardest(self, fleet: Fleet, rows: Sequence[int]) -> dict[int, float]:
        """The accuracy of each of the members, were it right on all images but its hardest."""
        part = fleet.only(rows)
        own = torch.stack([self.hard[seed] for seed in part.seeds])
        right = rights(part, self.images, self.labels, self.preprocess, rough=True, own=own)
        return {row: 1 - (self.many - count) / len(self.images) for row, count in zip(rows, right, strict=True)}

    def _may_stand(self, climb: Climb, high: float, within: float) -> bool:
        """May the network stand at a target, by what it does with its hardest images?"""
        low, reach = high - OUTSIDE * (1 - high), within + ROUNDING / len(self.images)
        return any(low - reach <= target <= high + reach for target in climb.wanted)

    def _open(self, climb: Climb, accuracy: float, many: int, within: float) -> bool:
        """May the network stand at a target, by what it does with the first `many` images?"""
        rest, rounding = 1 - many / len(self.images), ROUNDING / len(self.images)
        return any(
            abs(accuracy - target)
            <= within + rounding + SURE * math.sqrt((target * (1 - target) + within) * rest / many)
            for target in climb.wanted
        )
