"""FMN: M. Pintor, F. Roli, W. Brendel, B. Biggio: Fast minimum-norm adversarial attacks through adaptive norm
constraints (NeurIPS 2021), Algorithm 1, for l2 and linf.

Each step follows the slope of the margin and is brought back into a ball of radius ε around the image and into the box.
ε shrinks while the point is a success and grows while it is none; before the first success it is at least how far the
margin's tangent plane is. (In the paper it is just that until then: steps that end on the plane come ever closer to it,
and a box that cuts them short keeps them from the boundary for good.) The stride α and the rate γ fall along half a
cosine. In the paper's words: x₀ are `images`, L is the negative margin, δ is `moved`, ε is `eps`, α₀ is `first`, γ₀ is
`gamma`, K is `steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import Model, Nearest, length
from foible.search.nearest.first_order import aim, check_counts, gradients

LEAST_STRIDE, LEAST_RATE = 0.01, 0.02  # of the first, at the last step


def fmn(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    norm: str = "l2",
    low: float = 0.0,
    high: float = 1.0,
    steps: int = 100,
    first: float | None = None,
    gamma: float = 0.05,
    sure: float = 2e-6,
    budget: Budget | None = None,
    tick: Callable[[int], None] | None = None,
) -> Nearest:
    """The nearest images (n, *shape) that `model` gives the targets to; without targets, that it no longer gives the
    labels to.

    norm: "l2" or "linf". steps: gradients for each image. first: the first stride, an l2 length; by default each image
    has its own, as long as the change that the tangent plane of the margin at the image asks for. gamma: the first
    rate of ε. sure: by how much, as a share of the largest logit and of 1, a margin must be above 0. budget: for each
    image. tick(k) hears of k further images.
    """
    check_counts(steps=steps)
    for name, value in (("first", first), ("gamma", gamma)):
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"{name} is {value}: expected a number above 0")
    asked = aim(model, images, labels, targets, norm, low, high, sure)
    x, ledger, farthest = asked.x, asked.ledger, asked.farthest
    z, eps = x.clone(), torch.zeros_like(farthest)
    live, stride = torch.ones_like(labels, dtype=torch.bool), torch.zeros_like(farthest)
    for number in range(gradients(steps, budget) if len(x) else 0):
        falling = (1 + math.cos(math.pi * number / steps)) / 2
        rate = gamma * (LEAST_RATE + (1 - LEAST_RATE) * falling)
        by, slope, hit = asked.slope(z, live=live)
        moved = z - x
        ahead = asked.tangent(by, slope)
        if number == 0:
            stride = _first(ahead, farthest, x.shape[1], norm) if first is None else torch.full_like(ahead, first)
            live = live & ~hit  # nothing is nearer than no change
        live = live & ~ledger.invalid
        found, least = ledger.found, ledger.least.to(eps)
        away = eps.maximum(torch.where(found, 0.0, length(moved, norm) + ahead)) * (1 + rate)
        eps = torch.where(hit, torch.minimum(eps * (1 - rate), least), away).minimum(farthest)
        pace = stride * (LEAST_STRIDE + (1 - LEAST_STRIDE) * falling) / slope.norm(dim=1).clamp_min(1e-12)
        new = (x + asked.shortened(moved + pace[:, None] * slope, eps)).clamp(low, high)
        z = torch.where(live[:, None], new, z)
    if tick is not None:
        tick(len(x))
    return ledger.close(asked.shape)


def _first(ahead: Tensor, farthest: Tensor, pixels: int, norm: str) -> Tensor:
    """(n,): the first strides, where a tangent plane is `ahead` (n,) away in this norm. A stride is an l2 length: in
    the maximum norm all pixels go as far. Where a slope is nearly none, the plane is out of the box."""
    return ahead.minimum(farthest) * (math.sqrt(pixels) if norm == "linf" else 1.0)
