"""What a network wants done to images before it sees them, as data that is saved beside its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.errors import UserError
from foible.records import NUMBER, SIZE, check
from foible.views import FORM as VIEW
from foible.views import Fit, Interpolation, View

FORM = {
    "mean?": [NUMBER], "std?": [NUMBER], "size?": (None, SIZE),
    **{f"{key.removesuffix('?')}?": form for key, form in VIEW.items() if key != "size"},
}  # as JSON  # fmt: skip


@dataclass(frozen=True)
class Preprocess:
    """How a photograph becomes the network's pixels (`view`), and `(pixels - mean) / std` for each channel.

    Empty `mean` and `std` mean no normalisation: `Preprocess()` is the identity, also for modules that normalise
    inside themselves. `size` is the network's input; None takes images as they come. `resize`, `interpolation`, `fit`,
    `fill` and `halves` are those of `foible.views.View`.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    size: tuple[int, int] | None = None  # (height, width)
    resize: int | tuple[int, int] | None = None
    interpolation: Interpolation = "bilinear"
    fit: Fit = "stretch"
    fill: tuple[int, ...] = (0,)
    halves: Literal["even", "down"] = "even"

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise UserError(
                f"preprocess has {len(self.mean)} means and {len(self.std)} standard deviations: "
                "give one of each for every channel, or neither"
            )
        if not all(math.isfinite(value) for value in self.mean):
            raise UserError(f"preprocess mean is {self.mean}: expected finite numbers")
        if not all(math.isfinite(value) and value > 0 for value in self.std):
            raise UserError(f"preprocess std is {self.std}: expected numbers above 0")
        if self.size is None and self.resize is not None:
            raise UserError(f"preprocess resizes to {self.resize} but has no size: say the network's input, size=")
        try:
            View(self.size or (1, 1), self.resize, self.interpolation, self.fit, self.fill, self.halves)
        except UserError as error:
            raise UserError(f"preprocess: {error}") from None

    @property
    def view(self) -> View | None:
        """How a photograph of any size becomes this network's pixels; None where images are taken as they come."""
        if self.size is None:
            return None
        return View(self.size, self.resize, self.interpolation, self.fit, self.fill, self.halves)

    def __call__(self, images: Tensor) -> Tensor:
        """images: (n, channels, height, width) in [0, 1], already cropped: resized whole where their size differs.

        The identity returns its argument. Grey images become three equal channels where there are three means.
        """
        if self.size is not None and tuple(images.shape[-2:]) != self.size:
            cubic = self.interpolation in ("bicubic", "lanczos")
            mode = "bicubic" if cubic else "bilinear"
            images = F.interpolate(images, self.size, mode=mode, antialias=True, align_corners=False)
            if cubic:
                images = images.clamp(0, 1)  # it overshoots at edges, as no photograph does
        if not self.mean:
            return images
        if images.shape[1] == 1 and len(self.mean) == 3:
            images = images.expand(-1, 3, -1, -1)
        if images.shape[1] != len(self.mean):
            raise UserError(
                f"images have {images.shape[1]} channels, preprocess normalises {len(self.mean)}: "
                "give one mean and std for each channel"
            )
        return (images - _column(self.mean, images.device, images.dtype)) / _column(
            self.std, images.device, images.dtype
        )

    def to_json(self) -> dict[str, Any]:
        """mean, std and size always; the rest where it is not the default."""
        record = {
            "mean": list(self.mean),
            "std": list(self.std),
            "size": None if self.size is None else list(self.size),
        }
        for field in fields(self)[3:]:
            value = getattr(self, field.name)
            if value != field.default:
                record[field.name] = list(value) if isinstance(value, tuple) else value
        return record

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Preprocess:
        """The opposite of `to_json`; unknown keys and wrong types are refused."""
        names = [field.name for field in fields(Preprocess)]
        if not isinstance(record, Mapping):
            raise UserError(f"preprocess is {record!r}: expected an object with {', '.join(names)}")
        unknown = set(record) - set(names)
        if unknown:
            raise UserError(f"preprocess has unknown keys {sorted(unknown)}: it takes {', '.join(names)}")
        given = {key: list(value) if isinstance(value, tuple) else value for key, value in record.items()}
        check(given, FORM, "preprocess", "mean and std are lists of numbers, size is null or [height, width]")
        for key in ("mean", "std"):
            given[key] = [float(value) for value in given.get(key, ())]
        made: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
        return Preprocess(**made)


def scaled(mean: tuple[float, ...], std: tuple[float, ...], scale: float, channels: int) -> dict[str, Any]:
    """`mean` and `std` for pixels in [0, 1], from those for pixels in [0, scale]; without any, pixels times scale."""
    mean, std = mean or (0.0,) * channels, std or (1.0,) * channels
    return {"mean": tuple(value / scale for value in mean), "std": tuple(value / scale for value in std)}


def statistics(images: Tensor) -> Preprocess:
    """Mean and standard deviation of each channel of uint8 images (n, channels, height, width), as of [0, 1]."""
    total = torch.zeros(images.shape[1], dtype=torch.float64)
    squares = torch.zeros_like(total)
    for chunk in images.split(4096):
        values = chunk.cpu().to(torch.float64) / 255
        total += values.sum((0, 2, 3))
        squares += values.square().sum((0, 2, 3))
    count = images.numel() / images.shape[1]
    mean = total / count
    std = (squares / count - mean.square()).clamp_min(0).sqrt()
    std[std < 1e-6] = 1.0  # a channel of one value has nothing to scale
    return Preprocess(tuple(round(v, 6) for v in mean.tolist()), tuple(round(v, 6) for v in std.tolist()))


@lru_cache(maxsize=256)  # so that a batch on a GPU does not wait for a copy of three numbers
def _column(values: tuple[float, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, device=device, dtype=dtype).view(-1, 1, 1)
