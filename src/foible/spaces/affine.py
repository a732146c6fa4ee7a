"""Small affine moves (paper 1, Sec. 3): rotation, two stretches, shear and translation, composed.

A point is the seed image and one matrix. Moves are composed as matrices and the *original* image is resampled once,
so that blur never accumulates. `resample="each"` is the paper's way: X ← X′, every accepted image resampled again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from foible.errors import UserError
from foible.images import LEAST_ROWS


class AffinePoints(NamedTuple):
    """image: (n, channels, height, width). matrix: (n, 2, 3), from output to input, in pixels from the centre."""

    image: Tensor
    matrix: Tensor


@lru_cache(maxsize=64)
def _pixel_grid(height: int, width: int, device: torch.device) -> Tensor:
    """(3, height * width): x, y and 1 of every pixel centre, in pixels from the middle of the image."""
    y, x = torch.meshgrid(
        torch.arange(height, device=device) - (height - 1) / 2,
        torch.arange(width, device=device) - (width - 1) / 2,
        indexing="ij",
    )
    return torch.stack([x.flatten(), y.flatten(), torch.ones(height * width, device=device)])


def warp(images: Tensor, matrix: Tensor) -> Tensor:
    """Resample images (n, c, h, w) bilinearly where matrix (n, 2, 3) says that each output pixel comes from.

    Outside the image is black. The grid is one matrix product: twice as fast as `affine_grid` on a CPU.
    """
    n, _, height, width = images.shape
    scale = matrix.new_tensor([2 / width, 2 / height])
    theta = (matrix * scale[:, None]).reshape(2 * n, 3)
    if n < LEAST_ROWS:
        theta = torch.cat([theta, theta.new_zeros(2 * (LEAST_ROWS - n), 3)])
    grid = (theta @ _pixel_grid(height, width, images.device))[: 2 * n].view(n, 2, height, width).permute(0, 2, 3, 1)
    return grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def compose(first: Tensor, second: Tensor) -> Tensor:
    """first ∘ second of (n, 2, 3) matrices, element by element: the same bits for every batch size."""
    both = torch.addcmul(first[:, :, :1] * second[:, :1], first[:, :, 1:2], second[:, 1:])
    both[:, :, 2] += first[:, :, 2]
    return both


@lru_cache(maxsize=64)
def _bounds(space: Affine, device: torch.device) -> tuple[Tensor, Tensor]:
    """The least value of each part of a move, and how far it reaches from there: (6, 1) each."""
    parts = [math.radians(space.degrees), *[space.percent / 100] * 2, space.shear / 100, *[space.pixels] * 2]
    most = torch.tensor(parts, device=device)[:, None]
    return -most, 2 * most


@dataclass(frozen=True)
class Affine:
    """Sizes of one move, each drawn evenly from ± its bound: all six parts at once, one small affine a move.

    degrees: rotation. percent: each stretch. shear: percent of the height. pixels: each shift.
    resample: "once" (the seed image, through the composed matrix) or "each" (as the paper did).
    """

    degrees: float = 5.0
    percent: float = 5.0
    shear: float = 5.0
    pixels: float = 1.0
    resample: str = "once"

    draws: ClassVar[int] = 6

    def __post_init__(self) -> None:
        if self.resample not in ("once", "each"):
            raise UserError(f"resample is {self.resample!r}: expected 'once' or 'each'")
        for name, top in (("degrees", 180), ("percent", 90), ("shear", 1000), ("pixels", 1e6)):
            if not 0 <= getattr(self, name) <= top:
                raise UserError(f"{name} is {getattr(self, name)}: expected 0 to {top:g}")

    def start(self, seeds: Tensor) -> AffinePoints:
        stay = torch.eye(2, 3, device=seeds.device)[:, :, None].repeat(1, 1, len(seeds))
        return AffinePoints(seeds, stay.permute(2, 0, 1))  # lanes last in memory: arithmetic runs along them

    def move(self, points: AffinePoints, uniforms: Tensor) -> AffinePoints:
        step = self.matrix_of(uniforms)
        matrix = compose(points.matrix, step)
        if self.resample == "each":
            return AffinePoints(warp(points.image, step), matrix)
        return AffinePoints(points.image, matrix)

    def render(self, points: AffinePoints) -> Tensor:
        return points.image if self.resample == "each" else warp(points.image, points.matrix)

    def matrix_of(self, uniforms: Tensor) -> Tensor:
        """The (n, 2, 3) matrix, output to input, of the small affine that uniforms (n, 6) stand for.

        Forward it is shift ∘ rotate ∘ shear ∘ stretch; this is the inverse, written out.
        """
        low, reach = _bounds(self, uniforms.device)
        signed = torch.addcmul(low, uniforms.t().contiguous(), reach)
        angle, _, _, shear, shift_x, shift_y = signed
        cos, sin = angle.cos(), angle.sin()
        shrink_x, shrink_y = (1 + signed[1:3]).reciprocal()
        a, b = torch.addcmul(cos, shear, sin) * shrink_x, torch.addcmul(sin, shear, cos, value=-1) * shrink_x
        c, d = -sin * shrink_y, cos * shrink_y
        e, f = torch.addcmul(a * shift_x, b, shift_y), torch.addcmul(c * shift_x, d, shift_y)
        return torch.stack([a, b, -e, c, d, -f]).view(2, 3, -1).permute(2, 0, 1)

    def describe(self, points: AffinePoints) -> dict[str, Tensor]:
        """The whole way from the seed, (n,) each, in human units."""
        a, b, e, c, d, f = points.matrix.double().flatten(1).unbind(1)
        determinant = a * d - b * c
        # Forward linear part [[d, -b], [-c, a]] / determinant, taken apart as rotate ∘ shear ∘ stretch.
        xx, xy, yx, yy = d / determinant, -b / determinant, -c / determinant, a / determinant
        angle, stretch_x = torch.atan2(yx, xx), torch.hypot(xx, yx)
        cos, sin = angle.cos(), angle.sin()
        stretch_y = cos * yy - sin * xy
        shear = (cos * xy + sin * yy) / stretch_y
        return {
            "rotation °": angle.rad2deg(),
            "stretch x %": (stretch_x - 1) * 100,
            "stretch y %": (stretch_y - 1) * 100,
            "shear %": shear * 100,
            "shift x px": -(xx * e + xy * f),
            "shift y px": -(yx * e + yy * f),
        }
