"""Paired shares: against published examples, closed forms, scipy, and the level that an interval promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from foible.statistics import mcnemar, paired, verdict


@pytest.mark.parametrize(
    ("broken", "fixed", "n", "low", "high", "digit"),
    [
        # Fagerland, Lydersen & Laake, Statistical Analysis of Contingency Tables, ch. 8
        (6, 16, 161, -0.1240, -0.0054, 1e-4),  # response before and after therapy (Cavo et al. 2012)
        (1, 7, 21, -0.517, -0.026, 1e-3),  # airways before and after transplantation (Bentur et al. 2009)
    ],
)
def test_published_intervals(broken: int, fixed: int, n: int, low: float, high: float, digit: float) -> None:
    assert paired(broken, fixed, n) == pytest.approx((low, high), abs=digit / 2)


def test_published_p() -> None:
    assert mcnemar(6, 16) == pytest.approx(0.052479, abs=1e-6)
    assert mcnemar(1, 7) == pytest.approx(2 * 9 / 256)


@pytest.mark.parametrize(("broken", "fixed"), [(0, 0), (5, 5), (0, 9), (30, 11), (4000, 4200)])
def test_mcnemar_is_the_exact_binomial_test(broken: int, fixed: int) -> None:
    expected = binomtest(broken, broken + fixed).pvalue if broken + fixed else 1.0
    assert mcnemar(broken, fixed) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(fixed, broken) == mcnemar(broken, fixed)


@pytest.mark.parametrize("n", [1, 20, 5000])
def test_no_flips_are_not_certainty(n: int) -> None:
    """Without flips the score interval has a closed form: ± z² / (n + z²)."""
    z2 = 1.959963984540054**2
    assert paired(0, 0, n) == pytest.approx((-z2 / (n + z2), z2 / (n + z2)), abs=1e-9)


def test_it_is_the_same_seen_from_the_other_side() -> None:
    low, high = paired(12, 5, 80, 0.99)
    assert paired(5, 12, 80, 0.99) == pytest.approx((-high, -low))
    assert low < (12 - 5) / 80 < high
    assert paired(12, 5, 80)[0] > low, "less confidence is a shorter interval"


@pytest.mark.parametrize(("broken", "fixed", "n"), [(7, 0, 7), (0, 7, 7), (1, 0, 1), (0, 0, 0)])
def test_the_ends(broken: int, fixed: int, n: int) -> None:
    low, high = paired(broken, fixed, n)
    assert -1 <= low < high <= 1
    if n:
        assert low <= (broken - fixed) / n <= high


def test_it_is_a_score_interval_where_the_networks_share_nothing() -> None:
    """Large samples: the limits meet the plain standard error."""
    broken, fixed, n = 30_000, 20_000, 1_000_000
    error = 1.959964 * math.sqrt(broken + fixed - (broken - fixed) ** 2 / n) / n
    assert paired(broken, fixed, n) == pytest.approx((0.01 - error, 0.01 + error), abs=1e-6)


@pytest.mark.parametrize(("p", "q"), [(0.02, 0.02), (0.3, 0.1), (0.05, 0.25)])
def test_it_covers_as_often_as_it_says(p: float, q: float) -> None:
    """Exact coverage at n = 50: over all tables, weighed by their probability."""
    n, covered = 50, 0.0
    flips = binom.pmf(np.arange(n + 1), n, p + q)
    for changed in range(n + 1):
        if flips[changed] < 1e-9:
            continue
        split = binom.pmf(np.arange(changed + 1), changed, p / (p + q))
        for broken in np.flatnonzero(split > 1e-9).tolist():
            low, high = paired(broken, changed - broken, n)
            covered += flips[changed] * split[broken] * (low <= p - q <= high)
    assert 0.93 <= covered <= 0.99


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.02, 0.05, "pass"),
        (-0.02, 0.0501, "inconclusive"),
        (0.05, 0.2, "inconclusive"),
        (0.0501, 0.2, "fail"),
        (-0.3, -0.1, "pass"),
    ],
)
def test_the_three_verdicts(low: float, high: float, expected: str) -> None:
    assert verdict(low, high, 0.05) == expected
