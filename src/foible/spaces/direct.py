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

from foible.spaces.cppn.genome import moves

CROSSED = 0.5  # share of the children that have two parents, and of their pixels that are crossed
ETA = 10.0  # of simulated binary crossover: larger stays nearer to the parents

BITS = 12
HALF = 1 << BITS  # numbers that half of a draw may be

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
        numbers = (drawn[:, 1:] * HALF**2).int()  # of 24 bits twelve say what is crossed, and twelve what mutates
        own, theirs, which = (part.index_select(0, rows) for part in (parents.pixels, mates.pixels, numbers))
        crossed = _crossed(own, theirs, _spreads(drawn.device).index_select(0, (which >> BITS).view(-1)).view_as(own))
        moved = _moves(drawn.device).index_select(0, (numbers & (HALF - 1)).view(-1)).view_as(numbers)
        return Pictures(moved.add_(parents.pixels.index_copy(0, rows, crossed)).clamp_(0, 1))

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


def _crossed(parents: Tensor, mates: Tensor, spread: Tensor) -> Tensor:
    """Simulated binary crossover (Deb and Agrawal); spread: how far apart two children lie, in distances of their
    parents. At 1 a child is its parent."""
    return (1 + spread).mul_(parents).add_((1 - spread).mul_(mates)).mul_(0.5).clamp_(0, 1)


@cache
def _spreads(device: torch.device) -> Tensor:
    """(HALF,): the spread for each number that may be drawn; 1 where a pixel is not crossed."""
    amount = (torch.arange(HALF, device=device) / (HALF * CROSSED)).clamp(max=1 - 1e-6)
    spreads = torch.where(amount < 0.5, 2 * amount, 1 / (2 - 2 * amount)).pow(1 / (ETA + 1))
    return spreads.masked_fill_(torch.arange(HALF, device=device) >= HALF * CROSSED, 1.0)


@cache
def _moves(device: torch.device) -> Tensor:
    """(HALF,): by how much a pixel mutates, for each number that may be drawn."""
    return moves(torch.arange(HALF, device=device) / HALF)
