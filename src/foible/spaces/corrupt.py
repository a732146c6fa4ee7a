"""What goes wrong between a scene and its file: fog, blur, noise, coarse pixels and JPEG (`corrupt?kinds=blur,jpeg`).

A point is the seed image and a severity of each kind; a move adds to them. The *original* image is changed once, always
in the order above: the air, the lens, the sensor, its resolution, the file. Severities have units, and no change is a
severity of 0. Five of the corruptions of Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to Common
Corruptions and Perturbations", 2019, made continuous, so that a search can follow their slopes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from foible.errors import UserError
from foible.randomness import normals
from foible.spaces.jpeg import cosines, quantised
from foible.spaces.reach import check_reach, check_sizes, within
from foible.text import did_you_mean

MOST = {"fog": 95.0, "blur": 50.0, "noise": 100.0, "pixelate": 50.0, "jpeg": 95.0}  # severities, in the order of change


class Kinds(tuple[str, ...]):
    """Kinds of corruption, in the order in which they happen; as text, the option of a spec: "blur,jpeg"."""

    def __new__(cls, given: str | Iterable[str]) -> Kinds:
        names = [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
        for name in names:
            if name not in MOST:
                raise UserError(
                    f"kinds has {name!r}{did_you_mean(name, MOST)}: expected some of {', '.join(MOST)}, "
                    "parted by commas"
                )
        return super().__new__(cls, (name for name in MOST if name in names))

    def __str__(self) -> str:
        return ",".join(self)


class CorruptPoints(NamedTuple):
    """image: (n, channels, height, width) in [0, 1]. severity: (n, kinds), in the units of `Corrupt`; but for noise,
    whose pattern it turns over, its sign means nothing."""

    image: Tensor
    severity: Tensor


@lru_cache(maxsize=64)
def _most(space: Corrupt, device: torch.device) -> tuple[Tensor, Tensor]:
    """(kinds,) each: the largest change that one move makes, and where severities end."""
    largest = [[getattr(space, kind) for kind in space.kinds], [MOST[kind] for kind in space.kinds]]
    move, end = torch.tensor(largest, device=device)
    return move, end


@dataclass(frozen=True)
class Corrupt:
    """Sizes of one move, each drawn evenly from ± its bound; a size of 0 leaves that change out.

    kinds: which there are, of fog, blur, noise, pixelate and jpeg. fog: percent of the light that is the fog's, which
    is white. blur: standard deviation, in percent of the shorter side. noise: standard deviation, in percent of white;
    its pattern is one for all images of a size, and `seed` names another. pixelate: by how much the side of a square of
    one colour grows beyond a pixel, in percent of the shorter side. jpeg: points of quality lost, of 100 (no colour is
    subsampled, and steps below one level stay so: quality 100 loses nothing). reach: how many largest moves from the
    start the box ends; at most 95 percent of fog, 50 of blur and pixelate, 100 of noise, and 95 points of jpeg.
    """

    kinds: tuple[str, ...] = Kinds(MOST)
    fog: float = 5.0
    blur: float = 0.7
    noise: float = 2.0
    pixelate: float = 0.5
    jpeg: float = 10.0
    seed: int = 0
    reach: float = 6.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", Kinds(self.kinds))
        check_reach(self.reach)
        check_sizes(self, MOST)

    @property
    def draws(self) -> int:
        return len(self.kinds)

    @property
    def reaches(self) -> tuple[float, ...]:
        return tuple(within(self.reach, getattr(self, kind), MOST[kind]) for kind in self.kinds)

    def start(self, seeds: Tensor) -> CorruptPoints:
        return CorruptPoints(seeds, torch.zeros(len(seeds), self.draws, device=seeds.device))

    def move(self, points: CorruptPoints, uniforms: Tensor) -> CorruptPoints:
        most, end = _most(self, uniforms.device)
        severity = torch.addcmul(points.severity, 2 * uniforms - 1, most)
        return CorruptPoints(points.image, torch.minimum(torch.maximum(severity, -end), end))

    def render(self, points: CorruptPoints) -> Tensor:
        image, side = points.image, min(points.image.shape[2:]) / 100
        for kind, severity in zip(self.kinds, points.severity[:, :, None, None, None].unbind(1), strict=True):
            size = severity.abs()
            if kind == "fog":
                image = image + (1 - image) * (size / 100)  # Koschmieder's law, with air as light as white
            elif kind == "blur":
                image = blurred(image, size * side)
            elif kind == "noise":
                image = image + severity / 100 * _pattern(self.seed, tuple(image.shape[1:]), image.device)
            elif kind == "pixelate":
                image = pixelated(image, 1 + size * side)
            else:
                image = quantised(image, 100 - size)
        return image.clamp(0, 1)

    def draws_of(self, points: CorruptPoints) -> Tensor:
        """(n, kinds): the one move from the start that leads to these points."""
        most, _ = _most(self, points.severity.device)
        return 0.5 + 0.5 * torch.where(most > 0, points.severity / most.clamp(min=1e-30), 0.0)

    def describe(self, points: CorruptPoints) -> dict[str, Tensor]:
        """The whole change, (n,) each: of pixels, how much larger they are; of quality, what is lost."""
        side = min(points.image.shape[2:]) / 100
        said = {"fog": ("%", 1.0), "blur": ("px", side), "noise": ("%", 1.0), "pixelate": ("px", side)}
        units = said | {"jpeg": ("quality", -1.0)}
        sizes = zip(self.kinds, points.severity.abs().unbind(1), strict=True)
        return {f"{kind} {units[kind][0]}": size * units[kind][1] for kind, size in sizes}


def blurred(image: Tensor, deviation: Tensor) -> Tensor:
    """The discrete Gaussian of this deviation (n, 1, 1, 1), in pixels; beyond its edges the image is mirrored.

    Lindeberg's kernel is a factor of each cosine: it keeps the mean, is nowhere negative, and is the identity at 0.
    """
    down, across = (cosines(side, image.device) for side in image.shape[2:])
    slow = [1 - torch.arange(side, device=image.device).mul(math.pi / side).cos() for side in image.shape[2:]]
    kept = (-deviation.square() * (slow[0][:, None] + slow[1])).exp()
    return down.t() @ ((down @ image @ across.t()) * kept) @ across


def pixelated(image: Tensor, side: Tensor) -> Tensor:
    """Squares of `side` pixels (n, 1, 1, 1), at least 1, each of its mean colour; a pixel on the border of two is a
    mixture of both, so that sides need not be whole."""
    down, across = (_shares(size, side[:, 0, 0]) for size in image.shape[2:])
    return down[:, None] @ image @ across[:, None]


def _shares(pixels: int, side: Tensor) -> Tensor:
    """(n, pixels, pixels): what each pixel of a line gives to each, by way of the cells of `side` (n, 1) that hold
    them. Symmetric, and rows add up to 1: the mean stays."""
    edges = torch.arange(pixels + 1, device=side.device, dtype=side.dtype)
    cells = edges * side
    from_, to = torch.maximum(edges[:-1, None], cells[:, None, :-1]), torch.minimum(edges[1:, None], cells[:, None, 1:])
    inside = (to - from_).clamp(min=0)
    return inside / inside.sum(1, keepdim=True).clamp(min=1e-6) @ inside.mT


@lru_cache(maxsize=16)
def _pattern(seed: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Standard normal noise (channels, height, width): a function of the seed and the shape."""
    count = math.prod(shape)
    return normals(seed, torch.zeros((), dtype=torch.int64, device=device), stream="corrupt.noise", count=count).view(
        shape
    )
