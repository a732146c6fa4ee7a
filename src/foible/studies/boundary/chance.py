"""How sure a figure is: images drawn again (bootstrap), and labels shuffled (permutation). No loop over draws.

Images along one walk are alike: where there are walks, whole walks are drawn, so that intervals are not too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from foible.studies.boundary.types import Floats, Ints

DRAWS = 1000
SHUFFLES = 9999
MOST_EXACT = 50_000  # orders of a table that are all tried


class Effect(NamedTuple):
    """An effect with its 95 % interval; p: how likely chance alone gives one as large, in the direction of the claim;
    against: the same in the other direction. (They sum to more than 1 where chance often gives the same.)"""

    effect: float
    low: float
    high: float
    p: float
    n: int
    against: float = math.nan


def verdict(found: Effect, level: float = 0.05) -> str:
    """In words, of a claim with a direction."""
    if not math.isfinite(found.p):
        return "cannot be told"
    return "holds" if found.p < level else "the opposite holds" if found.against < level else "not decided"


def times(groups: Ints, seed: int, draws: int = DRAWS) -> Floats:
    """(draws, images): how often each image occurs where as many groups as there are are drawn with replacement.

    groups: (images,) numbers; images of one number are drawn together.
    """
    known, place = np.unique(groups, return_inverse=True)
    many = len(known)
    drawn = np.random.default_rng([seed, many]).multinomial(many, np.full(many, 1 / many), draws)
    return drawn.astype(np.float64)[:, place]


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % interval of what the draws gave; NaN where none gave a number."""
    sound = values[np.isfinite(values)]
    low, high = np.quantile(sound, (0.025, 0.975)) if len(sound) else (math.nan, math.nan)
    return float(low), float(high)


def mean_interval(values: Floats, drawn: Floats) -> tuple[float, float]:
    """Of the mean of values (images,). drawn: as `times` gives it."""
    return interval(drawn @ values / drawn.sum(1))


def rank_correlation(one: Floats, other: Floats, drawn: Floats) -> Effect:
    """Spearman's, of values (images,); p is two-sided here, by the draws."""
    found = float(_ranked(one, other, np.ones((1, len(one))))[0])
    again = _ranked(one, other, drawn)
    sound = again[np.isfinite(again)]
    if not math.isfinite(found) or not len(sound):
        return Effect(math.nan, math.nan, math.nan, math.nan, len(one))
    side = min(float((sound <= 0).mean()), float((sound >= 0).mean()))
    return Effect(found, *interval(again), min(1.0, 2 * max(side, 1 / (len(sound) + 1))), len(one))


def _ranked(one: Floats, other: Floats, drawn: Floats) -> Floats:
    """(draws,) correlation of ranks, each image counted as often as it was drawn."""
    total = drawn.sum(1, keepdims=True)
    apart = []
    for values in (one, other):
        rank = _ranks(values, drawn)
        apart.append(rank - (drawn * rank).sum(1, keepdims=True) / total)
    first, second = apart
    spread = np.sqrt((drawn * first**2).sum(1) * (drawn * second**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 1e-9, (drawn * first * second).sum(1) / spread, np.nan)


def _ranks(values: Floats, drawn: Floats) -> Floats:
    """(draws, images) mid-ranks among what was drawn."""
    known, place = np.unique(values, return_inverse=True)
    each = drawn @ np.eye(len(known))[place]  # (draws, distinct values)
    return np.asarray((each.cumsum(1) - each / 2)[:, place])


def above_nothing(values: Sequence[float] | Floats, sign: int) -> Effect:
    """Whether values, one a repeat, are above nothing (sign 1) or below it (-1): their signs are flipped at random, all
    ways where there are few. The interval is Student's."""
    from scipy.stats import t

    seen = np.asarray(values, np.float64)
    seen = seen[np.isfinite(seen)]
    n = len(seen)
    if n < 2:
        return Effect(float(seen.mean()) if n else math.nan, math.nan, math.nan, math.nan, n)
    if n <= 12:
        signs = np.array(list(product((1, -1), repeat=n)))
    else:
        signs = np.random.default_rng(n).choice((1, -1), (SHUFFLES, n))
        signs[0] = 1
    mean = float(seen.mean())
    flipped = signs @ seen / n
    p, against = (float((side * flipped >= side * mean - 1e-12).mean()) for side in (sign, -sign))
    half = float(t.ppf(0.975, n - 1)) * float(seen.std(ddof=1)) / math.sqrt(n)
    return Effect(mean, mean - half, mean + half, p, n, against)


def over_images(values: Floats, drawn: Floats, sign: int) -> Effect:
    """Whether the mean of values, one an image, is above nothing (sign 1) or below it (-1), by images drawn again."""
    again = drawn @ values / drawn.sum(1)
    p, against = (max(float((side * again <= 0).mean()), 1 / (len(again) + 1)) for side in (sign, -sign))
    return Effect(float(values.mean()), *interval(again), p, len(values), against)


def differ(one: Floats, other: Floats, sign: int) -> Effect:
    """Whether the mean of `one` lies above (sign 1) or below (-1) that of `other`: who is whose is shuffled. The
    interval of the difference is Welch's."""
    from scipy.stats import t

    a, b = len(one), len(other)
    if a < 2 or b < 2:
        gap = float(one.mean() - other.mean()) if a and b else math.nan
        return Effect(gap, math.nan, math.nan, math.nan, a + b)
    gap, both = float(one.mean() - other.mean()), np.concatenate([one, other])
    order = np.random.default_rng([a, b]).random((SHUFFLES, a + b)).argsort(1)
    first = both[order[:, :a]].sum(1)
    shuffled = first / a - (both.sum() - first) / b
    p, against = ((1 + float((side * shuffled >= side * gap - 1e-12).sum())) / (SHUFFLES + 1) for side in (sign, -sign))
    parts = float(one.var(ddof=1)) / a, float(other.var(ddof=1)) / b
    error = sum(parts)
    if error <= 0:
        return Effect(gap, gap, gap, p, a + b, against)
    freedom = error**2 / (parts[0] ** 2 / (a - 1) + parts[1] ** 2 / (b - 1))
    half = float(t.ppf(0.975, freedom)) * math.sqrt(error)
    return Effect(gap, gap - half, gap + half, p, a + b, against)


def main_effect(table: Floats) -> float:
    """How likely rows of a two-way table (rows, columns) differ as much by chance: the values of each column are put
    into every order. NaN for a table of one row, or of too many orders."""
    rows, columns = table.shape
    if rows < 2 or math.factorial(rows) ** columns > MOST_EXACT:
        return math.nan
    orders = np.array(list(permutations(range(rows))))  # (orders, rows)
    shuffled = table.T[:, orders]  # (columns, orders, rows)
    chosen = np.array(list(product(range(len(orders)), repeat=columns)))
    means = sum(shuffled[column][chosen[:, column]] for column in range(columns)) / columns  # (ways, rows)
    spread = np.var(means, axis=1)
    return float((spread >= float(table.mean(1).var()) - 1e-12).mean())
