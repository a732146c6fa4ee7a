"""JPEG without the file: blocks of 8 × 8 as cosines, rounded to steps; a whole batch, each image at its own quality."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

# Annex K of the JPEG standard (ITU-T T.81): steps of the 8 × 8 frequencies at quality 50.
LUMA_STEPS = (
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
)  # fmt: skip
CHROMA_STEPS = (
    17, 18, 24, 47, *(99,) * 4, 18, 21, 26, 66, *(99,) * 4, 24, 26, 56, *(99,) * 5, 47, 66, *(99,) * 6, *(99,) * 32,
)  # fmt: skip
YCC = ((0.299, 0.587, 0.114), (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312))  # brightness and two colours


def quantised(image: Tensor, quality: Tensor) -> Tensor:
    """What JPEG of this quality (n, 1, 1, 1), 5 to 100, leaves of the image: its 8 × 8 blocks as cosines, in steps.

    Slopes take a rounding error to grow as its step does.
    """
    n, channels, height, width = image.shape
    grow = torch.where(quality < 50, 50 / quality.clamp(min=1), 2 - quality / 50).clamp(min=1e-4)
    steps, ycc = _tables(channels, image.device)
    planes = image * 255 - 128
    if ycc is not None:
        planes = (ycc @ planes.flatten(2)).view_as(image)
    planes = _whole_blocks(_whole_blocks(planes, 2), 3)
    down, across = planes.shape[2] // 8, planes.shape[3] // 8
    blocks = planes.view(n, channels, down, 8, across, 8).transpose(3, 4).reshape(n, channels, down * across, 64)
    waves = torch.kron(cosines(8, image.device), cosines(8, image.device))
    step = steps * grow
    exact = blocks @ waves.t() / step
    back = (exact + (exact.round() - exact).detach()) * step @ waves
    back = back.view(n, channels, down, across, 8, 8).transpose(3, 4).reshape(planes.shape)[:, :, :height, :width]
    if ycc is not None:
        back = (torch.linalg.inv(ycc) @ back.flatten(2)).view_as(image)
    return (back + 128) / 255


def _whole_blocks(planes: Tensor, axis: int) -> Tensor:
    """The last row or column repeated until there are whole blocks of 8."""
    more = -planes.shape[axis] % 8
    return torch.cat([planes, planes.narrow(axis, -1, 1).repeat_interleave(more, axis)], axis) if more else planes


@lru_cache(maxsize=16)
def cosines(size: int, device: torch.device) -> Tensor:
    """(size, size): the orthonormal cosine transform (DCT-II), a row a frequency."""
    places = torch.arange(size, dtype=torch.float64)
    rows = torch.cos(math.pi / size * places[:, None] * (places + 0.5)) * math.sqrt(2 / size)
    rows[0] /= math.sqrt(2)
    return rows.float().to(device)


@lru_cache(maxsize=16)
def _tables(channels: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """(channels, 1, 64): JPEG's steps, in levels of 255; and for three channels the matrix to brightness and colour."""
    kinds = (LUMA_STEPS, CHROMA_STEPS, CHROMA_STEPS) if channels == 3 else (LUMA_STEPS,) * channels
    steps = torch.tensor(kinds, dtype=torch.float32, device=device)[:, None]
    return steps, torch.tensor(YCC, device=device) if channels == 3 else None
