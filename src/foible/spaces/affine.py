"""Small affine moves (paper 1, Sec. 3): rotation, two stretches, shear and translation, composed.

A point is the seed image and one matrix. Moves are composed as matrices and the *original* image is resampled once,
so that blur never accumulates. `resample="each"` is the paper's way: X ← X′, every accepted image resampled again.

Any composed matrix can be taken apart as one large move, so this is a box (not with `resample="each"`, where the way
leaves its marks on the image).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from foible.errors import UserError
from foible.spaces.reach import check_reach, check_sizes, within
from foible.warping import check_border
from foible.warping import compose as compose
from foible.warping import warp as warp


class AffinePoints(NamedTuple):
    """image: (n, channels, height, width). matrix: (n, 2, 3), from output to input, in pixels from the centre."""

    image: Tensor
    matrix: Tensor


@lru_cache(maxsize=64)
def _bounds(space: Affine, device: torch.device, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The least value of each part of a move, and how far it reaches from there: (6, 1) each."""
    parts = [math.radians(space.degrees), *[space.percent / 100] * 2, space.shear / 100, *[space.pixels] * 2]
    most = torch.stack([torch.full((1,), part, device=device, dtype=dtype) for part in parts])  # no copy from the CPU
    return -most, 2 * most


@dataclass(frozen=True)
class Affine:
    """Sizes of one move, each drawn evenly from ± its bound: all six parts at once, one small affine a move.

    degrees: rotation. percent: each stretch. shear: percent of the height. pixels: each shift.
    resample: "once" (the seed image, through the composed matrix) or "each" (as the paper did).
    border: what lies outside the image: "black", "reflect" (mirrored) or "edge" (its outermost pixels).
    reach: how many largest moves from the start the box ends, for searches that go there at once; at most half a turn,
        95 percent of stretch and 100 percent of shear.
    most_degrees, most_percent (of each stretch, and of shear), most_pixels (of each shift): bounds on the whole way
        from the seed image, for every search. A move that would lead outside stays where it is.

    `degrees` beside `percent` or `shear` alone is special: rotating, stretching and rotating on shears a little, which
    no one move of these sizes does. `draws_of` then leaves that little out (`closed` is false).
    """

    degrees: float = 5.0
    percent: float = 5.0
    shear: float = 5.0
    pixels: float = 1.0
    resample: str = "once"
    border: str = "black"
    reach: float = 6.0
    most_degrees: float | None = None
    most_percent: float | None = None
    most_pixels: float | None = None

    draws: ClassVar[int] = 6
    doubles: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("rotation", "stretch", "stretch", "shear", "shift", "shift")

    def __post_init__(self) -> None:
        if self.resample not in ("once", "each"):
            raise UserError(f"resample is {self.resample!r}: expected 'once' or 'each'")
        check_border(self.border)
        check_reach(self.reach)
        check_sizes(self, {"degrees": 180, "percent": 90, "shear": 1000, "pixels": 1e6})
        for name, top in {"most_degrees": 180, "most_percent": 95, "most_pixels": 1e6}.items():
            bound = getattr(self, name)
            if bound is not None and not 0 < bound <= top:
                raise UserError(f"{name} is {bound}: expected above 0, and at most {top:g}")

    @property
    def reaches(self) -> tuple[float, ...]:
        """Empty where this is no box."""
        if self.resample == "each":
            return ()
        sizes = (self.degrees, self.percent, self.percent, self.shear, self.pixels, self.pixels)
        far = (180, 95, 95, 100, math.inf, math.inf)
        reaches = [within(self.reach, size, most) for size, most in zip(sizes, far, strict=True)]
        ends = zip(reaches, sizes, self.most, strict=True)
        return tuple(min(reach, most / size) if size else reach for reach, size, most in ends)

    @property
    def most(self) -> tuple[float, ...]:
        """How far the whole way may lead, for each draw, in the units of its size; infinity where nothing is said."""
        degrees, percent, pixels = (
            math.inf if bound is None else bound for bound in (self.most_degrees, self.most_percent, self.most_pixels)
        )
        return degrees, percent, percent, percent, pixels, pixels

    @property
    def closed(self) -> bool:
        """Whether any number of moves comes to what one (large) move could have done."""
        return not self.degrees or bool(self.percent) == bool(self.shear)

    def start(self, seeds: Tensor) -> AffinePoints:
        stay = torch.eye(2, 3, device=seeds.device, dtype=seeds.dtype)[:, :, None].repeat(1, 1, len(seeds))
        return AffinePoints(seeds, stay.permute(2, 0, 1))  # lanes last in memory: arithmetic runs along them

    def move(self, points: AffinePoints, uniforms: Tensor) -> AffinePoints:
        step = self.matrix_of(uniforms)
        matrix, image = compose(points.matrix, step), points.image
        if self.resample == "each":
            image = warp(points.image, step, self.border)
        if min(self.most) < math.inf:
            inside = self._inside(matrix.detach())[:, None, None]
            matrix = torch.where(inside, matrix, points.matrix)
            if image is not points.image:
                image = torch.where(inside[..., None], image, points.image)
        return AffinePoints(image, matrix)

    def _inside(self, matrix: Tensor) -> Tensor:
        """(n,) whether the whole way keeps to its bounds. A place on the rim of the box, which rounding may put a
        little outside, counts as inside."""
        units = (math.pi / 180, 0.01, 0.01, 0.01, 1.0, 1.0)
        parts, inside = taken_apart(matrix).abs().unbind(1), torch.ones(len(matrix), dtype=torch.bool)
        inside = inside.to(matrix.device)
        for part, most, unit in zip(parts, self.most, units, strict=True):
            if most < math.inf:
                inside &= part <= most * unit * (1 + 1e-4)
        return inside

    def render(self, points: AffinePoints) -> Tensor:
        return points.image if self.resample == "each" else warp(points.image, points.matrix, self.border)

    def matrix(self, points: AffinePoints) -> Tensor | None:
        """(n, 2, 3): where each output pixel comes from; a chain composes it with its neighbours'."""
        return None if self.resample == "each" else points.matrix

    def matrix_of(self, uniforms: Tensor) -> Tensor:
        """The (n, 2, 3) matrix, output to input, of the small affine that uniforms (n, 6) stand for.

        Forward it is shift ∘ rotate ∘ shear ∘ stretch; this is the inverse, written out.
        """
        low, reach = _bounds(self, uniforms.device, uniforms.dtype)
        signed = torch.addcmul(low, uniforms.t().contiguous(), reach)
        angle, _, _, shear, shift_x, shift_y = signed
        cos, sin = angle.cos(), angle.sin()
        shrink_x, shrink_y = (1 + signed[1:3]).reciprocal()
        a, b = torch.addcmul(cos, shear, sin) * shrink_x, torch.addcmul(sin, shear, cos, value=-1) * shrink_x
        c, d = -sin * shrink_y, cos * shrink_y
        e, f = torch.addcmul(a * shift_x, b, shift_y), torch.addcmul(c * shift_x, d, shift_y)
        return torch.stack([a, b, -e, c, d, -f]).view(2, 3, -1).permute(2, 0, 1)

    def draws_of(self, points: AffinePoints) -> Tensor:
        """(n, 6): the one move from the start that leads to these points."""
        parts = taken_apart(points.matrix)
        most = _bounds(self, points.matrix.device)[1][:, 0].double() / 2
        amounts = torch.where(most > 0, parts / most.clamp(min=1e-30), 0.0)
        return (0.5 + 0.5 * amounts).to(points.matrix.dtype)

    def describe(self, points: AffinePoints) -> dict[str, Tensor]:
        """The whole way from the seed, (n,) each, in human units."""
        angle, stretch_x, stretch_y, shear, shift_x, shift_y = taken_apart(points.matrix).unbind(1)
        return {
            "rotation °": angle.rad2deg(),
            "stretch x %": stretch_x * 100,
            "stretch y %": stretch_y * 100,
            "shear %": shear * 100,
            "shift x px": shift_x,
            "shift y px": shift_y,
        }


def taken_apart(matrix: Tensor) -> Tensor:
    """matrix (n, 2, 3), output to input, as shift ∘ rotate ∘ shear ∘ stretch: (n, 6) in float64, as a move's draws are
    ordered; radians, shares (0 is no change) and pixels."""
    a, b, e, c, d, f = matrix.double().flatten(1).unbind(1)
    determinant = a * d - b * c
    xx, xy, yx, yy = d / determinant, -b / determinant, -c / determinant, a / determinant  # forward, the linear part
    angle, stretch_x = torch.atan2(yx, xx), torch.hypot(xx, yx)
    cos, sin = angle.cos(), angle.sin()
    stretch_y = cos * yy - sin * xy
    shear = (cos * xy + sin * yy) / stretch_y
    shift_x, shift_y = -(xx * e + xy * f), -(yx * e + yy * f)
    return torch.stack([angle, stretch_x - 1, stretch_y - 1, shear, shift_x, shift_y], 1)
