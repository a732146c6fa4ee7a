"""Small changes of light and colour (paper 1, Sec. 4): gamma, brightness, contrast, saturation, hue, colour cast.

A point is the seed image and seven numbers. A move adds to the numbers; the *original* image is changed once, always in
the order above, so that nothing is clipped or rounded on the way and a way there and back ends where it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from foible.spaces.reach import check_reach, check_sizes, within

LUMA = (0.299, 0.587, 0.114)  # how bright red, green and blue look (ITU-R BT.601)
TOE = 1 / 255  # gamma has an infinite slope at black: the curve starts this far to the right


class PhotometricPoints(NamedTuple):
    """image: (n, channels, height, width) in [0, 1]. light: (n, 7), in the order of `Photometric.kinds`: a share of
    white, logarithms of factors, and radians of hue."""

    image: Tensor
    light: Tensor


@lru_cache(maxsize=64)
def _most(space: Photometric, device: torch.device) -> Tensor:
    """(7,): the largest change that one move makes, in the units of `PhotometricPoints.light`."""
    factors = [math.log1p(size / 100) for size in (space.contrast, space.saturation, space.gamma, space.cast)]
    contrast, saturation, gamma, cast = factors
    parts = [space.brightness / 100, contrast, saturation, math.radians(space.hue), gamma, cast, cast]
    return torch.tensor(parts, device=device)


@lru_cache(maxsize=64)
def _constants(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Weights of brightness (3,); as (3, 3) each, the projection on the axis of greys and a quarter turn around it; and
    how warmth and tint are shared out over red, green and blue (2, 3)."""
    luma = torch.tensor(LUMA, device=device)
    axis = torch.full((3, 3), 1 / 3, device=device)
    turn = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], device=device) / math.sqrt(3)
    casts = torch.tensor([[1.0, 0, -1], [-0.5, 1, -0.5]], device=device)
    return luma.to(dtype), axis.to(dtype), turn.to(dtype), casts.to(dtype)


@dataclass(frozen=True)
class Photometric:
    """Sizes of one move, each drawn evenly from ± its bound; a size of 0 leaves that change out.

    brightness: percent of white, added everywhere. contrast: percent, about the image's own mean. saturation: percent,
    about each pixel's own grey. hue: degrees around the colour circle. gamma: percent of the exponent (above 1 darkens
    the middle). cast: percent, red against blue ("warmth") and green against magenta ("tint").
    reach: how many largest moves from the start the box ends; at most 95 percent of brightness and 180° of hue.

    Percentages other than brightness's are factors: 10 stands for × 1.1 or ÷ 1.1, and moves multiply. What comes out is
    clipped to [0, 1]. An image that has not three channels is grey: saturation, hue and cast do nothing to it.
    """

    brightness: float = 5.0
    contrast: float = 10.0
    saturation: float = 10.0
    hue: float = 5.0
    gamma: float = 10.0
    cast: float = 5.0
    reach: float = 6.0

    draws: ClassVar[int] = 7
    doubles: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("brightness", "contrast", "saturation", "hue", "gamma", "cast", "cast")

    def __post_init__(self) -> None:
        check_reach(self.reach)
        sizes = dict.fromkeys(("contrast", "saturation", "gamma", "cast"), 1000.0)
        check_sizes(self, {"brightness": 95, "hue": 180, **sizes})

    @property
    def reaches(self) -> tuple[float, ...]:
        light = within(self.reach, self.brightness, 95)
        return light, self.reach, self.reach, within(self.reach, self.hue, 180), *(self.reach,) * 3

    def start(self, seeds: Tensor) -> PhotometricPoints:
        return PhotometricPoints(seeds, torch.zeros(len(seeds), self.draws, device=seeds.device, dtype=seeds.dtype))

    def move(self, points: PhotometricPoints, uniforms: Tensor) -> PhotometricPoints:
        return PhotometricPoints(
            points.image, torch.addcmul(points.light, 2 * uniforms - 1, _most(self, uniforms.device))
        )

    def render(self, points: PhotometricPoints) -> Tensor:
        image, light = points
        n, channels, height, width = image.shape
        pixels = _curved(image, light[:, 4]) if self.gamma else image
        flat = pixels.reshape(n, channels, height * width)
        contrast = light[:, 1].exp()[:, None, None]
        if channels != 3:
            mean = flat.mean((1, 2), keepdim=True)
            changed = flat * contrast + ((1 - contrast) * mean + light[:, :1, None])
        else:
            # Everything after gamma is linear in the colour: one matrix and one offset an image.
            luma, axis, turn, casts = _constants(image.device, image.dtype)
            one = torch.eye(3, device=image.device, dtype=image.dtype)
            mean = (flat.mean(2) * luma).sum(1)[:, None, None]
            offset = (1 - contrast) * mean + light[:, :1, None]
            saturation, hue = light[:, 2].exp()[:, None, None], light[:, 3, None, None]
            saturated = saturation * one + (1 - saturation) * luma
            turned = axis + hue.cos() * (one - axis) + hue.sin() * turn
            gains = (light[:, 5:6] * casts[0] + light[:, 6:] * casts[1]).exp()[:, :, None]
            changed = torch.baddbmm(gains * offset, gains * contrast * (turned @ saturated), flat)
        return changed.clamp(0, 1).view_as(image)

    def draws_of(self, points: PhotometricPoints) -> Tensor:
        """(n, 7): the one move from the start that leads to these points."""
        most = _most(self, points.light.device).double()
        amounts = torch.where(most > 0, _felt(points) / most.clamp(min=1e-30), 0.0)
        return (0.5 + 0.5 * amounts).to(points.light.dtype)

    def describe(self, points: PhotometricPoints) -> dict[str, Tensor]:
        """The whole way from the seed, (n,) each, in human units; a factor of 1.1 is 10 %. Grey has no colour."""
        brightness, contrast, saturation, hue, gamma, warmth, tint = _felt(points).unbind(1)
        percent = {"contrast": contrast, "saturation": saturation, "gamma": gamma, "warmth": warmth, "tint": tint}
        return {
            "brightness %": brightness * 100,
            "hue °": hue.rad2deg(),
            **{f"{name} %": value.expm1() * 100 for name, value in percent.items()},
        }


def _felt(points: PhotometricPoints) -> Tensor:
    """The light (n, 7) in float64 without what does nothing: whole turns of the hue, and colour on a grey image."""
    light = points.light.double()
    hue = light[:, 3:4] - (light[:, 3:4] / (2 * math.pi)).round() * (2 * math.pi)
    light = torch.cat([light[:, :3], hue, light[:, 4:]], 1)
    return light if points.image.shape[1] == 3 else light * light.new_tensor([1, 1, 0, 0, 1, 0, 0])


def _curved(image: Tensor, exponent: Tensor) -> Tensor:
    """image ** exp(exponent), with a toe: black stays black, white white, and the slope at black is finite."""
    power = exponent.exp()[:, None, None, None]
    low = TOE**power
    return ((image.clamp(0, 1) + TOE) ** power - low) / ((1 + TOE) ** power - low)
