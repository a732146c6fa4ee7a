"""Pixel swaps (paper 1, Sec. 5): a move exchanges two pixels. What peers alone do not keep realistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor


class SwapsPoints(NamedTuple):
    """image: (n, channels, height, width). order: (n, height * width) int64, which pixel of it stands where."""

    image: Tensor
    order: Tensor


@dataclass(frozen=True)
class Swaps:
    """Two uniformly random places a move, whole pixels (all channels) exchanged.

    Both may be the same place, or hold the same colour: such a move changes nothing and counts all the same.
    """

    draws: ClassVar[int] = 2
    kinds: ClassVar[tuple[str, ...]] = ("swap", "swap")

    def start(self, seeds: Tensor) -> SwapsPoints:
        places = torch.arange(seeds.shape[2] * seeds.shape[3], device=seeds.device)
        return SwapsPoints(seeds, places.repeat(len(seeds), 1))

    def move(self, points: SwapsPoints, uniforms: Tensor) -> SwapsPoints:
        count = points.order.shape[1]
        pair = (uniforms * count).long().clamp_(0, count - 1)
        exchanged = points.order.gather(1, pair).flip(1)
        return SwapsPoints(points.image, points.order.scatter(1, pair, exchanged))

    def render(self, points: SwapsPoints) -> Tensor:
        flat = points.image.flatten(2)
        order = points.order[:, None].expand(-1, flat.shape[1], -1)
        return flat.gather(2, order).view_as(points.image)

    def describe(self, points: SwapsPoints) -> dict[str, Tensor]:
        """How many places hold another pixel than in the seed image, and at how many of them this can be seen."""
        places = torch.arange(points.order.shape[1], device=points.order.device)
        differ = (self.render(points) != points.image).any(1).flatten(1)
        return {"moved px": (points.order != places).sum(1), "changed px": differ.sum(1)}
