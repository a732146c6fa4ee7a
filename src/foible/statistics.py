"""Two networks on the same images: how much worse is the new one, and how sure is that?

Each image is a pair of answers. Only the images that changed sides tell the networks apart: `broken` (the old one was
right, the new one is wrong) and `fixed` (the other way round).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Literal

Verdict = Literal["pass", "fail", "inconclusive"]


def mcnemar(broken: int, fixed: int) -> float:
    """McNemar's exact two-sided p: how likely so uneven a split is, were either side as likely as the other."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(broken, fixed), broken + fixed, 0.5)))


def paired(broken: int, fixed: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of (broken − fixed) / n, the difference of two paired shares, by Tango's score.

    T. Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample design,
    Statistics in Medicine 17 (1998): the differences Δ that a score test of size 1 − `confidence` does not refuse.
    It holds its level for few images and for no flips at all, where broken ± fixed / n would claim to be certain.
    """
    if not n:
        return -1.0, 1.0
    z = NormalDist().inv_cdf(1 - (1 - confidence) / 2)
    middle = (broken - fixed) / n
    # The score falls from above z to below −z as Δ grows: each limit is the one place where it crosses.
    return _crossing(broken, fixed, n, z, -1.0, middle), _crossing(broken, fixed, n, -z, middle, 1.0)


def _crossing(broken: int, fixed: int, n: int, level: float, below: float, above: float) -> float:
    for _ in range(60):
        half = (below + above) / 2
        if _score(broken, fixed, n, half) > level:
            below = half
        else:
            above = half
    return (below + above) / 2


def _score(broken: int, fixed: int, n: int, difference: float) -> float:
    """How many standard errors the counts lie above `difference`; q is the likeliest share of `fixed` given it."""
    linear = (2 * n - broken + fixed) * difference - broken - fixed
    constant = -fixed * difference * (1 - difference)
    q = (math.sqrt(max(0.0, linear * linear - 8 * n * constant)) - linear) / (4 * n)
    variance = n * (2 * q + difference * (1 - difference))
    gap = broken - fixed - n * difference
    return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap)


def verdict(low: float, high: float, tolerance: float) -> Verdict:
    """What an interval of "how much worse" says beside what is tolerated, in the same unit."""
    if low > tolerance:
        return "fail"
    return "pass" if high <= tolerance else "inconclusive"


def wilson(successes: int, trials: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson's score."""
    if not trials:
        return 0.0, 1.0
    share, spread = successes / trials, z * z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    return middle - half if successes else 0.0, middle + half if successes < trials else 1.0
