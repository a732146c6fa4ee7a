"""What the methods that follow slopes share: what is asked of n images, one gradient for all of them at once, and
nothing that waits for the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import Model, length, margin
from foible.search.nearest.ledger import Ledger
from foible.search.nearest.projection import Bound

ALL = slice(None)  # of a ledger's rows
Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # logits (n, classes), labels, targets -> (n,)


@dataclass(frozen=True)
class Aim:
    """n images as rows, what is asked of them, and the ledger of what was found."""

    model: Model
    shape: tuple[int, ...]  # of an image
    x: Tensor  # (n, d)
    labels: Tensor  # (n,)
    targets: Tensor | None  # (n,)
    norm: str
    low: Bound
    high: Bound
    sure: float  # by how much, as a share of the largest logit and of 1, a margin must be above 0
    ledger: Ledger

    def slope(self, points: Tensor, loss: Loss = margin, live: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The loss (n,) at points (n, d), its slope (n, d), and which points are successes. Rows that are `live` (n,),
        by default all, pay a forward and a backward. A slope that is not finite is 0, and the row is invalid from then
        on."""
        with torch.enable_grad():
            at = points.detach().requires_grad_()
            logits = self.model(at.view(-1, *self.shape))
            if not logits.requires_grad:
                raise UserError("the model gives no gradient: minimal distortions need a differentiable network")
            value = loss(logits, self.labels, self.targets)
            [slope] = torch.autograd.grad(value.sum(), at)
        self.ledger.backwards.add_(1 if live is None else live)
        sound = slope.isfinite().all(1)
        self.ledger.invalid |= ~sound if live is None else live & ~sound
        self.ledger.forwards.add_(1 if live is None else live)
        return value.detach(), torch.where(sound[:, None], slope, 0.0), self.note(ALL, points, logits.detach(), live)

    @torch.no_grad()
    def look(self, points: Tensor, live: Tensor | None = None) -> Tensor:
        """(n,) bool: which points (n, d) are successes; rows that are `live`, by default all, pay a forward."""
        self.ledger.forwards.add_(1 if live is None else live)
        return self.note(ALL, points, self.model(points.view(-1, *self.shape)), live)

    def note(self, rows: Tensor | slice, points: Tensor, logits: Tensor, live: Tensor | None = None) -> Tensor:
        """Offer points (m, d), of which the model says logits (m, classes), to the ledger, for rows that are `live`
        (m,), by default all; (m,) bool, which are successes."""
        targets = None if self.targets is None else self.targets[rows]
        by, sound = margin(logits, self.labels[rows], targets), logits.isfinite().all(1)
        hit = (by > self.sure * logits.abs().amax(1).clamp_min(1)) & sound
        size = length(points - self.x[rows], self.norm)
        self.ledger.offer(rows, points, by=by, hit=hit, size=size, sound=sound, counts=live)
        return hit

    @property
    def farthest(self) -> Tensor:
        """(n,): how far the farthest corner of the box is."""
        return length(torch.maximum(self.x - self.low, self.high - self.x), self.norm)

    def tangent(self, by: Tensor, slope: Tensor) -> Tensor:
        """(n,): how far it is to a margin of 0 if margins (n,) are planes with these slopes (n, d)."""
        dual = slope.abs().sum(1) if self.norm == "linf" else slope.norm(dim=1)
        return by.abs() / dual.clamp_min(1e-12)

    def shortened(self, difference: Tensor, eps: Tensor) -> Tensor:
        """Differences (n, d) from x, none longer than its eps (n,)."""
        if self.norm == "linf":
            return difference.clamp(-eps[:, None], eps[:, None])
        share: Tensor = (eps / difference.norm(dim=1).clamp_min(1e-30)).clamp_max(1.0)
        return difference * share[:, None]


def aim(
    model: Model, images: Tensor, labels: Tensor, targets: Tensor | None, norm: str, low: float, high: float,
    sure: float,
) -> Aim:  # fmt: skip
    """What is asked, with an empty ledger; an error that names what cannot be asked."""
    if norm not in ("l2", "linf"):
        raise UserError(f"norm is {norm!r}: expected l2 or linf")
    x = images.detach().flatten(1)
    return Aim(model, tuple(images.shape[1:]), x, labels, targets, norm, low, high, sure, Ledger(x))


def gradients(wanted: int, budget: Budget | None) -> int:
    """How many of so many gradients a budget allows; each is a forward and a backward."""
    limits = () if budget is None else (budget.forwards, budget.backwards)
    return min(wanted, *(limit for limit in limits if limit is not None), wanted)


def check_counts(**counts: int) -> None:
    """An error that names the first of these that is below 1."""
    for name, value in counts.items():
        if value < 1:
            raise UserError(f"{name} is {value}: expected at least 1")
