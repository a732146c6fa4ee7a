"""Paths of many rows, walked together, and which of their moves are enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from foible.images import LEAST_ROWS

PASSES = 3  # over single moves, as long as one could be left out


def padded(paths: Sequence[Tensor], draws: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Paths of unlike lengths as one tensor (n, longest, draws), and their lengths (n,)."""
    lengths = torch.tensor([path.shape[0] for path in paths], dtype=torch.int64)
    padded = torch.full((len(paths), int(lengths.max()) if len(paths) else 0, draws), 0.5)
    if padded.numel():
        rows = torch.arange(len(paths)).repeat_interleave(lengths)
        begin = lengths.cumsum(0) - lengths
        padded[rows, torch.arange(len(rows)) - begin[rows]] = torch.cat(list(paths)).to(padded)
    return padded.to(device), lengths.to(device)


def walk(space: Any, seeds: Tensor, draws: Tensor, lengths: Tensor) -> Any:
    """Where rows end that take the first `lengths` (n,) of their moves `draws` (n, longest, draws) from their seeds."""
    count = len(seeds)
    if 0 < count < LEAST_ROWS:
        spare = torch.arange(LEAST_ROWS, device=seeds.device).clamp(max=count - 1)
        points = walk(space, seeds[spare], draws[spare], lengths[spare])
        return type(points)(*(field[:count] for field in points))
    points = space.start(seeds)
    for step in range(int(lengths.max()) if count else 0):
        moved, going = space.move(points, draws[:, step]), lengths > step
        points = type(points)(
            *(
                new if new is old else torch.where(going.view(-1, *[1] * (new.ndim - 1)), new, old)
                for old, new in zip(points, moved, strict=True)
            )
        )
    return points


def fewest_moves(
    space: Any, holds: Callable[[Tensor, Tensor], Tensor], seeds: Tensor, draws: Tensor, lengths: Tensor, rows: Tensor
) -> Tensor:
    """Which moves (n, longest) bool of these rows are enough: stretches of the path are left out, halves first, single
    moves last. holds(images, rows) says which still do."""
    longest = draws.shape[1]
    kept = torch.arange(longest, device=seeds.device) < lengths[:, None]
    size = 1 << max(0, (longest - 1).bit_length() - 1)
    while size:
        going = rows
        for _ in range(PASSES if size == 1 else 1):
            before = kept.clone()
            for begin in range(0, longest, size):
                tried = kept.clone()
                tried[:, begin : begin + size] = False
                worth = going[((tried != kept).any(1) & tried.any(1))[going]]
                if worth.numel():
                    order = (~tried[worth]).to(torch.uint8).argsort(dim=1, stable=True)  # the kept ones first
                    path = draws[worth].gather(1, order[:, :, None].expand(-1, -1, draws.shape[2]))
                    ended = walk(space, seeds[worth], path, tried[worth].sum(1))
                    good = worth[holds(space.render(ended), worth)]
                    kept[good] = tried[good]
            going = going[(before != kept).any(1)[going]]
            if not going.numel():
                break
        size //= 2
    return kept
