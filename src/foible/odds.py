"""Odds ratios of two-by-two tables: how much more often here than there, and how sure is that?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Table = tuple[int, int, int, int]  # with and without it here, with and without it there
Z = 1.959964  # of a 95 % interval


@dataclass(frozen=True)
class Odds:
    """An odds ratio with its 95 % interval, and how likely so large or small a one is by chance."""

    ratio: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{_short(self.ratio)} ({_short(self.low)}–{_short(self.high)})"


def odds_ratio(a: int, b: int, c: int, d: int) -> Odds:
    """(a / b) / (c / d) with Woolf's interval; 0.5 is added to all four where one is 0 (Haldane, Anscombe). The p is
    Fisher's exact one, two-sided."""
    from scipy.stats import fisher_exact

    _, p = fisher_exact([[a, b], [c, d]])
    return _odds(*_log_odds((a, b, c, d)), float(p))


def ratio_of_ratios(here: Table, there: Table) -> Odds:
    """The odds ratio of one table by that of another one that shares no count with it: is it larger here than there?

    Intervals by Woolf; the p is that of the normal distribution, two-sided.
    """
    (log, error), (log_there, error_there) = _log_odds(here), _log_odds(there)
    difference, spread = log - log_there, math.hypot(error, error_there)
    return _odds(difference, spread, math.erfc(abs(difference) / spread / math.sqrt(2)))


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of p values: the chance of any false claim in the family stays below each."""
    adjusted, worst = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=lambda i: values[i])):
        worst = max(worst, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = worst
    return adjusted


def _odds(log: float, error: float, p: float) -> Odds:
    return Odds(math.exp(log), math.exp(log - Z * error), math.exp(log + Z * error), p)


def _log_odds(table: Table) -> tuple[float, float]:
    """The logarithm of an odds ratio and its standard error."""
    a, b, c, d = (count + (0.5 if 0 in table else 0) for count in table)
    return math.log(a * d / (b * c)), math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.1 else f"{value:.2g}"
