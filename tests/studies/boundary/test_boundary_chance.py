"""Draws and shuffles, against answers known otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from foible.studies.boundary.chance import (
    Effect,
    above_nothing,
    differ,
    main_effect,
    mean_interval,
    rank_correlation,
    times,
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


def test_a_two_way_table_is_shuffled_within_columns() -> None:
    rows = np.array([[1.0, 1.1, 1.2], [5.0, 5.1, 5.2], [9.0, 9.1, 9.2]])
    assert main_effect(rows) == pytest.approx(6 / 216)  # the same order in all three columns, whichever it is
    assert main_effect(rows.T) > 0.02  # columns hardly differ, but always in one direction
    assert main_effect(np.ones((3, 3))) == 1.0
    assert math.isnan(main_effect(np.ones((1, 3))))
