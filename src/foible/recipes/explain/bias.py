"""Biases (paper 2, Sec. 3.3, Sec. 5, Fig. 10): where the mistakes of a network are mended, more than by chance.

The heat map of a group of mistakes is the mean of |g(z + e) − g(z)| = |x′ − x|, over what a PNG shows of it. Any change
has its favourite places (the strokes of a digit), so the map stands beside that of images that were right and were
driven to another class: of the same class as the mistakes where there are enough, because a 7 and a 2 have their
strokes at different places. Which pixels are changed more by the mistakes is told by a permutation test: each map is
first scaled to a sum of 1, because mending a mistake takes less than leaving a class; the names of the groups are dealt
again at random; and the largest standardised difference over all pixels is compared, so that p is of the whole map
(family-wise).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foible.errors import UserError
from foible.findings import Findings
from foible.images import MOST_JUDGED, decode_pixels
from foible.randomness import uniforms

COLUMNS = ("outcome", "truth", "target", "before", "origin", "image")
LEAST = 5  # images of a group
GROUPS = 12  # confusions that are looked at, the largest
SURE = 0.05  # p, times the number of groups, below which one may stand out
PART = 0.2  # of the change, that must lie where it stands out
ROWS = 200  # permutations at once
SIDE = 64  # pixels of a map

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Bias:
    """One group of mistakes. mistakes, right: (height, width), mean |x′ − x| of the group, and of images that were
    right. signed: (height, width), mean x′ − x of the group. more: (height, width), by how much more of its whole
    change a mistake has there. p: (height, width), family-wise, of each pixel being changed more by the mistakes.
    groups: how many were looked at."""

    name: str
    count: int
    others: int
    alike: bool  # the right images are of the same class
    mistakes: Floats
    right: Floats
    signed: Floats
    more: Floats
    p: Floats
    groups: int

    @property
    def least(self) -> float:
        """The p of the whole map."""
        return float(self.p.min())

    @property
    def special(self) -> NDArray[np.bool_]:
        """(height, width): pixels that are changed more, at p ≤ 0.05."""
        return np.asarray(self.p <= SURE)

    @property
    def shares(self) -> tuple[float, float]:
        """How much of the change lies there: of the mistakes', and of the right images'."""
        here, there = (float(one[self.special].sum() / max(one.sum(), 1e-12)) for one in (self.mistakes, self.right))
        return here, there

    @property
    def stands_out(self) -> bool:
        """Sure for all groups together, and no small part of the change."""
        return self.least * self.groups <= SURE and self.shares[0] >= PART

    @property
    def place(self) -> tuple[int, int]:
        """Row and column of the pixel that stands out most."""
        surest = np.where(self.p == self.p.min(), self.more, -np.inf)
        row, column = np.unravel_index(int(surest.argmax()), self.p.shape)
        return int(row), int(column)


@dataclass(frozen=True, eq=False)
class Changes:
    """Found rows of an explain run: change (n, height, width), x′ − x, mean over channels; was, aim: (n,) classes."""

    change: Tensor
    was: Tensor
    aim: Tensor
    driven: Tensor  # (n,) bool: right before, and driven to another class

    def __getitem__(self, rows: Tensor) -> Changes:
        return Changes(self.change[rows], self.was[rows], self.aim[rows], self.driven[rows])


def changes_of(findings: Findings) -> Changes:
    """What the found rows of an explain run changed."""
    rows = [row for row in findings.table.select(list(COLUMNS)).to_pylist() if row["outcome"] == "found"]
    pairs = [(_pixels(row["image"]), _pixels(row["origin"])) for row in rows if row["image"] and row["origin"]]
    return as_changes(
        [row for row in rows if row["image"] and row["origin"]], [(new - old).mean(0) for new, old in pairs]
    )


def as_changes(rows: Sequence[Mapping[str, Any]], change: Sequence[Floats]) -> Changes:
    """The same of rows and what each changed, (height, width); at most 64 pixels a side, means of larger ones."""
    known = [
        place for place, row in enumerate(rows)
        if row["before"] and (row["truth"] if row["target"] is None else row["target"]) is not None
    ]  # fmt: skip
    rows, change = [rows[place] for place in known], [change[place] for place in known]
    if not rows:
        raise UserError("no image was mended: there is nothing to look for a bias in")
    if len({one.shape for one in change}) > 1:
        raise UserError("the images of this run have several sizes: a mean over them has no meaning; give --canvas")
    driven = [row["target"] is not None for row in rows]
    aims = [row["target"] if other else row["truth"] for row, other in zip(rows, driven, strict=True)]
    was = [int(np.argmax(row["before"][0])) for row in rows]
    maps = torch.from_numpy(np.stack(change))
    if max(maps.shape[1:]) > SIDE:
        height, width = (max(1, round(side * SIDE / max(maps.shape[1:]))) for side in maps.shape[1:])
        maps = torch.nn.functional.adaptive_avg_pool2d(maps[:, None], (height, width))[:, 0]
    return Changes(maps, torch.tensor(was), torch.tensor(aims), torch.tensor(driven))


def _pixels(png: bytes) -> Floats:
    return decode_pixels(png, "an image", MOST_JUDGED).astype(np.float32) / np.float32(255)


def biases(
    mistakes: Findings, right: Findings | None = None, *, permutations: int = 1000, seed: int = 0, least: int = LEAST
) -> list[Bias]:
    """Of all mistakes together, of each class, and of the largest confusions, with at least `least` images each; the
    surest first.

    mistakes: a run of `foible explain`. right: `control_of` that run, or a run with `to="runner-up"`, "each" or a
    class; by default such rows of the first. p is over the pixels of one map: of twenty maps without any bias, one is
    expected to have p ≤ 0.05.
    """
    found = changes_of(mistakes)
    others = found[found.driven] if right is None else changes_of(right)
    others, found = others[others.driven], found[~found.driven]
    if not len(others.aim) or not len(found.aim):
        raise UserError(
            "a bias is told by comparing mistakes with images that were right: give a run of `foible explain` and what "
            "--control made, or a run with --to runner-up"
        )
    if found.change.shape[1:] != others.change.shape[1:]:
        sizes = " and ".join("×".join(map(str, one.change.shape[1:])) for one in (found, others))
        raise UserError(f"the two runs have images of {sizes} pixels: give runs over the same data")
    return compared(found, others, mistakes.classes, permutations=permutations, seed=seed, least=least)


def groups_of(found: Changes, names: Sequence[str], least: int = LEAST) -> list[tuple[str, int | None, Tensor]]:
    """(name, class that is right, rows): all, each class, and the largest confusions."""
    classes, confusions = [], []
    for aim in found.aim.unique().tolist():
        own = found.aim == aim
        classes.append((str(names[aim]), aim, own.nonzero()[:, 0]))
        for was in found.was[own].unique().tolist():
            confusions.append((f"{names[was]} → {names[aim]}", aim, (own & (found.was == was)).nonzero()[:, 0]))
    confusions = sorted(confusions, key=lambda one: -len(one[2]))[:GROUPS]
    every = [("all", None, torch.arange(len(found.aim))), *classes, *confusions]
    return [one for one in every if len(one[2]) >= least]


def compared(
    found: Changes, others: Changes, names: Sequence[str], *, permutations: int = 1000, seed: int = 0,
    least: int = LEAST,
) -> list[Bias]:  # fmt: skip
    """The same of changes: of mistakes, and of images that were right."""
    made, groups = [], groups_of(found, names, least)
    for name, aim, rows in groups:
        same = others.change[others.was == aim] if aim is not None else others.change[:0]
        alike = len(same) >= least
        made.append(
            _bias(name, found.change[rows], same if alike else others.change, alike, len(groups), permutations, seed)
        )
    return sorted(made, key=lambda one: (one.least, -one.shares[0], -one.count))


def _bias(name: str, change: Tensor, others: Tensor, alike: bool, groups: int, permutations: int, seed: int) -> Bias:
    shares = [(one / one.sum((1, 2), keepdim=True).clamp_min(1e-9)).flatten(1) for one in (change.abs(), others.abs())]
    p = stands_out(shares[0], shares[1], permutations, seed).view(change.shape[1:])
    more = (shares[0].mean(0) - shares[1].mean(0)).view(change.shape[1:])
    return Bias(
        name, len(change), len(others), alike, change.abs().mean(0).numpy(), others.abs().mean(0).numpy(),
        change.mean(0).numpy(), more.numpy(), p.numpy(), groups,
    )  # fmt: skip


def stands_out(group: Tensor, others: Tensor, permutations: int = 1000, seed: int = 0) -> Tensor:
    """(values,): family-wise p that rows of `group` (n, values) have more of each value than rows of `others`, by a
    permutation test of the largest difference of means in units of the value's spread."""
    both, n = torch.cat([group, others]).double(), len(group)
    spread = both.std(0)
    spread = spread + spread[spread > 0].median() if bool((spread > 0).any()) else spread + 1  # quiet pixels stay quiet
    scaled = (both - both.mean(0)) / spread
    m = len(scaled) - n
    seen = scaled[:n].sum(0)  # the sums decide: both group sizes stay what they are
    largest = []
    for part in torch.arange(permutations).split(ROWS):
        dealt = uniforms(seed, part, stream="explain.bias", count=n + m).argsort(1)[:, :n]
        chosen = torch.zeros(len(part), n + m, dtype=scaled.dtype).scatter_(1, dealt, 1.0)
        largest.append((chosen @ scaled).amax(1))
    tops = torch.cat(largest).sort().values
    above = len(tops) - torch.searchsorted(tops, seen, right=False)
    return ((1 + above) / (1 + len(tops))).float()


def told(found: Sequence[Bias]) -> list[dict[str, Any]]:
    """For a summary or a program: a line for each group."""
    return [
        {
            "group": one.name, "mistakes": one.count, "right": one.others, "p": one.least, "place": list(one.place),
            "share": one.shares[0], "share_right": one.shares[1], "stands_out": one.stands_out,
        }
        for one in found
    ]  # fmt: skip
