"""Odds ratios against hand values, scipy, and the cases that break a naive formula."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from foible.odds import holm, odds_ratio, ratio_of_ratios


def test_a_table_worked_by_hand() -> None:
    """30 of 100 against 10 of 100: (30/70) / (10/90) = 27/7, log error √(1/30 + 1/70 + 1/10 + 1/90)."""
    odds = odds_ratio(30, 70, 10, 90)
    error = math.sqrt(1 / 30 + 1 / 70 + 1 / 10 + 1 / 90)
    assert odds.ratio == pytest.approx(27 / 7)
    assert odds.low == pytest.approx(27 / 7 * math.exp(-1.959964 * error))
    assert odds.high == pytest.approx(27 / 7 * math.exp(1.959964 * error))
    assert str(odds) == "3.9 (1.8–8.4)"


def test_against_scipy() -> None:
    for table in ((30, 70, 10, 90), (5, 5, 5, 5), (1, 9, 40, 3)):
        odds = odds_ratio(*table)
        rows = [list(table[:2]), list(table[2:])]
        known = stats.contingency.odds_ratio(rows, kind="sample")
        assert odds.ratio == pytest.approx(known.statistic)
        assert (odds.low, odds.high) == pytest.approx(tuple(known.confidence_interval(0.95)), rel=1e-5)
        assert odds.p == pytest.approx(stats.fisher_exact(rows).pvalue)


def test_an_empty_cell_stays_finite() -> None:
    odds = odds_ratio(10, 0, 5, 5)
    assert odds.ratio == pytest.approx(10.5 * 5.5 / (0.5 * 5.5))
    assert math.isfinite(odds.high)
    nothing = odds_ratio(0, 0, 0, 0)
    assert (nothing.ratio, nothing.p) == (1.0, 1.0)
    assert nothing.low < 0.1 < 10 < nothing.high


def test_a_ratio_of_ratios() -> None:
    same = ratio_of_ratios((30, 70, 10, 90), (60, 140, 20, 180))
    assert same.ratio == pytest.approx(1)
    assert same.p == pytest.approx(1)
    more = ratio_of_ratios((30, 70, 10, 90), (20, 80, 20, 80))
    assert more.ratio == pytest.approx(27 / 7)
    error = math.sqrt(1 / 30 + 1 / 70 + 1 / 10 + 1 / 90 + 2 / 20 + 2 / 80)
    assert more.p == pytest.approx(2 * stats.norm.sf(math.log(27 / 7) / error))
    assert more.low == pytest.approx(27 / 7 * math.exp(-1.959964 * error))


def test_holm() -> None:
    """Holm 1979: times 3, 2 and 1, never below the one before, never above 1."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []
