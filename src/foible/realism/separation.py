"""How well scores tell two kinds of image apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.errors import UserError

Z = 1.959964


@dataclass(frozen=True)
class Separation:
    """The chance that one of the first kind scores above one of the second (ties count half), with a 95 % interval."""

    auc: float
    low: float
    high: float
    n: tuple[int, int]


def separation(ours: Tensor, theirs: Tensor) -> Separation:
    """The area under the curve of scores (n,) against scores (m,): 1 where every one of `ours` is the higher.

    Interval: Newcombe, Confidence intervals for an effect size measure based on the Mann-Whitney statistic, Part 2,
    Statistics in Medicine 25 (2006), method 5; it is not empty where the two do not overlap.
    """
    n, m = len(ours), len(theirs)
    if not n or not m:
        raise UserError(f"{n} scores against {m}: expected at least one of each")
    placed = theirs.double().sort().values
    below = torch.searchsorted(placed, ours.double(), side="left") + torch.searchsorted(
        placed, ours.double(), side="right"
    )
    auc = float(below.double().mean()) / (2 * m)

    def surprise(value: float) -> float:
        """How many standard errors the area lies above `value`, were that the true one."""
        more = (n + m) / 2 - 1
        spread = value * (1 - value) * (1 + more * (1 - value) / (2 - value) + more * value / (1 + value)) / (n * m)
        return (auc - value) / math.sqrt(spread)

    return Separation(auc, _crossing(surprise, Z, 0.0, auc), _crossing(surprise, -Z, auc, 1.0), (n, m))


def _crossing(surprise: Callable[[float], float], level: float, below: float, above: float) -> float:
    for _ in range(60):
        half = (below + above) / 2
        if half in (0.0, 1.0) or half in (below, above):
            break
        below, above = (half, above) if surprise(half) > level else (below, half)
    return (below + above) / 2
