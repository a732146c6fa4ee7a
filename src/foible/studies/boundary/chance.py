"""How sure a figure is: images drawn again (bootstrap), and labels shuffled (permutation). No loop over draws.

Images along one walk are alike: where there are walks, whole walks are drawn, so that intervals are not too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from foible.studies.boundary.types import Floats, Ints

DRAWS = 1000
SHUFFLES = 9999


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


class Parts(NamedTuple):
    """What values of a two-way table differ by: (share of their variance, p) of its rows, its columns, and of both
    together: what neither does alone."""

    rows: tuple[float, float]
    columns: tuple[float, float]
    together: tuple[float, float]


def two_way(values: Floats) -> Parts:
    """values: (rows, columns, n), of each cell as many. p by shuffles: of rows, among the rows of each column; of
    columns, among the columns of each row; of both together, of all that is left once the means of rows and columns are
    taken away. NaN where there is nothing to shuffle: in a table of one row, and for both together of one value a cell.
    """
    whole = float(((values - values.mean()) ** 2).sum())

    def part(size: Floats, shuffled: Floats, able: bool) -> tuple[float, float]:
        if not able or whole <= 0:
            return (float(size) / whole if whole > 0 else math.nan), (math.nan if not able else 1.0)
        return float(size) / whole, (1 + float((shuffled >= size - 1e-9 * whole).sum())) / (SHUFFLES + 1)

    rows, columns, n = values.shape
    left = values - values.mean((1, 2), keepdims=True) - values.mean((0, 2), keepdims=True) + values.mean()
    return Parts(
        part(_by_row(values), _by_row(_shuffled(values)), rows > 1),
        part(_by_row(values.swapaxes(0, 1)), _by_row(_shuffled(values.swapaxes(0, 1))), columns > 1),
        part(_together(left), _together(_shuffled(left.reshape(-1, 1, n)).reshape(-1, *left.shape)),
             min(rows, columns, n) > 1),
    )  # fmt: skip


def _shuffled(values: Floats) -> Floats:
    """(SHUFFLES, rows, columns, n): the values of each column, shuffled among its rows."""
    rows, columns, n = values.shape
    each = values.swapaxes(0, 1).reshape(columns, rows * n)
    order = np.random.default_rng([rows, columns, n]).random((SHUFFLES, *each.shape)).argsort(2)
    return np.take_along_axis(each[None], order, 2).reshape(SHUFFLES, columns, rows, n).swapaxes(1, 2)


def _by_row(values: Floats) -> Floats:
    """(…): how far the means of rows lie apart, as a sum of squares. values: (…, rows, columns, n)."""
    many = values.shape[-2] * values.shape[-1]
    return np.asarray(many * ((values.mean((-2, -1)) - values.mean((-3, -2, -1))[..., None]) ** 2).sum(-1))


def _together(values: Floats) -> Floats:
    """(…): how far the means of cells lie from what their row and their column say, as a sum of squares."""
    cells = values.mean(-1)
    apart = cells - cells.mean(-1, keepdims=True) - cells.mean(-2, keepdims=True) + cells.mean((-2, -1), keepdims=True)
    return np.asarray(values.shape[-1] * (apart**2).sum((-2, -1)))
