"""Images as their pixels: the direct encoding of paper 5."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.spaces.cppn.genome import CHANGE, polynomial

CROSSED = 0.5  # share of the children that have two parents, and of their pixels that are crossed
ETA = 10.0  # of simulated binary crossover: larger stays nearer to the parents

HALF = 4096

Shape = tuple[int, int, int]


class Pictures(NamedTuple):
    """n images in [0, 1]."""

    pixels: Tensor  # (n, values)


@dataclass(frozen=True)
class Direct:
    """Every pixel a gene: uniform at first, then by polynomial mutation and simulated binary crossover."""

    def fresh(self, draw: Callable[[str, int], Tensor], shape: Shape) -> Pictures:
        return Pictures(draw("direct.pixels", math.prod(shape)))

    def children(
        self, parents: Pictures, mates: Pictures, draw: Callable[[str, int], Tensor], shape: Shape
    ) -> Pictures:
        """One of each parent and, half of the time, its mate."""
        drawn = draw("direct.pixels", 1 + math.prod(shape))
        rows = (drawn[:, 0] < CROSSED).nonzero()[:, 0]
        scaled = drawn[:, 1:] * HALF
        coarse = scaled.floor()  # of 24 bits twelve say what is crossed, and twelve what mutates
        change = scaled.sub_(coarse).view(-1)
        own, theirs, drawn = (part.index_select(0, rows) for part in (parents.pixels, mates.pixels, coarse))
        pixels = parents.pixels.index_copy(0, rows, _crossed(own, theirs, drawn))
        some = (change < CHANGE).nonzero()[:, 0]
        values = pixels.view(-1)
        values[some] = polynomial(values[some], change[some], 0.0, 1.0)
        return Pictures(pixels)

    def render(self, genomes: Pictures, shape: Shape, size: tuple[int, int] | None = None) -> Tensor:
        """(n, channels, height, width) in [0, 1]; at another size each pixel is a rectangle."""
        images = genomes.pixels.view(-1, *shape)
        return images if size is None or size == shape[1:] else F.interpolate(images, size, mode="nearest")

    def sound(self, genomes: Pictures, shape: Shape) -> bool:
        """Whether these can be drawn: they may be anybody's."""
        del shape
        return bool(((genomes.pixels >= 0) & (genomes.pixels <= 1)).all())

    def written(self, genomes: Pictures, shape: Shape) -> list[list[float]]:
        """Nothing: the image on 8 bits is all that counts."""
        del shape
        return [[]] * len(genomes.pixels)


def _crossed(parents: Tensor, mates: Tensor, drawn: Tensor) -> Tensor:
    """Simulated binary crossover (Deb and Agrawal) of half of the pixels; drawn: of their shape, whole numbers below
    `HALF`."""
    spread = _spreads(drawn.device).take(drawn.long())
    crossed = (1 + spread).mul_(parents).add_((1 - spread).mul_(mates)).mul_(0.5).clamp_(0, 1)
    return torch.where(drawn < HALF * CROSSED, crossed, parents)


@cache
def _spreads(device: torch.device) -> Tensor:
    """(HALF,): how far apart two children lie, in distances of their parents, for each number that may be drawn."""
    amount = (torch.arange(HALF, device=device) / (HALF * CROSSED)).clamp(max=1 - 1e-6)
    return torch.where(amount < 0.5, 2 * amount, 1 / (2 - 2 * amount)).pow(1 / (ETA + 1))
