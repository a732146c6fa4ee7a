"""Paths of many rows, walked together, and which of their moves are enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from foible.images import LEAST_ROWS, to_bytes, to_floats

AT_ONCE = 1 << 24  # values of images that are walked again in float64 at once
PASSES = 3  # over single moves, as long as one could be left out


@dataclass(frozen=True, eq=False)
class Paths(Sequence[Tensor]):
    """Paths of n rows, one after the other. draws: (m, draws), of every move. lengths: (n,), how many each row has."""

    draws: Tensor
    lengths: Tensor

    @staticmethod
    def of(paths: Sequence[Tensor]) -> Paths:
        """From a path (moves, draws) for each row."""
        if isinstance(paths, Paths):
            return paths
        lengths = torch.tensor([len(path) for path in paths], dtype=torch.int64)
        return Paths(torch.cat(list(paths)) if len(paths) else torch.empty(0, 0), lengths)

    @cached_property
    def begin(self) -> Tensor:
        """(n,) where each row's moves begin."""
        return self.lengths.cumsum(0) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: Any) -> Any:
        """The path of a row; of several, given as a slice or an index, their paths."""
        if isinstance(row, int):
            row = range(len(self))[row]
            return self.draws[int(self.begin[row]) : int(self.begin[row] + self.lengths[row])]
        lengths, begin = self.lengths[row], self.begin[row]
        within = torch.arange(int(lengths.sum())) - (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        return Paths(self.draws[begin.repeat_interleave(lengths) + within], lengths)

    def padded(self, draws: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """As one tensor (n, longest, draws), and their lengths (n,)."""
        whole = torch.full((len(self), int(self.lengths.max()) if len(self) else 0, draws), 0.5, device=device)
        lengths = self.lengths.to(device)
        whole[_inside(whole, lengths)] = self.draws.to(whole).view(-1, draws)
        return whole, lengths

    @staticmethod
    def unpadded(whole: Tensor, lengths: Tensor) -> Paths:
        return Paths(whole[_inside(whole, lengths)].cpu(), lengths.cpu())


def _inside(whole: Tensor, lengths: Tensor) -> Tensor:
    """(n, longest) bool: which moves a path has."""
    return torch.arange(whole.shape[1], device=lengths.device) < lengths[:, None]


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


def retrace(
    space: Any, seeds: Tensor, paths: Sequence[Tensor], seen: Callable[[Tensor, Any], None] | None = None
) -> Any:
    """Where each row's path (moves, draws) leads from its seed image: the very points that a search went through.

    All rows that have a j-th move take it together, padded to the least number of rows as everywhere; `walk` moves all
    rows, and other neighbours can change the last bits. seen(rows, points) is told of every such step.
    """
    if len(seeds) < LEAST_ROWS:
        seeds = torch.cat([seeds, seeds[-1:].expand(LEAST_ROWS - len(seeds), *seeds.shape[1:])])
    points = space.start(seeds)
    paths = Paths.of(paths)
    lengths, begin, drawn = paths.lengths, paths.begin, paths.draws.to(seeds)
    for step in range(int(lengths.max()) if len(paths) else 0):
        rows = (lengths > step).nonzero()[:, 0]
        spare = torch.cat([rows, rows[-1:].expand(max(0, LEAST_ROWS - len(rows)))])
        index, whole = rows.to(seeds.device), spare.to(seeds.device)
        here = type(points)(*(field.index_select(0, whole) for field in points))
        moved = space.move(here, drawn.index_select(0, (begin[spare] + step).to(seeds.device)))
        points = type(points)(
            *(
                old if new is same else old.index_copy(0, index, new[: len(rows)])
                for old, same, new in zip(points, here, moved, strict=True)
            )
        )
        if seen is not None:
            seen(rows, moved)
    return points


def recorded(space: Any, seeds: Tensor, paths: Sequence[Tensor], precise: bool) -> tuple[Any, Tensor]:
    """Where each row's path leads from its seed image (n, channels, height, width), uint8 or in [0, 1], and the 8-bit
    pixels there, which a row of findings keeps.

    precise: in float64, where the space takes that. In float32 another kernel, another device or another batch adds up
    otherwise (a GPU even divides by 255 otherwise), and of many pixels some lie just between two levels. So rows of a
    GPU are the same pixels wherever they are walked again.
    """
    if not (precise and takes_doubles(space)):
        points = retrace(space, to_floats(seeds), paths)
        return points, to_bytes(space.render(points)[: len(seeds)])
    paths, parts = Paths.of(paths), []
    rows = max(LEAST_ROWS, AT_ONCE // max(1, seeds[:1].numel()))
    for part in (slice(begin, begin + rows) for begin in range(0, max(1, len(seeds)), rows)):
        points = retrace(space, seeds[part].double() / (255 if seeds.dtype == torch.uint8 else 1), paths[part])
        pixels = to_bytes(space.render(points)[: len(seeds[part])])
        parts.append((tuple(field[: len(pixels)].float() for field in points), pixels))
    fields = [torch.cat(each) for each in zip(*(part[0] for part in parts), strict=True)]
    return type(points)(*fields), torch.cat([part[1] for part in parts])


def takes_doubles(space: Any) -> bool:
    """Whether points of this space may be float64."""
    return bool(getattr(space, "doubles", False))


def only(draws: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Of moves (n, longest, draws) the kept (n, longest) ones first, and how many they are (n,)."""
    order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)
    return draws.gather(1, order[:, :, None].expand(-1, -1, draws.shape[2])), kept.sum(1)


def fewest_moves(
    space: Any, holds: Callable[[Tensor, Tensor], Tensor], seeds: Tensor, draws: Tensor, lengths: Tensor, rows: Tensor
) -> Tensor:
    """Which moves (n, longest) bool of these rows are enough: stretches of the path are left out, halves first, single
    moves last. holds(images, rows) says which still do."""
    longest = draws.shape[1]
    kept = _inside(draws, lengths)
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
                    ended = walk(space, seeds[worth], *only(draws[worth], tried[worth]))
                    good = worth[holds(space.render(ended), worth)]
                    kept[good] = tried[good]
            going = going[(before != kept).any(1)[going]]
            if not going.numel():
                break
        size //= 2
    return kept
