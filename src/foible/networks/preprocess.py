"""What a network wants done to pixels in [0, 1] before it sees them, as data that is saved beside its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.errors import UserError


@dataclass(frozen=True)
class Preprocess:
    """Resize (bilinear, antialiased) where the size differs, then `(images - mean) / std` for each channel.

    Empty `mean` and `std` mean no normalisation: `Preprocess()` is the identity, also for modules that
    normalise inside themselves.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    size: tuple[int, int] | None = None  # (height, width)

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
        if self.size is not None and (len(self.size) != 2 or min(self.size) < 1):
            raise UserError(f"preprocess size is {self.size}: expected (height, width), both at least 1")

    def __call__(self, images: Tensor) -> Tensor:
        """images: (n, channels, height, width) in [0, 1]. The identity returns its argument."""
        if self.size is not None and tuple(images.shape[-2:]) != self.size:
            images = F.interpolate(images, self.size, mode="bilinear", antialias=True, align_corners=False)
        if not self.mean:
            return images
        if images.shape[1] != len(self.mean):
            raise UserError(
                f"images have {images.shape[1]} channels, preprocess normalises {len(self.mean)}: "
                "give one mean and std for each channel"
            )
        return (images - _column(self.mean, images.device, images.dtype)) / _column(
            self.std, images.device, images.dtype
        )

    def to_json(self) -> dict[str, Any]:
        size = None if self.size is None else list(self.size)
        return {"mean": list(self.mean), "std": list(self.std), "size": size}

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Preprocess:
        """The opposite of `to_json`; unknown keys and wrong types are refused."""
        if not isinstance(record, Mapping):
            raise UserError(f"preprocess is {record!r}: expected an object with mean, std and size")
        unknown = set(record) - {"mean", "std", "size"}
        if unknown:
            raise UserError(f"preprocess has unknown keys {sorted(unknown)}: it takes mean, std and size")
        try:
            size = record.get("size")
            return Preprocess(
                tuple(float(value) for value in record.get("mean", ())),
                tuple(float(value) for value in record.get("std", ())),
                None if size is None else (int(size[0]), int(size[1])),
            )
        except (TypeError, ValueError, IndexError) as error:
            raise UserError(
                f"preprocess is {dict(record)!r}: expected lists of numbers for mean and std, "
                "and null or [height, width] for size"
            ) from error


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
