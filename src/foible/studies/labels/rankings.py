"""Ways to rank images that all networks call otherwise than their label, and how well each puts wrong labels first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foible.recipes.compare.against import Floats
from foible.recipes.compare.ranked import Against

OURS = "our score"
DRAWS = 2000  # of the bootstrap

Bools = NDArray[np.bool_]


def rankings(found: Against, scores: Floats) -> dict[str, Floats]:
    """By name, (n,) values, the highest to be looked at first. scores: our own.

    Confident learning's are of the networks' mean probabilities (Northcutt et al. 2021): all networks say the same, so
    that the most likely other class is the one they say.
    """
    sure, given = found.confidence.mean(0), found.given.mean(0)
    return {
        OURS: scores,
        "summed confidence": found.confidence.sum(0),
        "normalised margin (confident learning)": sure - given,
        "self-confidence (confident learning)": -given,
    }


def first(values: Floats, wrong: Bools, count: int) -> int:
    """How many of the first `count` are wrong labels."""
    return int(wrong[np.argsort(-values, kind="stable")[:count]].sum())


def auc(values: Floats, wrong: Bools) -> float:
    """How likely a wrong label ranks above a right one (the area under the ROC curve); NaN without one of either."""
    return float(_above(values, wrong).mean()) if 0 < wrong.sum() < len(wrong) else float("nan")


def auc_intervals(ranked: dict[str, Floats], wrong: Bools, seed: int) -> dict[str, tuple[float, float, float, float]]:
    """By name, 95 % intervals of the area, and of its difference from that of our score: (low, high, low, high).

    A bootstrap over images, wrong and right ones each drawn anew; the same draws for every ranking.
    """
    many, others = int(wrong.sum()), int((~wrong).sum())
    if not many or not others:
        return dict.fromkeys(ranked, (np.nan, np.nan, np.nan, np.nan))
    draw = np.random.default_rng(seed)
    times = [draw.multinomial(count, np.full(count, 1 / count), DRAWS) for count in (many, others)]
    areas = {
        name: ((times[0] @ _above(values, wrong)) * times[1]).sum(1) / (many * others)
        for name, values in ranked.items()
    }
    found = {}
    for name, some in areas.items():
        low, high = np.quantile(some, (0.025, 0.975))
        least, greatest = np.quantile(some - areas[OURS], (0.025, 0.975))
        found[name] = (float(low), float(high), float(least), float(greatest))
    return found


def _above(values: Floats, wrong: Bools) -> Floats:
    """(wrong labels, right ones): 1 where the first ranks above the second, ½ where they are equal."""
    one, other = values[wrong][:, None], values[~wrong]
    return np.asarray((one > other) + 0.5 * (one == other), np.float64)
