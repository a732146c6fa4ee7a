"""Every pixel by itself (paper 3): what minimal distortions move through, as a space for any search.

A point is the seed image and a change of each of its values. Nothing keeps such an image realistic but its closeness.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from foible.errors import UserError
from foible.spaces.reach import check_reach, check_sizes, within


class PixelsPoints(NamedTuple):
    """image: (n, channels, height, width) in [0, 1]. change: (n, channels * height * width), added to it."""

    image: Tensor
    change: Tensor


@lru_cache(maxsize=64)
def _sides(shape: str) -> tuple[int, int, int]:
    sides = re.fullmatch(r"(\d{1,5})x(\d{1,5})x(\d{1,5})", shape)
    if sides is None or "0" in sides.groups():
        raise UserError(f"shape is {shape!r}: expected channels x height x width, as in 3x32x32")
    channels, height, width = map(int, sides.groups())
    return channels, height, width


@dataclass(frozen=True)
class Pixels:
    """One move changes every value of the image, each evenly within ± `percent` of white; images are clipped to [0, 1].

    shape: of the images, channels x height x width (digits and MNIST as it stands); a point has a draw for each value.
    percent: the largest change of a value by one move. reach: how many largest moves from the start the box ends; at
        most 100 percent. With both as they are no value is off by more than 10 % in the box.

    Where a value is clipped, slopes pass straight through, so that a search can come back from there.
    """

    shape: str = "1x28x28"
    percent: float = 2.0
    reach: float = 5.0

    def __post_init__(self) -> None:
        _sides(self.shape)
        check_reach(self.reach)
        check_sizes(self, {"percent": 100})

    @property
    def draws(self) -> int:
        return math.prod(_sides(self.shape))

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("pixel",) * self.draws

    @property
    def reaches(self) -> tuple[float, ...]:
        return (within(self.reach, self.percent, 100),) * self.draws

    def start(self, seeds: Tensor) -> PixelsPoints:
        if tuple(seeds.shape[1:]) != _sides(self.shape):
            given = "x".join(map(str, seeds.shape[1:]))
            raise UserError(
                f"the space pixels has the shape {self.shape}, the images {given}: say pixels?shape={given}"
            )
        return PixelsPoints(seeds, torch.zeros(len(seeds), self.draws, device=seeds.device))

    def move(self, points: PixelsPoints, uniforms: Tensor) -> PixelsPoints:
        return PixelsPoints(points.image, points.change + (2 * uniforms - 1) * (self.percent / 100))

    def render(self, points: PixelsPoints) -> Tensor:
        moved = points.image + points.change.view_as(points.image)
        return moved + (moved.clamp(0, 1) - moved).detach() if moved.requires_grad else moved.clamp(0, 1)

    def draws_of(self, points: PixelsPoints) -> Tensor:
        """(n, draws): the one move from the start that leads to these points."""
        return 0.5 + 0.5 * points.change / max(self.percent / 100, 1e-30)

    def describe(self, points: PixelsPoints) -> dict[str, Tensor]:
        """What can be seen of the change, (n,) each, in percent of white: root mean square and largest."""
        seen = (self.render(points) - points.image).flatten(1).abs() * 100
        return {"pixel rms %": seen.square().mean(1).sqrt(), "pixel max %": seen.amax(1)}
