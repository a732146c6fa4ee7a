"""Where a walk flips, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from foible.studies.boundary.sharpness import SURE, crossing, of_networks, of_people, walks

ALPHA = np.linspace(0, 1, 5)


def test_a_crossing_lies_on_the_straight_line_between_two_steps() -> None:
    values = np.array([[3.0, 1.0, -1.0, -3.0, -3.0], [1.0, 1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, 0.0, 0.0],
                       [2.0, -1.0, 2.0, -1.0, -1.0], [1.0, np.nan, -1.0, -1.0, -1.0]])  # fmt: skip
    found = crossing(values, ALPHA, 0.0)
    assert found[0] == pytest.approx(0.375)
    assert np.isnan(found[[1, 2, 4]]).all()  # never; begins below; a step that is no number
    assert found[3] == pytest.approx(0.25 * 2 / 3)  # the first of two


def test_networks_flip_where_the_logits_of_both_ends_are_equal() -> None:
    order = np.array([4, 3, 2, 1, 0, 5, 6, 7, 8, 9])  # images are not in the order of their walk
    pair, ends = np.repeat([0, 1], 5), np.array([[0, 1]] * 5 + [[2, 0]] * 5)
    alpha = np.tile(ALPHA, 2)
    them = walks(pair[order], ends[order], alpha[order])
    assert them.ends.tolist() == [[0, 1], [2, 0]]
    logits = np.zeros((1, 10, 3))
    logits[0, :5, 0], logits[0, :5, 1] = 10 - 20 * ALPHA, 0  # d from 10 to −10
    logits[0, 5:, 2], logits[0, 5:, 0] = 8 * (0.25 - ALPHA), 1 * (ALPHA - 0.25)
    sharp = of_networks(logits[:, order], them)
    assert sharp.flip[0].tolist() == pytest.approx([0.5, 0.25])
    assert sharp.width[0, 0] == pytest.approx(2 * SURE / 20)


def test_people_flip_where_half_of_them_do() -> None:
    them = walks(np.zeros(5, int), np.array([[0, 1]] * 5), ALPHA)
    counts = np.array([[10, 0, 0], [10, 0, 0], [6, 2, 2], [0, 10, 0], [0, 9, 1]])
    sharp = of_people(counts, them)
    assert sharp.flip[0] == pytest.approx(0.5 + 0.25 * (0.75 - 0.5) / 0.75)
    assert sharp.width[0] == pytest.approx((0.5 + 0.25 * 0.65 / 0.75) - (0.25 + 0.25 * 0.1 / 0.25))
    nobody = of_people(np.zeros((5, 3), int), them)
    assert np.isnan(nobody.flip).all()
