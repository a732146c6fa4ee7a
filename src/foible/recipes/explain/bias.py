"""Biases (paper 2, Sec. 3.3, Sec. 5, Fig. 10): where the mistakes of a network are mended, more than by chance.

The heat map of a group of mistakes is the mean of |g(z + e) − g(z)| = |x′ − x|, over what a PNG shows of it. Any change
has its favourite places (the strokes of a digit), so the map stands beside that of images that were right and were
driven to other classes. Which pixels are changed more by the mistakes is told by a permutation test: each map is first
scaled to a sum of 1, because mending a mistake takes less than leaving a class; the names of the groups are dealt again
at random; and the largest standardised difference over all pixels is compared, so that p is of the whole map
(family-wise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from foible.errors import UserError
from foible.findings import Findings
from foible.images import MOST_JUDGED, decode_png
from foible.randomness import uniforms

COLUMNS = ("outcome", "truth", "target", "before", "origin", "image")
LEAST = 5  # images of a group
ROWS = 200  # permutations at once

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Bias:
    """One group of mistakes. mistakes, right: (height, width), mean |x′ − x| of the group, and of images that were
    right. signed: (height, width), mean x′ − x of the group. p: (height, width), family-wise, of each pixel being
    changed more by the mistakes."""

    name: str
    count: int
    others: int
    mistakes: Floats
    right: Floats
    signed: Floats
    p: Floats

    @property
    def least(self) -> float:
        """The p of the whole map."""
        return float(self.p.min())

    @property
    def place(self) -> tuple[int, int]:
        """Row and column of the pixel that stands out most."""
        row, column = np.unravel_index(int(self.p.argmin()), self.p.shape)
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
    rows = [
        row for row in findings.table.select(list(COLUMNS)).to_pylist()
        if row["outcome"] == "found" and row["origin"] is not None and row["image"] is not None and row["before"]
    ]  # fmt: skip
    if not rows:
        raise UserError("no image was mended: there is nothing to look for a bias in")
    change = [_pixels(row["image"]) - _pixels(row["origin"]) for row in rows]
    if len({one.shape for one in change}) > 1:
        raise UserError("the images of this run have several sizes: a mean over them has no meaning; give --canvas")
    driven = [row["target"] is not None for row in rows]
    aims = [row["target"] if other else row["truth"] for row, other in zip(rows, driven, strict=True)]
    was = [int(np.argmax(row["before"][0])) for row in rows]
    return Changes(torch.stack(change), torch.tensor(was), torch.tensor(aims), torch.tensor(driven))


def _pixels(png: bytes) -> Tensor:
    return (decode_png(png, "an image", MOST_JUDGED).float() / 255).mean(0)


def biases(
    mistakes: Findings, right: Findings | None = None, *, permutations: int = 1000, seed: int = 0, least: int = LEAST
) -> list[Bias]:
    """Of all mistakes together, of each class, and of each confusion with at least `least` images; the surest first.

    mistakes: a run of `foible explain`. right: another one, with `to="each"` or a class; by default such rows of the
    first. p is over the pixels of one map: of twenty maps without any bias, one is expected to have p ≤ 0.05.
    """
    found = changes_of(mistakes)
    others = found[found.driven] if right is None else changes_of(right)
    others = others[others.driven]
    found = found[~found.driven]
    if not len(others.aim) or not len(found.aim):
        raise UserError(
            "a bias is told by comparing mistakes with images that were right: give a run of `foible explain` and one "
            "with --to each"
        )
    if found.change.shape[1:] != others.change.shape[1:]:
        sizes = " and ".join("×".join(map(str, one.change.shape[1:])) for one in (found, others))
        raise UserError(f"the two runs have images of {sizes} pixels: give runs over the same data")
    groups: dict[str, Tensor] = {"all": torch.arange(len(found.aim))}
    names = mistakes.classes
    for aim in found.aim.unique().tolist():
        groups[str(names[aim])] = (found.aim == aim).nonzero()[:, 0]
        for was in found.was[found.aim == aim].unique().tolist():
            rows = ((found.aim == aim) & (found.was == was)).nonzero()[:, 0]
            groups[f"{names[was]} → {names[aim]}"] = rows
    made = [
        _bias(name, found.change[rows], others.change, permutations, seed)
        for name, rows in groups.items() if len(rows) >= least
    ]  # fmt: skip
    return sorted(made, key=lambda one: (one.least, -one.count))


def _bias(name: str, change: Tensor, others: Tensor, permutations: int, seed: int) -> Bias:
    shares = [(one / one.sum((1, 2), keepdim=True).clamp_min(1e-9)).flatten(1) for one in (change.abs(), others.abs())]
    p = stands_out(shares[0], shares[1], permutations, seed).view(change.shape[1:])
    return Bias(
        name, len(change), len(others), change.abs().mean(0).numpy(), others.abs().mean(0).numpy(),
        change.mean(0).numpy(), p.numpy(),
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
        {"group": one.name, "mistakes": one.count, "right": one.others, "p": one.least, "place": list(one.place)}
        for one in found
    ]
