"""Draws and shuffles, against answers known otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import f, spearmanr

from foible.studies.boundary.chance import (
    Effect,
    above_nothing,
    differ,
    mean_interval,
    rank_correlation,
    times,
    two_way,
    verdict,
)


def test_images_of_one_walk_are_drawn_together() -> None:
    drawn = times(np.array([7, 7, 3, 3, 3]), seed=1, draws=200)
    assert drawn.shape == (200, 5)
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (drawn[:, 2] == drawn[:, 4]).all()
    assert (drawn[:, 0] + drawn[:, 2] == 2).all()  # two walks, drawn twice
    assert (times(np.arange(5), 1) == times(np.arange(5), 1)).all()


def test_the_interval_of_a_mean_is_as_wide_as_theory_says() -> None:
    values = np.random.default_rng(0).random(400)
    low, high = mean_interval(values, times(np.arange(400), 0))
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_rank_correlation_is_spearmans_also_with_ties() -> None:
    draw = np.random.default_rng(0)
    one = draw.integers(0, 6, 60).astype(float)
    other = one + draw.normal(0, 2, 60)
    found = rank_correlation(one, other, times(np.arange(60), 0))
    assert found.effect == pytest.approx(spearmanr(one, other).statistic)
    assert found.low < found.effect < found.high
    assert found.p < 0.05
    none = rank_correlation(draw.random(60), draw.random(60), times(np.arange(60), 0))
    assert none.low < 0 < none.high
    assert none.p > 0.05
    assert math.isnan(rank_correlation(np.ones(9), draw.random(9), times(np.arange(9), 0)).effect)


def test_drawing_an_image_twice_is_having_it_twice() -> None:
    one, other = np.array([1.0, 2.0, 3.0, 5.0]), np.array([2.0, 1.0, 4.0, 3.0])
    many = np.array([[2.0, 1.0, 0.0, 3.0]])
    spelt = [0, 0, 1, 3, 3, 3]
    found = rank_correlation(one, other, many)
    assert found.low == pytest.approx(spearmanr(one[spelt], other[spelt]).statistic)


def test_signs_and_shuffles_give_their_exact_p() -> None:
    found = above_nothing([-1.0, -2.0, -3.0, -1.5, -0.5], -1)
    assert found.p == pytest.approx(1 / 32)  # of 2⁵ ways to give signs, one is as far below
    assert verdict(found) == "holds"
    assert verdict(above_nothing([1.0, 2.0, 3.0, 1.5, 0.5], -1)) == "the opposite holds"
    assert verdict(above_nothing([-1.0, -2.0], -1)) == "not decided"  # two repeats cannot tell
    assert verdict(above_nothing([-1.0], -1)) == "cannot be told"
    low = differ(np.arange(5.0), 10 + np.arange(5.0), -1)
    assert low.effect == -10
    assert low.high < 0
    assert low.p == pytest.approx(1 / 252, abs=0.003)  # of 10 over 5 ways, one is as far apart
    assert verdict(Effect(1.0, 0.0, 2.0, 0.5, 4)) == "not decided"


def test_a_two_way_table_is_shuffled_within_columns_and_rows() -> None:
    rows = np.array([[1.0, 1.1, 1.2], [5.0, 5.1, 5.2], [9.0, 9.1, 9.2]])[..., None]
    found = two_way(rows)
    assert found.rows[0] == pytest.approx(96 / 96.06)  # 3 · (16 + 0 + 16) of all squares, the rest 3 · 0.02
    assert found.rows[1] == pytest.approx(6 / 216, abs=0.005)  # the same order in all three columns, whichever it is
    assert found.columns[0] == pytest.approx(0.06 / 96.06)
    assert found.columns[1] == pytest.approx(6 / 216, abs=0.005)  # hardly differ, but always in one direction
    assert math.isnan(found.together[1])  # one value a cell
    assert two_way(np.ones((3, 3, 1))).rows[1] == 1.0
    assert math.isnan(two_way(np.arange(3.0).reshape(1, 3, 1)).rows[1])


def test_shares_of_a_two_way_table_are_those_of_an_analysis_of_variance() -> None:
    draw = np.random.default_rng(3)
    values = draw.normal(0, 1, (3, 2, 8)) + np.array([0.0, 1.0, 5.0])[:, None, None]
    found = two_way(values)
    whole = ((values - values.mean()) ** 2).sum()
    within = ((values - values.mean(2, keepdims=True)) ** 2).sum()
    assert sum(share for share, _ in found) == pytest.approx(1 - within / whole)
    # F of both together, as scipy has it for the same squares: shuffles agree with theory.
    ratio = (found.together[0] * whole / 2) / (within / 42)
    assert found.together[1] == pytest.approx(f.sf(ratio, 2, 42), abs=0.03)
    assert found.rows[1] < 0.001
    assert found.columns[1] > 0.05
    values[2, 1] += 4.0  # one cell alone
    assert two_way(values).together[1] < 0.001
