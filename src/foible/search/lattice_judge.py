"""Judging points of the 8-bit lattice, and keeping the best of them, row by row, with what it cost."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.nearest import Model, margin, reached

RIVALS = 5  # classes that a target is held against at once: one backward pass each
Span = tuple[Any, Any]  # the least and the most levels: numbers, or (n, pixels) each
ON = 1e-3  # levels: an origin this close to the lattice is on it


class Judge:
    """n rows on their way over the lattice. Points are levels (n, pixels), floats of whole numbers 0 … 255."""

    def __init__(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        targets: Tensor | None,
        span: tuple[int, int],
        norm: str,
        budget: Budget,
    ) -> None:
        self.model, self.labels, self.targets, self.norm, self.budget = model, labels, targets, norm, budget
        self.shape, count = images.shape, len(images)
        self.span = span
        levels = 255 * images.flatten(1)
        self.origin = torch.where((levels - levels.round()).abs() < ON, levels.round(), levels)
        self.best = whole(levels, self.span)
        self.cost = torch.full((count,), torch.inf, dtype=torch.float64, device=images.device)  # of the best, if found
        self.miss = torch.full((count,), -torch.inf, device=images.device)  # margin of the best, if not found
        self.found = torch.zeros(count, dtype=torch.bool, device=images.device)
        self.broken, self.done, self.resting = (self.found.clone() for _ in range(3))  # done for good; for now
        self.forwards = torch.zeros(count, dtype=torch.int64, device=images.device)
        self.backwards = self.forwards.clone()

    def begin(self) -> None:
        """Ask about the origins themselves: where they are called as wanted already, nothing is left to do."""
        if self.affords(1):
            self.done = self.done | self.attempt(self.origin)

    @property
    def invalid(self) -> Tensor:
        return self.broken & ~self.found

    def distance(self, levels: Tensor) -> Tensor:
        """(n,) float64: squared l2 or plain linf distance from the origins, in levels."""
        change = levels - self.origin
        if self.norm == "linf":
            return change.abs().amax(1).double()
        return change.square().sum(1, dtype=torch.float64)

    @property
    def idle(self) -> Tensor:
        return self.done | self.resting

    def affords(self, forwards: int, backwards: int = 0) -> bool:
        """Whether any row is left that may spend that much more; those that may not are done."""
        for spent, more, most in (
            (self.forwards, forwards, self.budget.forwards),
            (self.backwards, backwards, self.budget.backwards),
        ):
            if most is not None:
                self.done = self.done | (~self.resting & (spent + more > most))
        return not bool(self.idle.all())

    def attempt(self, levels: Tensor) -> Tensor:
        """(n,) bool: whether the model says what is asked for at these levels, rounded and within the box. The nearest
        such point is kept; before there is one, the point that came closest to being one."""
        levels = whole(levels, self.span)
        with torch.no_grad():
            logits = self.model((levels / 255).view(self.shape))
        self.forwards += ~self.idle
        margins = margin(logits, self.labels, self.targets)
        hit = reached(logits, self.labels, self.targets)
        self.broken |= ~logits.isfinite().all(1)
        cost = self.distance(levels)
        nearer = hit & (cost < self.cost) & ~self.idle
        closer = ~self.found & ~hit & (margins > self.miss) & ~self.idle
        self.cost = torch.where(nearer, cost, self.cost)
        self.miss = torch.where(closer, margins, self.miss)
        self.found = self.found | nearer
        self.best = torch.where((nearer | closer)[:, None], levels, self.best)
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
        self.forwards += ~self.idle
        self.backwards += count * ~self.idle
        stacked = torch.stack(slopes, 1)
        return margins.detach().nan_to_num(0, 0, 0), stacked.nan_to_num(0, 0, 0)


def box(low: float, high: float) -> tuple[int, int]:
    """The first and the last level within [low, high] and [0, 1]."""
    return max(0, math.ceil(255 * low - ON)), min(255, math.floor(255 * high + ON))


def whole(levels: Tensor, span: Span) -> Tensor:
    """Rounded, and within the span: two numbers, or two tensors (n, pixels)."""
    return levels.round().clamp(*span)
