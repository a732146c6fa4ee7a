"""Directions of a layer: its natural units e_i, and random v (paper 3, Sec. 3: arg max ⟨φ(x), e_i⟩ and ⟨φ(x), v⟩).

A layer with positions (the pixels of a convolution, the tokens of a transformer) has one unit for each channel, and φ
stands at every position: what excites a direction is its largest value over positions (`max`, the default) or the
average (`mean`). `flat` takes every channel at every position as a unit of its own, as the paper's formula reads.

Subtracting the layer's mean from φ adds a constant to every image's value along a direction, so it never changes which
images are on top: centred random directions are the plain ones. Whitened ones differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from foible.errors import UserError
from foible.randomness import normals, uniforms

OVER = ("max", "mean", "flat")
# What natural units may be compared with.
KINDS = {
    "random": "random directions: isotropic, of length 1",
    "whitened": "random directions where the layer's activations have been whitened: every principal axis counts alike",
    "positive": "random directions without negative weights: as natural ReLU units, they subtract nothing",
}
ROOM = 1 << 24  # numbers at once
LEAST_SHARE = 1e-5  # of the largest variance; axes below it are rounding errors, which whitening would blow up


def spread(values: Tensor, over: str = "max") -> Tensor:
    """What a layer gives as (n, units, positions).

    values: (n, units), (n, tokens, units) or (n, units, height, width, …).
    """
    if values.ndim == 2 or over == "flat":
        return values.flatten(1)[:, :, None]
    return values.transpose(1, 2) if values.ndim == 3 else values.flatten(2)


def along(values: Tensor, directions: Tensor, over: str = "max") -> Tensor:
    """(n, k): how much images excite each direction. values: (n, units, positions); directions: (k, units), or (k,)
    int64 that name units."""
    if directions.dtype == torch.int64:
        return _over(values.index_select(1, directions), over)
    if over == "mean" or values.shape[2] == 1:
        return values.mean(2) @ directions.t()
    each = max(1, ROOM // (len(directions) * values.shape[2]))
    return torch.cat([_over(directions @ part, over) for part in values.split(each)])


def _over(values: Tensor, over: str) -> Tensor:
    return values.mean(2) if over == "mean" else values.amax(2)


def some_units(units: int, most: int, seed: int) -> Tensor:
    """(k,) int64: the numbers of all units, or of `most` drawn at random, in a random order."""
    order = uniforms(seed, torch.arange(units), stream="inspect.units", count=1)[:, 0].argsort(stable=True)
    return order[:most]


def random_directions(kind: str, count: int, units: int, seed: int, moments: Moments | None = None) -> Tensor:
    """(count, units) float32 of length 1; row k is the same whatever `count` is. `whitened` needs `moments`."""
    drawn = normals(seed, torch.arange(count), stream=f"inspect.{kind}", count=units)
    if kind == "positive":
        drawn = drawn.abs()
    elif kind == "whitened":
        assert moments is not None
        drawn = (drawn.double() @ moments.whitener()).float()
    elif kind != "random":
        raise UserError(f"directions {kind!r}: expected {', '.join(KINDS)}")
    directions: Tensor = drawn / drawn.norm(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
    return directions


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over images and positions, in float64. total: (units,); products: (units, units)."""

    count: int
    total: Tensor
    products: Tensor

    @staticmethod
    def of(values: Tensor) -> Moments:
        """values: (n, units, positions); images with NaN or infinity are left out."""
        values = values[values.isfinite().all(2).all(1)]
        rows = values.transpose(1, 2).flatten(0, 1).double()
        return Moments(len(rows), rows.sum(0).cpu(), (rows.t() @ rows).cpu())

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.total + other.total, self.products + other.products)

    def whitener(self) -> Tensor:
        """(units, units) float64: Σ^(-1/2), symmetric; axes without variance stay without weight."""
        mean = self.total / max(1, self.count)
        covariance = self.products / max(1, self.count) - mean.outer(mean)
        variances, axes = torch.linalg.eigh(covariance)
        kept = variances > LEAST_SHARE * variances.max().clamp_min(1e-30)
        scale = torch.where(kept, variances.clamp_min(1e-30).rsqrt(), 0.0)
        whitener: Tensor = axes * scale @ axes.t()
        return whitener
