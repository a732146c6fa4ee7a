"""The nearest so far, row by row, and what it cost: the same book for every method that looks for minimal distortions.

A method says of each point that it tried how it stands (margin, success, size); what is kept of it is decided here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.nearest import Nearest


class Ledger:
    """For n rows of d numbers: the smallest success so far or, while there is none, the point that came closest to one.

    Sizes and margins are kept in float64, which holds those of any dtype as they are.
    """

    def __init__(self, start: Tensor, budget: Budget | None = None) -> None:
        """start: (n, d), the best while nothing was offered. budget: of each row; none is no limit."""
        self.budget = budget or Budget()
        self.best = start.clone()
        count, device = len(start), start.device
        self.least = torch.full((count,), torch.inf, dtype=torch.float64, device=device)  # size of the best success
        self.nearly = -self.least  # while there is none, the highest margin
        self.invalid = torch.zeros(count, dtype=torch.bool, device=device)  # the model answered with NaN or infinity
        self.forwards, self.backwards = (torch.zeros(count, dtype=torch.int64, device=device) for _ in range(2))

    @property
    def found(self) -> Tensor:
        """(n,) bool: rows with a success."""
        return self.least < torch.inf

    def offer(
        self,
        rows: Tensor | slice,
        points: Tensor,
        *,
        by: Tensor,
        hit: Tensor,
        size: Tensor,
        sound: Tensor,
        counts: Tensor | None = None,
    ) -> None:
        """Points (m, d), one for each of these rows (m,), none of them twice, or slice(None); and of each of them (m,):

        by: the margin. hit: whether it is a success. size: in whatever the method minimises. sound: whether the model's
        answer was finite; else the point is not kept. counts: whether it is an offer at all; without it, all are.
        """
        self.invalid[rows] |= ~sound if counts is None else counts & ~sound
        least, nearly = self.least[rows], self.nearly[rows]
        fair = sound if counts is None else counts & sound
        smaller = fair & hit & (size < least)
        closer = fair & ~hit & least.isinf() & (by > nearly)
        self.best[rows] = torch.where((smaller | closer)[:, None], points, self.best[rows])  # no wait for the device
        self.least[rows] = torch.where(smaller, size, least)
        self.nearly[rows] = torch.where(closer, by, nearly)

    def spend(self, rows: Tensor, forwards: int = 1, backwards: int = 0) -> None:
        """rows: their numbers (m,), or (n,) bool."""
        self.forwards[rows] += forwards
        if backwards:
            self.backwards[rows] += backwards

    def affords(self, rows: Tensor, forwards: int = 1, backwards: int = 0) -> Tensor:
        """(m,) bool: which of these rows may spend that much more."""
        can = torch.ones_like(rows, dtype=torch.bool)
        if self.budget.forwards is not None:
            can &= self.forwards[rows] + forwards <= self.budget.forwards
        if self.budget.backwards is not None:
            can &= self.backwards[rows] + backwards <= self.budget.backwards
        return can

    def able(self, rows: Tensor, backwards: int) -> Tensor:
        """(m,) bool: which may spend another forward and this many backwards, and have not met NaN or infinity."""
        return self.affords(rows, 1, backwards) & ~self.invalid[rows]

    def left(self, rows: Tensor, most: int) -> Tensor:
        """(m,) int64: gradients (a forward and a backward each) that these rows may still ask for, `most` at most."""
        left = torch.full_like(rows, most)
        for limit, spent in ((self.budget.forwards, self.forwards), (self.budget.backwards, self.backwards)):
            if limit is not None:
                left = left.minimum(limit - spent[rows])
        return left

    def part(self, rows: Tensor) -> Ledger:
        """The book of some rows (m,) alone; `put` brings it back."""
        made = Ledger(self.best[rows], self.budget)
        for name in ("least", "nearly", "invalid", "forwards", "backwards"):
            setattr(made, name, getattr(self, name)[rows])
        return made

    def put(self, rows: Tensor, part: Ledger) -> None:
        for name in ("best", "least", "nearly", "invalid", "forwards", "backwards"):
            getattr(self, name)[rows] = getattr(part, name)

    def close(self, shape: tuple[int, ...]) -> Nearest:
        """What became of the rows, as images of this shape (without n)."""
        found = self.found
        return Nearest(self.best.view(-1, *shape), found, self.invalid & ~found, self.forwards, self.backwards)
