"""What a search for the nearest image has spent and found, image by image."""

from __future__ import annotations

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.nearest import Model, Nearest, length, margin
from foible.search.projection import Bound


class Ledger:
    """For n images (n, *shape), asked about as rows x (n, d): the nearest success so far, and the cost.

    any_class: a success is whatever is not the label; else it is the target.
    """

    def __init__(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        *,
        norm: str,
        low: Bound,
        high: Bound,
        sure: float,
        budget: Budget,
        any_class: bool,
    ) -> None:
        self.model, self.shape, self.norm, self.low, self.high = model, images.shape[1:], norm, low, high
        self.sure, self.budget, self.any_class = sure, budget, any_class
        self.x, self.labels = images.flatten(1), labels
        self.best = self.x.clone()
        self.least = torch.full((len(images),), torch.inf, dtype=images.dtype, device=images.device)
        self.nearly = torch.full_like(self.least, -torch.inf)  # the best margin where nothing is found
        self.invalid = torch.zeros(len(images), dtype=torch.bool, device=images.device)
        self.forwards = torch.zeros(len(images), dtype=torch.int64, device=images.device)
        self.backwards = torch.zeros_like(self.forwards)

    def logits(self, points: Tensor, rows: Tensor) -> Tensor:
        """Of points (m, d), which are tried for these rows; one forward is charged."""
        self.forwards[rows] += 1
        return self.model(points.view(-1, *self.shape))

    def note(self, rows: Tensor, points: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
        """Remember points (m, d) that are nearer than any before; (m,) bool, which of them are successes."""
        by = margin(logits, self.labels[rows], None if self.any_class else targets)
        sound = logits.isfinite().all(1)
        self.invalid[rows] |= ~sound
        hit = (by > self.sure * logits.abs().amax(1).clamp_min(1)) & sound
        size = length(points - self.x[rows], self.norm)
        better = hit & (size < self.least[rows])
        nearer = (self.least[rows] == torch.inf) & sound & ~hit & (by > self.nearly[rows])
        index = (better | nearer).nonzero()[:, 0]
        self.best[rows[index]] = points[index]
        self.nearly[rows] = torch.where(nearer, by, self.nearly[rows])
        self.least[rows] = torch.where(better, size, self.least[rows])
        return hit

    def able(self, rows: Tensor, backwards: int) -> Tensor:
        """(m,) bool: rows that can pay for another forward and this many backwards, and have not met NaN."""
        can = ~self.invalid[rows]
        if self.budget.forwards is not None:
            can &= self.forwards[rows] + 1 <= self.budget.forwards
        if self.budget.backwards is not None:
            can &= self.backwards[rows] + backwards <= self.budget.backwards
        return can

    def found(self, rows: Tensor) -> Tensor:
        return self.least[rows] < torch.inf

    def close(self) -> Nearest:
        found = self.least < torch.inf
        images = self.best.view(-1, *self.shape)
        return Nearest(images, found, self.invalid & ~found, self.forwards, self.backwards)
