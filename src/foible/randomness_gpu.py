"""`philox` as one GPU kernel, where Triton can be had: the same words in one launch, not in two hundred."""

from __future__ import annotations

import warnings
from functools import lru_cache

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU build of PyTorch, or an operating system without it
    triton = None

BLOCK = 1024

if triton is not None:

    @triton.jit(do_not_specialize=["key", "count"])  # type: ignore[untyped-decorator]
    def _kernel(first, second, third, fourth, out, key, count, block: tl.constexpr):  # type: ignore[no-untyped-def]
        place = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
        inside = place < count
        c0 = tl.load(first + place, mask=inside, other=0).to(tl.uint32)
        c1 = tl.load(second + place, mask=inside, other=0).to(tl.uint32)
        c2 = tl.load(third + place, mask=inside, other=0).to(tl.uint32)
        c3 = tl.load(fourth + place, mask=inside, other=0).to(tl.uint32)
        c0, c1, c2, c3 = tl.philox(key, c0, c1, c2, c3)
        tl.store(out + place, c0.to(tl.int64), mask=inside)
        tl.store(out + count + place, c1.to(tl.int64), mask=inside)
        tl.store(out + 2 * count + place, c2.to(tl.int64), mask=inside)
        tl.store(out + 3 * count + place, c3.to(tl.int64), mask=inside)


@lru_cache(maxsize=1)
def works() -> bool:
    """Whether a kernel can be compiled here, and says what it should (the known answer for a counter of zeros)."""
    if triton is None:
        return False
    try:
        zeros = torch.zeros(1, dtype=torch.int64, device="cuda")
        said = [int(word) for word in fused_philox((zeros, zeros, zeros, zeros), (0, 0))]
    except Exception as problem:  # whatever a compiler may say
        warnings.warn(f"drawing without the compiled kernel, which is slower: {problem}", stacklevel=2)
        return False
    return said == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def fused_philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """As `foible.randomness.philox`, of tensors on a GPU; ask `works` first."""
    parts = [part.contiguous() for part in torch.broadcast_tensors(*counter)]
    out = torch.empty((4, *parts[0].shape), dtype=torch.int64, device=parts[0].device)
    count = parts[0].numel()
    if count:
        with torch.cuda.device(out.device):
            _kernel[(triton.cdiv(count, BLOCK),)](*parts, out, key[0] | key[1] << 32, count, block=BLOCK)
    return out.unbind()
