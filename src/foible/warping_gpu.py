"""`warp` as one GPU kernel, where Triton can be had: no grid of coordinates is written to memory and read back.

Black borders, float32 and no gradients only; `warping.warp` falls back to PyTorch's own for everything else.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from threading import Thread

import torch
from torch import Tensor

from foible import randomness_gpu

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU build of PyTorch, or an operating system without it
    triton = None

BLOCK = 1024  # output pixels of one program
LEAST = 1 << 20  # output pixels below which a compiled kernel is not worth having

if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _kernel(  # type: ignore[no-untyped-def]
        images, matrix, out, channels: tl.constexpr, height: tl.constexpr, width: tl.constexpr, block: tl.constexpr
    ):
        # a kernel for each shape: divisions by a known width are a third of its time
        lane = tl.program_id(0).to(tl.int64)
        place = tl.program_id(1) * block + tl.arange(0, block)
        inside = place < height * width
        middle_x, middle_y = (width - 1) * 0.5, (height - 1) * 0.5
        x, y = (place % width).to(tl.float32) - middle_x, (place // width).to(tl.float32) - middle_y
        row = matrix + lane * 6
        from_x = tl.load(row) * x + tl.load(row + 1) * y + tl.load(row + 2) + middle_x
        from_y = tl.load(row + 3) * x + tl.load(row + 4) * y + tl.load(row + 5) + middle_y
        left, top = tl.floor(from_x), tl.floor(from_y)
        right_share, low_share = from_x - left, from_y - top
        # far outside is outside: this keeps the integers small
        left = tl.minimum(tl.maximum(left, -2.0), width + 0.0)
        top = tl.minimum(tl.maximum(top, -2.0), height + 0.0)
        column, line = left.to(tl.int32), top.to(tl.int32)
        in_left, in_right = (column >= 0) & (column < width), (column >= -1) & (column < width - 1)
        in_top, in_low = (line >= 0) & (line < height), (line >= -1) & (line < height - 1)
        corner = line * width + column
        for channel in range(channels):
            plane = images + (lane * channels + channel) * height * width
            a = tl.load(plane + corner, mask=inside & in_left & in_top, other=0.0)
            b = tl.load(plane + corner + 1, mask=inside & in_right & in_top, other=0.0)
            c = tl.load(plane + corner + width, mask=inside & in_left & in_low, other=0.0)
            d = tl.load(plane + corner + width + 1, mask=inside & in_right & in_low, other=0.0)
            upper = a * (1 - right_share) + b * right_share
            lower = c * (1 - right_share) + d * right_share
            value = upper * (1 - low_share) + lower * low_share
            tl.store(out + (lane * channels + channel) * height * width + place, value, mask=inside)


@lru_cache(maxsize=1)
def _works() -> bool:
    """Whether a kernel can be compiled here: it takes a C compiler beside Triton."""
    if triton is None:
        return False
    try:
        _launch(torch.zeros(1, 1, 2, 2, device="cuda"), torch.zeros(1, 2, 3, device="cuda"))
    except Exception as problem:  # whatever a compiler may say
        warnings.warn(f"warping without the compiled kernel, which is slower: {problem}", stacklevel=2)
        return False
    return True


@lru_cache(maxsize=1)
def wake() -> None:
    """Have a thread load what a GPU needs (its libraries, our kernels), which takes a second or two, beside whatever is
    done before the first image."""

    def touch() -> None:
        square = torch.ones(16, 16, device="cuda")
        (square @ square).logsumexp(1)
        _works()
        randomness_gpu.works()

    if torch.cuda.is_available():
        Thread(target=touch).start()  # no daemon: to end the program while it compiles aborts it


def _launch(images: Tensor, matrix: Tensor) -> Tensor:
    n, channels, height, width = images.shape
    images, matrix, out = images.contiguous(), matrix.contiguous(), torch.empty_like(images)
    grid = (n, triton.cdiv(height * width, BLOCK))
    with torch.cuda.device(images.device):
        _kernel[grid](images, matrix, out, channels, height, width, block=BLOCK)
    return out


def fits(images: Tensor, matrix: Tensor) -> bool:
    """Whether the kernel can take these."""
    plain = images.is_cuda and images.dtype == matrix.dtype == torch.float32 and images.numel() >= LEAST
    return plain and not (torch.is_grad_enabled() and (images.requires_grad or matrix.requires_grad)) and _works()


def fused_warp(images: Tensor, matrix: Tensor) -> Tensor:
    """images (n, c, h, w) through matrix (n, 2, 3), black outside; ask `fits` first."""
    return _launch(images, matrix)
