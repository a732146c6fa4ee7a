"""The smallest change that still holds: what a person needs to see the cause of a mistake.

In a box a path of moves is one large move, so whole kinds of it are left out first (each kind alone, then all but one
at a time), and what remains is made smaller by halving intervals: all of it together, then each draw. Elsewhere moves
of the path are left out, halves first and single ones last. Smallest means that nothing tried along the way was
smaller; there may be a smaller change in another direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from foible.basket import Basket, Precision
from foible.images import LEAST_ROWS, settle, to_floats
from foible.objectives import Objective
from foible.search.asking import Asker
from foible.search.climb.lanes import lanes_of
from foible.search.walking import Paths, fewest_moves, only, walk
from foible.spaces import is_box

PASSES = 3  # over kinds, as long as one could be left out
COARSE, FINE = 7, 4  # halvings of the size of the whole, and of one draw
SEEN = 1e-3  # of a largest move: less is no part of a change
PIXELS = 16_000_000  # in one batch on a CPU, channels counted


class Shrunk(NamedTuple):
    """One row for each path that was given."""

    paths: Paths
    points: Any  # where they end
    images: Tensor  # (n, channels, height, width), settled
    forwards: Tensor  # (n,) inferences spent here, on the CPU
    kinds: list[list[str]]  # what each change is made of


@torch.no_grad()
def shrink(
    space: Any,
    objective: Objective,
    basket: Basket,
    seeds: Tensor,
    aims: Tensor,
    paths: Sequence[Tensor],
    *,
    suspect: str,
    width: int | None = None,
    tick: Callable[[float], None] | None = None,
) -> Shrunk:
    """For each found row the smallest change that the whole basket, on settled images, still calls found.

    seeds: (n, channels, height, width), uint8 or floats in [0, 1]. aims: (n,). paths: n of (moves, draws), what was
    found, which is given back where nothing smaller holds. Rows never touch; at most `width` share a batch (default: as
    many as the lanes of hill climbing). `tick(k)` hears of k further rows, a part of a row at a time.
    """
    seeds, aims = to_floats(seeds.to(basket.device)), aims.to(basket.device)
    paths, asker = Paths.of(paths), Asker(objective, basket, suspect)
    width = max(LEAST_ROWS, width or _width(basket, seeds))
    parts = [
        _shrink(space, asker, aims[part], seeds[part], paths[part], tick)
        for part in (slice(begin, begin + width) for begin in range(0, max(1, len(paths)), width))
    ]
    points = type(parts[0].points)(
        *(torch.cat(fields) for fields in zip(*(part.points for part in parts), strict=True))
    )
    return Shrunk(
        Paths(
            *(torch.cat(both) for both in zip(*((part.paths.draws, part.paths.lengths) for part in parts), strict=True))
        ),
        points,
        torch.cat([part.images for part in parts]),
        torch.cat([part.forwards for part in parts]),
        [kinds for part in parts for kinds in part.kinds],
    )


def _width(basket: Basket, seeds: Tensor) -> int:
    """How many rows share a batch: as many as there are lanes in hill climbing, on a CPU within `PIXELS`."""
    lanes = lanes_of(basket, seeds)
    return lanes if basket.device.type == "cuda" else min(lanes, PIXELS // max(1, seeds[:1].numel()))


def _shrink(
    space: Any, asker: Asker, aims: Tensor, seeds: Tensor, given: Paths, tick: Callable[[float], None] | None
) -> Shrunk:
    """All rows of one batch."""
    count, forwards = len(given), torch.zeros_like(aims)
    looks = _looks(space, given) if tick is not None else iter(())

    def holds(images: Tensor, rows: Tensor, precision: Precision = "folded") -> Tensor:
        """(m,) bool of images (m, …), which belong to these rows (m,)."""
        found, costs = asker.still_found(images, aims[rows], precision)
        forwards[rows] += costs
        if tick is not None:
            tick(count * next(looks, 0.0))
        return found

    draws, lengths = given.padded(space.draws, seeds.device)
    before = draws.clone(), lengths.clone()
    if is_box(space) and draws.numel():
        start = walk(space, seeds, draws, lengths)
        amounts, whole = _OneMove(space, holds, seeds).smallest(2 * space.draws_of(start) - 1)
        draws[whole, 0] = (0.5 + 0.5 * amounts)[whole]
        lengths = torch.where(whole, amounts.any(1).long(), lengths)
    rest = (lengths > 1).nonzero()[:, 0]  # one move is one move
    if rest.numel():
        kept = fewest_moves(space, holds, seeds, draws, lengths, rest)
        draws[rest], lengths[rest] = only(draws[rest], kept[rest])
    points = walk(space, seeds, draws, lengths)
    rendered = space.render(points)
    fails = ~holds(rendered, torch.arange(count, device=seeds.device), "float32")
    if fails.any():  # rounding in another batch, or a path that did not hold to begin with
        draws[fails], lengths[fails] = before[0][fails], before[1][fails]
        points = walk(space, seeds, draws, lengths)
        rendered = space.render(points)
    if tick is not None:
        tick(count * sum(looks))
    return Shrunk(Paths.unpadded(draws, lengths), points, settle(rendered), forwards.cpu(), kinds_of(space, points))


def _looks(space: Any, given: Paths) -> Iterator[float]:
    """The share of the whole that each look at rows is, as far as one can tell beforehand how many there will be."""
    if is_box(space):
        many = 2 + 2 * COARSE + space.draws * (1 + FINE) + 2 * len(set(space.kinds))
    else:
        many = 2 + 2 * int(given.lengths.max() if len(given) else 0)
    return repeat(1 / many, many)


def kinds_of(space: Any, points: Any) -> list[list[str]]:
    """The kinds that each row's change is made of, the largest first; in no box, all that a move has."""
    names = list(dict.fromkeys(getattr(space, "kinds", ())))
    if not is_box(space):
        return [names for _ in points.image]
    amounts = 2 * space.draws_of(points) - 1
    amounts = torch.where(amounts.abs() > SEEN, amounts, 0.0)
    of_kind = torch.tensor([[kind == name for kind in space.kinds] for name in names], device=amounts.device)
    sizes = (amounts[:, None] * of_kind).norm(dim=2).cpu()
    order = sizes.argsort(dim=1, descending=True, stable=True)
    order = torch.where(sizes.gather(1, order) > 0, order + 1, 0)
    codes, which = (order * (len(names) + 1) ** torch.arange(len(names))).sum(1).unique(return_inverse=True)
    first = torch.empty_like(codes).scatter(0, which, torch.arange(len(order)))  # a row of each sort: they are few
    each = [[names[k - 1] for k in row if k] for row in order[first].tolist()]
    return [each[place] for place in which.tolist()]


class _OneMove:
    """Rows as one large move each: amounts (n, draws), in largest moves."""

    def __init__(self, space: Any, holds: Callable[[Tensor, Tensor], Tensor], seeds: Tensor) -> None:
        self.space, self.holds, self.seeds = space, holds, seeds
        named = list(dict.fromkeys(space.kinds))
        self.of_kind = torch.tensor([[kind == name for kind in space.kinds] for name in named], device=seeds.device)

    def smallest(self, amounts: Tensor) -> tuple[Tensor, Tensor]:
        """The smaller amounts, and for which rows (n,) one move does what the path did."""
        amounts = torch.where(amounts.abs() > SEEN, amounts, 0.0)
        whole = torch.zeros(len(amounts), dtype=torch.bool, device=amounts.device)
        self._keep(amounts, amounts, torch.arange(len(amounts), device=amounts.device), whole)
        self.rows = whole.nonzero()[:, 0]
        self._fewest_kinds(amounts)
        self._scale(amounts, torch.ones_like(amounts, dtype=torch.bool), COARSE)
        order = amounts.abs().argsort(1)
        for place in range(amounts.shape[1]):
            drawn = torch.zeros_like(amounts, dtype=torch.bool).scatter(1, order[:, place : place + 1], True)
            self._drop(amounts, drawn)
            self._scale(amounts, drawn, FINE)
        self._scale(amounts, torch.ones_like(amounts, dtype=torch.bool), COARSE)
        return amounts, whole

    def _keep(self, amounts: Tensor, tried: Tensor, rows: Tensor, kept: Tensor | None = None) -> Tensor:
        """Try other amounts for these rows, and keep them where they hold: (rows,) which did."""
        if not len(rows):  # a space never sees an empty batch
            return torch.zeros_like(rows, dtype=torch.bool)
        points = self.space.move(self.space.start(self.seeds.index_select(0, rows)), 0.5 + 0.5 * tried[rows])
        holds = self.holds(self.space.render(points), rows)
        good = rows[holds]
        amounts[good] = tried[good]
        if kept is not None:
            kept[good] = True
        return holds

    def _drop(self, amounts: Tensor, away: Tensor) -> Tensor:
        """Leave draws (n, draws) out where something else remains: (n,) which rows did."""
        tried = torch.where(away, 0.0, amounts)
        dropped = torch.zeros(len(amounts), dtype=torch.bool, device=amounts.device)
        worth = (tried != amounts).any(1) & tried.any(1)
        self._keep(amounts, tried, self.rows[worth[self.rows]], dropped)
        return dropped

    def _fewest_kinds(self, amounts: Tensor) -> None:
        sizes = (amounts[:, None] * self.of_kind).norm(dim=2)  # (n, kinds)
        order = sizes.argsort(1)
        alone = torch.zeros(len(amounts), dtype=torch.bool, device=amounts.device)
        for place in reversed(range(len(self.of_kind))):  # each alone, the largest first
            away = ~self.of_kind[order[:, place]] & ~alone[:, None]
            alone |= self._drop(amounts, away)
        changed = torch.ones_like(alone)
        for _ in range(PASSES):
            going, changed = changed, torch.zeros_like(alone)
            for place in range(len(self.of_kind)):  # all but one, the smallest first
                changed |= self._drop(amounts, self.of_kind[order[:, place]] & going[:, None])
            if not changed.any():
                break

    def _scale(self, amounts: Tensor, which: Tensor, halvings: int) -> None:
        """Make these draws (n, draws) of each row smaller by one factor, as far as it holds."""
        rows = self.rows[(amounts * which).any(1)[self.rows]]
        full, low, high = amounts.clone(), torch.zeros(len(amounts), 1), torch.ones(len(amounts), 1)
        low, high = low.to(amounts), high.to(amounts)
        for _ in range(halvings if rows.numel() else 0):
            middle = (low + high) / 2
            holds = self._keep(amounts, torch.where(which, full * middle, full), rows)
            high[rows[holds]], low[rows[~holds]] = middle[rows[holds]], middle[rows[~holds]]
