"""Steps up the slope of the margin within a ball around the image that shrinks while the point is a success.

This is what a deep network wants once something was found: its margins have kinks everywhere, planes mislead, and steps
that begin as long as the distance and end at a hundredth of it pass over the kinks. It begins where the planes came to,
and measures everything by the distance that was found, so there is nothing to choose. Compare `fmn`, which begins at
the image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.search.nearest import length
from foible.search.nearest.first_order import Aim
from foible.search.nearest.projection import within
from foible.search.nearest.recorded import repeat

LONG = 60  # steps from which on the first may be as long as the distance
LAST = 0.01  # of the distance: the last step
SHRINKS, SLOWLY = 0.05, 1e-3  # of the ball in a step, at first and at last


@dataclass(frozen=True)
class Ball:
    """n rows on their way."""

    z: Tensor  # (n, d)
    radius: Tensor  # (n,)
    part: Tensor  # () how much is done, 0 to 1


def shrink(aim: Aim, steps: int) -> None:
    """Steps from the best points that the ledger has; what they find is in the ledger."""
    first = min(1.0, max(0.5, steps / LONG))

    def step(s: Ball) -> Ball:
        by, slope, hit = aim.slope(s.z)
        falling = (1 + torch.cos(math.pi * s.part)) / 2
        stride, rate = LAST + (first - LAST) * falling, SLOWLY + (SHRINKS - SLOWLY) * falling
        moved = s.z - aim.x
        least = aim.ledger.least.to(moved.dtype)
        ahead = length(moved, aim.norm) + aim.tangent(by, slope)  # where nothing was found yet: to the plane
        known = torch.where(least.isinf(), torch.maximum(ahead, s.radius), least)
        inner = torch.minimum(s.radius, known) * (1 - rate)
        radius = torch.where(hit, inner, torch.minimum(s.radius * (1 + rate), known))
        radius = torch.where(least.isinf(), known * (1 + rate), radius)
        ways = slope.sign() if aim.norm == "linf" else slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-20)
        there = aim.shortened(moved + (stride * known)[:, None] * ways, radius)
        return Ball(within(aim.x + there, aim.low, aim.high), radius, s.part + 1 / steps)

    best = aim.ledger.best.clone()
    repeat(step, Ball(best, length(best - aim.x, aim.norm), best.new_zeros(())), steps)
