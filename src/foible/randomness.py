"""Randomness as a function: draws depend on (seed, stream, lane, member, step) and on nothing else.

Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) as tensor arithmetic: the same
numbers for every batch split, device and restart. Integers and uniforms have the same bits on CPU and GPU; normals
agree to float tolerance (they pass through log and cos).

A stream is a name, such as "hunt.moves". It is hashed into the key together with the seed, so that two uses never
share numbers. Within a stream the counter is (lane, step, member, block), 32 bits each.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch import Tensor

from foible.randomness_gpu import fused_philox, works

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int, int]) -> tuple[Tensor, ...]:
    """Philox 4x32-10 of int64 tensors that hold 32-bit words; any broadcastable shapes.

    The 64-bit product of two 32-bit words may wrap in int64, and `>>` is arithmetic: masking at the end of a round
    gives the right words all the same.
    """
    if counter[0].is_cuda and works():
        return fused_philox(counter, key)
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        high0, high1 = (product0 >> 32) ^ c3, (product1 >> 32) ^ c1
        c0, c2 = (word.bitwise_xor_(k).bitwise_and_(_MASK) for word, k in ((high1, k0), (high0, k1)))
        c1, c3 = product1, product0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1.bitwise_and_(_MASK), c2, c3.bitwise_and_(_MASK)


def stream_key(seed: int, stream: str) -> tuple[int, int]:
    """The key of a named stream under a seed (any integer)."""
    digest = hashlib.blake2b(f"{seed}\n{stream}".encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def _blocks(
    seed: int, lane: Tensor, step: Tensor | int, member: Tensor | int, stream: str, count: int
) -> tuple[Tensor, ...]:
    """Four words a block, (*shape, blocks) each, with blocks enough for `count` words."""
    steps = torch.as_tensor(step, dtype=torch.int64, device=lane.device)
    members = torch.as_tensor(member, dtype=torch.int64, device=lane.device)
    block = torch.arange((count + 3) // 4, device=lane.device)
    counter = (lane.to(torch.int64)[..., None], steps[..., None], members[..., None], block)
    return philox(counter, stream_key(seed, stream))  # every word depends on all of the counter: shapes are whole


def words(
    seed: int, lane: Tensor, step: Tensor | int = 0, *, member: Tensor | int = 0, stream: str, count: int
) -> Tensor:
    """`count` 32-bit words for each lane and step: int64 (*shape, count), values in [0, 2**32).

    `lane`, `step` and `member` broadcast against each other to `shape`; each must be in [0, 2**32).
    """
    return torch.stack(_blocks(seed, lane, step, member, stream, count), -1).flatten(-2)[..., :count]


def uniforms(
    seed: int, lane: Tensor, step: Tensor | int = 0, *, member: Tensor | int = 0, stream: str, count: int
) -> Tensor:
    """float32 (*shape, count) in [0, 1): multiples of 2**-24, so exact on every device."""
    blocks = _blocks(seed, lane, step, member, stream, count)
    drawn = torch.empty(*blocks[0].shape, 4, dtype=torch.float32, device=blocks[0].device)
    for place, word in enumerate(blocks):
        drawn[..., place] = word >> 8
    return drawn.flatten(-2)[..., :count] * 2.0**-24


def integers(
    seed: int,
    lane: Tensor,
    step: Tensor | int = 0,
    *,
    high: int,
    member: Tensor | int = 0,
    stream: str,
    count: int,
) -> Tensor:
    """int64 (*shape, count) in [0, high), high up to 2**31; the bias is below high / 2**32."""
    if not 0 < high <= 2**31:
        raise ValueError(f"high is {high}: expected 1 to 2**31")
    return (words(seed, lane, step, member=member, stream=stream, count=count) * high) >> 32


def normals(
    seed: int, lane: Tensor, step: Tensor | int = 0, *, member: Tensor | int = 0, stream: str, count: int
) -> Tensor:
    """float32 (*shape, count), standard normal, by Box and Muller from pairs of words."""
    pairs = (count + 1) // 2
    drawn = words(seed, lane, step, member=member, stream=stream, count=2 * pairs)
    first, second = drawn[..., :pairs].to(torch.float64), drawn[..., pairs:].to(torch.float64)
    radius = torch.sqrt(-2 * torch.log((first + 1) * 2.0**-32))
    angle = second * (2 * math.pi * 2.0**-32)
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], -1)[..., :count].to(torch.float32)
