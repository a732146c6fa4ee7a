"""Crops: a window inside the image, drawn out to the whole.

A point is the seed image and four numbers, to which a move adds. A crop never shows anything from outside the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from foible.spaces.reach import check_reach, check_sizes, within
from foible.warping import warp

LEAST = 0.05  # share of the side that a window keeps


class CropPoints(NamedTuple):
    """image: (n, channels, height, width). window: (n, 4). The share of both sides that is cut off (its sign means
    nothing); the share by which the width (positive) or the height (negative) is narrowed further; and where the window
    stands, x and y, from -1 (left, top edge of the image) to 1."""

    image: Tensor
    window: Tensor


@lru_cache(maxsize=64)
def _most(space: Crop, device: torch.device) -> Tensor:
    parts = [space.percent, space.aspect, space.shift, space.shift]
    return torch.tensor(parts, device=device) / 100


@lru_cache(maxsize=64)
def _ends(device: torch.device) -> Tensor:
    return torch.tensor([1 - LEAST, 1 - LEAST, 1, 1], device=device)


@dataclass(frozen=True)
class Crop:
    """Sizes of one move, each drawn evenly from ± its bound.

    percent: of both sides, cut off; either sign of the sum cuts, since a window cannot be larger than its image.
    aspect: percent by which one side alone is narrowed. shift: percent of the way from the middle to where the window
    meets the edge of the image. reach: how many largest moves from the start the box ends; at most 95 percent cut off.
    """

    percent: float = 5.0
    aspect: float = 5.0
    shift: float = 25.0
    reach: float = 6.0

    draws: ClassVar[int] = 4
    doubles: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("crop", "aspect", "crop", "crop")
    border: ClassVar[None] = None  # nothing from outside is ever seen: in a chain, any neighbour's border will do

    def __post_init__(self) -> None:
        check_reach(self.reach)
        check_sizes(self, {"percent": 95, "aspect": 95, "shift": 100})

    @property
    def reaches(self) -> tuple[float, ...]:
        most = 100 * (1 - LEAST)
        shift = within(self.reach, self.shift, 100)
        return within(self.reach, self.percent, most), within(self.reach, self.aspect, most), shift, shift

    def start(self, seeds: Tensor) -> CropPoints:
        return CropPoints(seeds, torch.zeros(len(seeds), self.draws, device=seeds.device, dtype=seeds.dtype))

    def move(self, points: CropPoints, uniforms: Tensor) -> CropPoints:
        device = uniforms.device
        window, ends = torch.addcmul(points.window, 2 * uniforms - 1, _most(self, device)), _ends(device)
        return CropPoints(points.image, torch.minimum(torch.maximum(window, -ends), ends))

    def render(self, points: CropPoints) -> Tensor:
        return warp(points.image, self.matrix(points), "edge")

    def matrix(self, points: CropPoints) -> Tensor:
        """(n, 2, 3): where each output pixel comes from; a chain composes it with its neighbours'."""
        height, width = points.image.shape[2:]
        across, down = _sides(points.window)
        zero = torch.zeros_like(across)
        right = points.window[:, 2] * (1 - across) * (width / 2)
        below = points.window[:, 3] * (1 - down) * (height / 2)
        return torch.stack([across, zero, right, zero, down, below], 1).view(-1, 2, 3)

    def draws_of(self, points: CropPoints) -> Tensor:
        """(n, 4): the one move from the start that leads to these points."""
        most = _most(self, points.window.device)
        return 0.5 + 0.5 * torch.where(most > 0, points.window / most.clamp(min=1e-30), 0.0)

    def describe(self, points: CropPoints) -> dict[str, Tensor]:
        """How much of each side is cut off, and where the middle of the window stands, (n,) each."""
        across, down = _sides(points.window.double())
        matrix = self.matrix(points)
        return {
            "crop width %": (1 - across) * 100,
            "crop height %": (1 - down) * 100,
            "crop x px": matrix[:, 0, 2],
            "crop y px": matrix[:, 1, 2],
        }


def _sides(window: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height of the window, as shares of the image's: (n,) each."""
    both, narrower = 1 - window[:, 0].abs(), window[:, 1]
    return both * (1 - narrower.clamp(min=0)), both * (1 + narrower.clamp(max=0))
