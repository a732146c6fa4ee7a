"""Attention among few tokens as one GPU kernel, where Triton can be had.

Libraries' kernels work on tiles of 64 to 128 tokens and want queries, keys and values each by itself. A digit has 17
tokens: here a program takes one head of one image, reads it where the linear layer left it, and writes what the next
one reads. For slopes the weights of attention are made again, so that none are kept. Measured on an H200 with a hundred
`vit4:patch=7,width=128`, a step takes 21 ms so, 49 ms with PyTorch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from foible import randomness_gpu

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU build of PyTorch, or an operating system without it
    triton = None

MOST = 128  # tokens
WIDEST = 64  # numbers of a head
LEAST = 16  # what the GPU's products take at least, each way
OLDEST = (8, 0)  # generation of the GPU: before it there is too little memory beside a processor for many tokens

if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _shares(queries, keys, token, length: tl.constexpr, scale: tl.constexpr):  # type: ignore[no-untyped-def]
        """How each token (rows) looks at all others (columns): float32, each row sums to 1."""
        scores = tl.dot(queries, tl.trans(keys)) * scale
        scores = tl.where((token < length)[None, :], scores, float("-inf"))
        raised = tl.exp(scores - tl.max(scores, 1)[:, None])
        return raised / tl.sum(raised, 1)[:, None]

    @triton.jit  # type: ignore[untyped-decorator]
    def _forward(  # type: ignore[no-untyped-def]
        mixed, out, length: tl.constexpr, heads: tl.constexpr, size: tl.constexpr, scale: tl.constexpr,
        tokens: tl.constexpr, numbers: tl.constexpr,
    ):  # fmt: skip
        program = tl.program_id(0).to(tl.int64)
        image, head = program // heads, program % heads
        token, number = tl.arange(0, tokens), tl.arange(0, numbers)
        inside = (token < length)[:, None] & (number < size)[None, :]
        place = (image * length + token)[:, None] * (3 * heads * size) + head * size + number[None, :]
        queries = tl.load(mixed + place, mask=inside, other=0.0)
        keys = tl.load(mixed + place + heads * size, mask=inside, other=0.0)
        values = tl.load(mixed + place + 2 * heads * size, mask=inside, other=0.0)
        shares = _shares(queries, keys, token, length, scale)
        said = tl.dot(shares.to(values.dtype), values)
        place = (image * length + token)[:, None] * (heads * size) + head * size + number[None, :]
        tl.store(out + place, said.to(values.dtype), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def _backward(  # type: ignore[no-untyped-def]
        mixed, slope, out, length: tl.constexpr, heads: tl.constexpr, size: tl.constexpr, scale: tl.constexpr,
        tokens: tl.constexpr, numbers: tl.constexpr,
    ):  # fmt: skip
        program = tl.program_id(0).to(tl.int64)
        image, head = program // heads, program % heads
        token, number = tl.arange(0, tokens), tl.arange(0, numbers)
        inside = (token < length)[:, None] & (number < size)[None, :]
        place = (image * length + token)[:, None] * (3 * heads * size) + head * size + number[None, :]
        queries = tl.load(mixed + place, mask=inside, other=0.0)
        keys = tl.load(mixed + place + heads * size, mask=inside, other=0.0)
        values = tl.load(mixed + place + 2 * heads * size, mask=inside, other=0.0)
        joined = (image * length + token)[:, None] * (heads * size) + head * size + number[None, :]
        wanted = tl.load(slope + joined, mask=inside, other=0.0)
        shares = _shares(queries, keys, token, length, scale)
        of_values = tl.dot(tl.trans(shares.to(wanted.dtype)), wanted)
        of_shares = tl.dot(wanted, tl.trans(values))
        of_scores = shares * (of_shares - tl.sum(shares * of_shares, 1)[:, None]) * scale
        rounded = of_scores.to(keys.dtype)
        tl.store(out + place, tl.dot(rounded, keys).to(keys.dtype), mask=inside)
        tl.store(out + place + heads * size, tl.dot(tl.trans(rounded), queries).to(keys.dtype), mask=inside)
        tl.store(out + place + 2 * heads * size, of_values.to(keys.dtype), mask=inside)


def fits(mixed: Tensor, heads: int) -> bool:
    """Whether the kernel can take these: bfloat16, and few tokens."""
    few = mixed.shape[1] <= MOST and mixed.shape[2] <= 3 * heads * WIDEST
    if not (mixed.is_cuda and mixed.dtype == torch.bfloat16 and few and triton is not None):
        return False
    return torch.cuda.get_device_capability(mixed.device) >= OLDEST and randomness_gpu.works()


def attend(mixed: Tensor, heads: int) -> Tensor:
    """(n, tokens, width) of queries, keys and values side by side (n, tokens, 3 · width); ask `fits` first."""
    joined: Tensor = _Attention.apply(mixed, heads)  # type: ignore[no-untyped-call]
    return joined


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mixed: Tensor, heads: int) -> Tensor:
        mixed = mixed.contiguous()
        ctx.save_for_backward(mixed)
        ctx.heads = heads
        out = mixed.new_empty(*mixed.shape[:2], mixed.shape[2] // 3)
        _launch(_forward, mixed, heads, out)
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        [mixed] = ctx.saved_tensors
        out = torch.empty_like(mixed)
        _launch(_backward, mixed, ctx.heads, slope.contiguous(), out)
        return out, None


def _launch(kernel: Any, mixed: Tensor, heads: int, *others: Tensor) -> None:
    n, length, width = mixed.shape
    size = width // (3 * heads)
    tokens, numbers = (max(LEAST, triton.next_power_of_2(one)) for one in (length, size))
    with torch.cuda.device(mixed.device):
        kernel[(n * heads,)](
            mixed, *others, length=length, heads=heads, size=size, scale=size**-0.5, tokens=tokens, numbers=numbers,
            num_warps=1 if tokens <= 32 else tokens // 16,
        )  # fmt: skip
