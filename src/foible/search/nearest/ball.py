"""Steps up the slope of the margin within a ball around the image that shrinks while the point is a success.

This is what a deep network wants once something was found: its margins have kinks everywhere, planes mislead, and steps
that begin as long as the distance and end at a hundredth of it pass over the kinks. It begins where the planes came to.
Steps are measured by the distance that was found, or by how far the boundary looks from the image itself where that is
much less: what was found first may be far. So there is nothing to choose. Compare `fmn`, which begins at the image.
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

SHORT, LAST = 0.5, 0.01  # of the distance: the first step where there are few, and the last
SLOWLY = 1e-3  # of the ball: what it shrinks by in the last step


@dataclass(frozen=True)
class Strides:
    first: float  # of the distance: the first step
    enough: int  # steps from which on it may be that long
    far: float  # the longest distance that a step is measured by, in tangents at the image
    shrinks: float  # of the ball, in the first step


USUAL = {"l2": Strides(1.0, 60, 2.0, 0.05), "linf": Strides(1.0, 60, 1.0, 0.05)}
BOLD = {"l2": Strides(2.0, 30, 8.0, 0.1), "linf": USUAL["linf"]}  # for two classes, and no other to stray into


@dataclass(frozen=True)
class Ball:
    """n rows on their way."""

    z: Tensor  # (n, d)
    radius: Tensor  # (n,)
    part: Tensor  # () how much is done, 0 to 1


def shrink(aim: Aim, steps: int, begin: Tensor | None = None, strides: dict[str, Strides] = USUAL) -> None:
    """Steps from the best points that the ledger has, or from points (n, d); what they find is in the ledger. strides:
    by the norm."""
    if steps < 2:
        return
    by, slope, _ = aim.slope(aim.x)
    steps, how = steps - 1, strides[aim.norm]
    far = how.far * aim.tangent(by, slope)
    first = min(how.first, max(SHORT, how.first * steps / how.enough))

    def step(s: Ball) -> Ball:
        by, slope, hit = aim.slope(s.z)
        falling = (1 + torch.cos(math.pi * s.part)) / 2
        stride, rate = LAST + (first - LAST) * falling, SLOWLY + (how.shrinks - SLOWLY) * falling
        moved = s.z - aim.x
        least = aim.ledger.least.to(moved.dtype)
        ahead = length(moved, aim.norm) + aim.tangent(by, slope)  # where nothing was found yet: to the plane
        known = torch.where(least.isinf(), torch.maximum(ahead, s.radius), least)
        inner = torch.minimum(s.radius, known) * (1 - rate)
        radius = torch.where(hit, inner, torch.minimum(s.radius * (1 + rate), known))
        radius = torch.where(least.isinf(), known * (1 + rate), radius)
        pace = stride * torch.minimum(known, far)
        there = aim.shortened(moved + pace[:, None] * _ways(aim, slope), radius)
        return Ball(within(aim.x + there, aim.low, aim.high), radius, s.part + 1 / steps)

    z = (aim.ledger.best if begin is None else begin).clone()
    repeat(step, Ball(z, length(z - aim.x, aim.norm), z.new_zeros(())), steps)


def _ways(aim: Aim, slope: Tensor) -> Tensor:
    """Directions (n, d), of length 1 where all pixels go as far. In the maximum norm all do so to leave a label; on the
    longer way to a target pixels go by their slopes, and what matters little stays where it is."""
    if aim.norm == "linf" and aim.targets is None:
        return slope.sign()
    spread = math.sqrt(slope.shape[1]) if aim.norm == "linf" else 1.0
    ways: Tensor = spread * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-20)
    return ways
