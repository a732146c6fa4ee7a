"""Images resampled through a matrix: the one place where pixels move.

A matrix (n, 2, 3) leads from output to input, in pixels from the centre of the image.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from foible.errors import UserError
from foible.images import LEAST_ROWS
from foible.warping_gpu import fits, fused_warp

BORDERS = {"black": "zeros", "reflect": "reflection", "edge": "border"}  # our word, torch's padding mode


def check_border(border: str) -> None:
    if border not in BORDERS:
        raise UserError(f"border is {border!r}: expected one of {', '.join(BORDERS)} (what lies outside the image)")


@lru_cache(maxsize=64)
def _pixel_grid(height: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(3, height * width): x, y and 1 of every pixel centre, in pixels from the middle of the image."""
    y, x = torch.meshgrid(
        torch.arange(height, device=device) - (height - 1) / 2,
        torch.arange(width, device=device) - (width - 1) / 2,
        indexing="ij",
    )
    return torch.stack([x.flatten(), y.flatten(), torch.ones(height * width, device=device)]).to(dtype)


@lru_cache(maxsize=64)
def _scale(height: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """(2, 1): from pixels to the units of `grid_sample`."""
    return torch.tensor([[2 / width], [2 / height]], device=device, dtype=dtype)


def warp(images: Tensor, matrix: Tensor, border: str = "black") -> Tensor:
    """Resample images (n, c, h, w) bilinearly where matrix (n, 2, 3) says that each output pixel comes from.

    border: what lies outside the image. "black"; "reflect", the image mirrored in its edge; "edge", its outermost
    pixels drawn out. The grid is one matrix product: twice as fast as `affine_grid` on a CPU.
    """
    if border == "black" and fits(images, matrix):
        return fused_warp(images, matrix)
    n, _, height, width = images.shape
    pixels = _pixel_grid(height, width, images.device, matrix.dtype)
    theta = (matrix * _scale(height, width, matrix.device, matrix.dtype)).reshape(2 * n, 3)
    if n < LEAST_ROWS:
        theta = torch.cat([theta, theta.new_zeros(2 * (LEAST_ROWS - n), 3)])
    grid = (theta @ pixels)[: 2 * n].view(n, 2, height, width).permute(0, 2, 3, 1)
    return grid_sample(images, grid, mode="bilinear", padding_mode=BORDERS[border], align_corners=False)


def compose(first: Tensor, second: Tensor) -> Tensor:
    """first ∘ second of (n, 2, 3) matrices, element by element: the same bits for every batch size."""
    both = torch.addcmul(first[:, :, :1] * second[:, :1], first[:, :, 1:2], second[:, 1:])
    both[:, :, 2] += first[:, :, 2]
    return both
