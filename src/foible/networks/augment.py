"""Augmented training as in paper 1, Sec. 4: crops, photometric distortion, rotation; a whole batch at once.

Every draw is a function of (the network's seed, the step, the place in the batch): a network sees the same images
alone, in a fleet and after a restart. All moves of place are one resampling, all moves of colour one matrix a pixel.

A crop of 8 % of a 32×32 image is 9×9 pixels, so such a training is slow: a ResNet-8 that saw 6,000 CIFAR images six
times was right on 48 % of others without, on 40 % with crops and on 39 % with all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from foible import specs
from foible.errors import UserError
from foible.randomness import uniforms
from foible.text import did_you_mean
from foible.warping import warp

DRAWS = 10  # for each image and step
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))  # luma, and two of chroma


@dataclass(frozen=True)
class Crops:
    """Crops alone, scaled back to the full size.

    area: least share of the image's area, in percent; the most is 100. aspect: the most that a crop's width by its
    height differs from the image's own, either way. flip: left and right exchanged for every second image (wrong for
    digits, right for most photographs). degrees: rotation, evenly from ± this; corners from outside are black.
    """

    area: float = 8.0
    aspect: float = 4 / 3
    flip: bool = False
    degrees: float = 0.0

    def __post_init__(self) -> None:
        _within(self, area=(0.1, 100), aspect=(1, 100), degrees=(0, 180))

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        """images (n, channels, height, width) in [0, 1], and uniforms (n, DRAWS)."""
        return warp(images, self.matrix(draws, images.shape[2], images.shape[3]))

    def matrix(self, draws: Tensor, height: int, width: int) -> Tensor:
        """(n, 2, 3): where each output pixel comes from, in pixels from the middle of the image."""
        signed = 2 * draws - 1
        share = self.area / 100 + (1 - self.area / 100) * draws[:, 0]
        stretch = (signed[:, 1] * math.log(self.aspect)).exp()
        wide, high = (share * stretch).sqrt().clamp(max=1), (share / stretch).sqrt().clamp(max=1)
        angle = signed[:, 4] * math.radians(self.degrees)
        cos, sin = angle.cos(), angle.sin()
        mirrored = torch.where(draws[:, 5] < 0.5, -wide, wide) if self.flip else wide
        # From the middle of one edge pixel to that of the other, so that no crop samples beyond the image.
        x = signed[:, 2] * (1 - wide) * (width - 1) / 2
        y = signed[:, 3] * (1 - high) * (height - 1) / 2
        parts = [mirrored * cos, -high * sin, x, mirrored * sin, high * cos, y]
        return torch.stack(parts, 1).view(-1, 2, 3)


@dataclass(frozen=True)
class Paper(Crops):
    """Paper 1's training: crops of 8–100 %, aspect 3/4–4/3, photometric distortion, and rotation (sizes are ours).

    brightness, contrast, saturation: percent, each evenly from 100 ± this. hue: degrees, evenly from ± this.
    Grey images have no saturation and no hue.
    """

    degrees: float = 15.0
    brightness: float = 40.0
    contrast: float = 40.0
    saturation: float = 40.0
    hue: float = 18.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _within(self, brightness=(0, 100), contrast=(0, 100), saturation=(0, 100), hue=(0, 180))

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        return super().__call__(self.coloured(images, draws), draws)

    def coloured(self, images: Tensor, draws: Tensor) -> Tensor:
        """Contrast about the image's own mean luma, then brightness; saturation and hue in the plane of chroma."""
        signed = 2 * draws - 1
        bright, contrast, saturation = (
            1 + signed[:, place] * most / 100
            for place, most in ((6, self.brightness), (7, self.contrast), (8, self.saturation))
        )
        if images.shape[1] == 3:
            to_luma, back = _yiq(images.device)
            angle = signed[:, 9] * math.radians(self.hue)
            turn = torch.zeros(len(images), 3, 3, device=images.device)
            turn[:, 0, 0] = 1
            turn[:, 1, 1] = turn[:, 2, 2] = saturation * angle.cos()
            turn[:, 2, 1] = saturation * angle.sin()
            turn[:, 1, 2] = -turn[:, 2, 1]
            mixed = back @ turn @ to_luma
            mean = (images.mean((2, 3)) * to_luma[0]).sum(1)
            images = (mixed @ images.flatten(2)).view_as(images)
        else:
            mean = images.mean((1, 2, 3))
        gain, offset = bright * contrast, bright * (1 - contrast) * mean
        return torch.addcmul(offset[:, None, None, None], images, gain[:, None, None, None]).clamp_(0, 1)


AUGMENTS: dict[str, type[Crops]] = {"crops": Crops, "paper": Paper}


def augmentation(spec: str | None) -> Crops | None:
    """From `none`, `crops`, `paper` or either with options: `paper?flip=true&degrees=0`."""
    if spec is None or spec == "none":
        return None
    parsed = specs.parse(spec)
    if parsed.name not in AUGMENTS or parsed.argument:
        known = "none, crops, paper, or these with options, as paper?flip=true"
        raise UserError(f"unknown augmentation {spec!r}{did_you_mean(parsed.name, AUGMENTS)}; it is {known}")
    made: Crops = specs.resolve(spec, AUGMENTS, "augmentation")
    return made


def draws_for(seeds: Tensor, step: int, count: int) -> Tensor:
    """(K, count, DRAWS): uniforms for the batches of `count` that the networks of these seeds (K,) see at this step."""
    place = torch.arange(count, device=seeds.device)
    return uniforms(0, seeds[:, None], step, member=place, stream="fleet.augment", count=DRAWS)


@lru_cache(maxsize=8)
def _yiq(device: torch.device) -> tuple[Tensor, Tensor]:
    """From red, green and blue to luma and chroma, and back."""
    there = torch.tensor(YIQ, dtype=torch.float64)
    return there.float().to(device), there.inverse().float().to(device)


def _within(given: Crops, **bounds: tuple[float, float]) -> None:
    for name, (least, most) in bounds.items():
        if not least <= getattr(given, name) <= most:
            raise UserError(f"{name} of an augmentation is {getattr(given, name)}: expected {least:g} to {most:g}")
