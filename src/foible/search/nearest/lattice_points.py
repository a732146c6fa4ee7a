"""Judging points of the 8-bit lattice, row by row; what is kept of them is in the ledger."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.nearest import Model, margin
from foible.search.nearest.ledger import Ledger

RIVALS = 5  # classes that a target is held against at once: one backward pass each
Span = tuple[Any, Any]  # the least and the most levels: numbers, or (n, pixels) each
ON = 1e-3  # levels: an origin this close to the lattice is on it


class LatticeJudge:
    """n rows on their way over the lattice. Points are levels (n, pixels), floats of whole numbers 0 … 255; sizes are
    squared l2 or plain linf distances from the origins, in levels."""

    def __init__(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        targets: Tensor | None,
        span: tuple[int, int],
        norm: str,
        budget: Budget | None,
    ) -> None:
        self.model, self.labels, self.targets, self.norm = model, labels, targets, norm
        self.shape, self.span = images.shape, span
        levels = 255 * images.flatten(1)
        self.origin = torch.where((levels - levels.round()).abs() < ON, levels.round(), levels)
        self.ledger = Ledger(whole(levels, span), budget)
        self.every = torch.arange(len(images), device=images.device)
        self.done, self.resting = (torch.zeros_like(self.ledger.invalid) for _ in range(2))  # for good; for now

    def begin(self) -> None:
        """Ask about the origins themselves: where they are called as wanted already, nothing is left to do."""
        if self.affords(1):
            self.done = self.done | self.attempt(self.origin)

    def distance(self, levels: Tensor) -> Tensor:
        """(n,): how far levels are from the origins, in float64, where sums of squares of whole levels are exact."""
        change = levels - self.origin
        if self.norm == "linf":
            return change.abs().amax(1).double()
        return change.square().sum(1, dtype=torch.float64)

    @property
    def idle(self) -> Tensor:
        return self.done | self.resting

    def affords(self, forwards: int, backwards: int = 0) -> bool:
        """Whether any row is left that may spend that much more; those that may not are done."""
        self.done = self.done | (~self.resting & ~self.ledger.affords(self.every, forwards, backwards))
        return not bool(self.idle.all())

    def attempt(self, levels: Tensor) -> Tensor:
        """(n,) bool: whether the model says what is asked for at these levels, rounded and within the box. They are
        offered to the ledger where a row is not idle."""
        levels = whole(levels, self.span)
        with torch.no_grad():
            logits = self.model((levels / 255).view(self.shape))
        by, sound = margin(logits, self.labels, self.targets), logits.isfinite().all(1)
        hit, size = sound & (by > 0), self.distance(levels)
        self.ledger.spend(~self.idle)
        self.ledger.offer(self.every, levels, by=by, hit=hit, size=size, sound=sound, counts=~self.idle)
        return hit

    def planes(self, levels: Tensor) -> tuple[Tensor, Tensor]:
        """The margins (n, rivals) at levels (not rounded) over the rivals that come nearest, and their slopes (n,
        rivals, pixels) by a level. Untargeted there is one: that of the likeliest other class over the label."""
        with torch.enable_grad():
            at = (levels / 255).view(self.shape).detach().requires_grad_()
            logits = self.model(at)
            aim = self.labels if self.targets is None else self.targets
            held = logits.gather(1, aim[:, None])
            others = logits.scatter(1, aim[:, None], -torch.inf)
            if self.targets is None:
                margins = others.amax(1, keepdim=True) - held
            else:
                margins = held - others.topk(min(RIVALS, logits.shape[1] - 1), 1).values
            count = margins.shape[1]
            slopes = [
                torch.autograd.grad(margins[:, j].sum(), at, retain_graph=j + 1 < count)[0].flatten(1) / 255
                for j in range(count)
            ]
        self.ledger.spend(~self.idle, 1, count)
        stacked = torch.stack(slopes, 1)
        return margins.detach().nan_to_num(0, 0, 0), stacked.nan_to_num(0, 0, 0)


def box(low: float, high: float) -> tuple[int, int]:
    """The first and the last level within [low, high] and [0, 1]."""
    return max(0, math.ceil(255 * low - ON)), min(255, math.floor(255 * high + ON))


def whole(levels: Tensor, span: Span) -> Tensor:
    """Rounded, and within the span: two numbers, or two tensors (n, pixels)."""
    return levels.round().clamp(*span)
