"""What Sec. D sees by eye, in numbers: how alike images of different runs are, and where they have bars."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from foible.images import to_floats
from foible.randomness import uniforms

DRAWS = 999  # permutations


@dataclass(frozen=True, eq=False)
class Likeness:
    """pairs: (classes, classes), the mean correlation of images of two classes, from different runs. p: how likely so
    large a difference within and between classes is, were classes drawn anew in each run."""

    pairs: Tensor
    p: float

    @property
    def within(self) -> Tensor:
        """(classes,): of images of one class."""
        return self.pairs.diagonal()

    @property
    def between(self) -> Tensor:
        """(classes,): of images of a class with those of all others."""
        count = len(self.pairs)
        return (self.pairs.sum(1) - self.within) / (count - 1)


def alike(images: Tensor, run: Tensor, target: Tensor, seed: int, draws: int = DRAWS) -> Likeness | None:
    """Images uint8 (n, channels, height, width); None where there are not two runs of two classes, or an image of each
    class in two runs."""
    places = torch.unique(target, return_inverse=True)[1]
    count = int(places.max()) + 1
    flat = to_floats(images).flatten(1).double()
    flat = torch.nn.functional.normalize(flat - flat.mean(1, keepdim=True), dim=1)
    apart = (run[:, None] != run[None]).double()
    said = flat @ flat.t() * apart
    if count < 2 or not bool((_sums(apart, places, count) > 0).all()):
        return None
    pairs = _means(said, apart, places, count)
    told = _gap(pairs)
    chances = uniforms(seed, torch.arange(draws), stream="study.fooling.classes", count=len(run)).double()
    # Sorted by run and then by chance: classes change places within each run.
    home, group = run.argsort(stable=True), torch.unique(run, return_inverse=True)[1] * 2
    larger = 0
    for chance in chances:
        other = places.clone()
        other[home] = places[(group + chance).argsort()]
        larger += int(_gap(_means(said, apart, other, count)) >= told)
    return Likeness(pairs, (larger + 1) / (draws + 1))


def _sums(values: Tensor, places: Tensor, count: int) -> Tensor:
    member = torch.nn.functional.one_hot(places, count).double()
    return member.t() @ values @ member


def _means(said: Tensor, apart: Tensor, places: Tensor, count: int) -> Tensor:
    return _sums(said, places, count) / _sums(apart, places, count).clamp_min(1)


def _gap(pairs: Tensor) -> float:
    """How much more alike images of one class are than those of two."""
    count = len(pairs)
    same = float(pairs.diagonal().mean())
    return same - float((pairs.sum() - pairs.diagonal().sum()) / (count * (count - 1)))


def vertical(images: Tensor) -> Tensor:
    """(n,) in [0, 1]: how much of an image's variance is between its columns: 1 where it is made of vertical bars, 0
    where it is made of horizontal ones."""
    return _between(_grey(images).transpose(1, 2))


def lower_horizontal(images: Tensor) -> Tensor:
    """(n,) in [0, 1]: how much of the variance of an image's lower half is between its rows."""
    grey = _grey(images)
    return _between(grey[:, grey.shape[1] // 2 :])


def _grey(images: Tensor) -> Tensor:
    return to_floats(images).double().mean(1)


def _between(lines: Tensor) -> Tensor:
    """(n, lines, values): the variance of the means of lines, as a share of all."""
    whole = lines.flatten(1).var(1, correction=0)
    return lines.mean(2).var(1, correction=0) / whole.clamp_min(1e-12)


def how_often(some: Tensor, others: Tensor) -> tuple[float, float]:
    """How often one of `some` is larger than one of `others` (ties half), and Mann–Whitney's two-sided p."""
    from scipy.stats import mannwhitneyu

    told = mannwhitneyu(some.numpy(), others.numpy(), alternative="two-sided")
    return float(told.statistic) / (len(some) * len(others)), float(told.pvalue)
