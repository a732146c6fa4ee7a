"""How much the images of a row have in common, as numbers, and whether two kinds of rows differ in it.

Paper 3 judges its rows by eye ("images within each row share many semantic properties"). Two numbers for that:

purity      the share of a row's images that are of its commonest class
coherence   the mean cosine similarity of all pairs of a row's images, in the features of a network that has nothing to
            do with how the row was chosen; features are centred, so that images drawn at random have about 0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from foible.randomness import uniforms

PERMUTATIONS = 4999
ROOM = 1 << 22


def purity(labels: Tensor) -> Tensor:
    """(r,) float64 in (0, 1], of labels (r, m) int64; NaN for rows with an image that has none (-1)."""
    same = (labels[:, :, None] == labels[:, None, :]).sum(2).amax(1).double() / labels.shape[1]
    return torch.where((labels >= 0).all(1), same, torch.nan)


def coherence(features: Tensor) -> Tensor:
    """(r,) float64 in [-1, 1], of centred features (r, m, d) with m of at least 2."""
    unit = torch.nn.functional.normalize(features.double(), dim=2)
    m = features.shape[1]
    # |Σ f|² = Σ |f|² + Σ over pairs: no matrix of all pairs is needed.
    return (unit.sum(1).square().sum(1) - unit.square().sum((1, 2))) / (m * (m - 1))


@dataclass(frozen=True)
class Mean:
    """The mean of n values, with Student's 95 % interval where there are two or more."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


def mean(values: Sequence[float]) -> Mean:
    from scipy.stats import t

    n = len(values)
    if not n:
        return Mean(None, None, None, 0)
    middle = math.fsum(values) / n
    if n == 1:
        return Mean(middle, None, None, 1)
    half = float(t.ppf(0.975, n - 1)) * math.sqrt(_variance(values) / n)
    return Mean(middle, middle - half, middle + half, n)


@dataclass(frozen=True)
class Difference:
    """The first mean less the second, Welch's 95 % interval, and p of a two-sided permutation test."""

    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int


def compare(first: Sequence[float], second: Sequence[float], seed: int, permutations: int = PERMUTATIONS) -> Difference:
    """Do rows of two kinds differ in their mean? Values change kinds at random, `permutations` times: p is how often
    the means then differ at least as much (the order seen counts as one more, so p is never 0)."""
    from scipy.stats import t

    a, b = len(first), len(second)
    if a < 2 or b < 2:
        return Difference(None, None, None, None, a + b)
    difference = math.fsum(first) / a - math.fsum(second) / b
    one, two = _variance(first) / a, _variance(second) / b
    half = 0.0
    if one + two > 0:
        freedom = (one + two) ** 2 / (one**2 / (a - 1) + two**2 / (b - 1))
        half = float(t.ppf(0.975, freedom)) * math.sqrt(one + two)
    values = torch.tensor([*first, *second], dtype=torch.float64)
    slack = 1e-12 * float(values.abs().max())  # sums of equal values in another order are equal
    sums = torch.cat([values[rows.long()].sum(1) for rows in _chosen(a, a + b, seed, permutations)])
    shuffled = sums / a - (float(values.sum()) - sums) / b
    extreme = 1 + int((shuffled.abs() >= abs(difference) - slack).sum())
    return Difference(difference, difference - half, difference + half, extreme / (permutations + 1), a + b)


@lru_cache(maxsize=8)
def _chosen(few: int, of: int, seed: int, times: int) -> tuple[Tensor, ...]:
    """(times, few) numbers below `of`, no two alike in a row, in parts. Kept, because tests of two measures use the
    same ones."""
    return tuple(
        uniforms(seed, lanes, stream="inspect.permutations", count=of).topk(few, dim=1).indices.to(torch.int32)
        for lanes in torch.arange(times).split(max(1, ROOM // of))
    )


def _variance(values: Sequence[float]) -> float:
    middle = math.fsum(values) / len(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)
