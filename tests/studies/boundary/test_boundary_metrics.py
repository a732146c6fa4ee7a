"""What each network is worth by several measures, by hand and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from foible.studies.boundary import metrics
from foible.studies.boundary.chance import times
from foible.studies.boundary.metrics import Measured
from foible.studies.boundary.types import opinion


def test_calibration_error_by_hand() -> None:
    right = np.array([True, False, True, True])
    sure = np.array([0.95, 0.95, 0.55, 0.55])
    found = metrics.calibration(right, sure, times(np.arange(4), 0))
    # two bins: |0.5 − 0.95| and |1 − 0.55|, half of the images each
    assert found.value == pytest.approx(45.0)
    assert found.low <= found.value <= found.high
    assert metrics.calibration(np.ones(3, bool), np.ones(3), times(np.arange(3), 0)).value == 0


def test_kappa_is_cohens() -> None:
    draw = np.random.default_rng(0)
    one = draw.integers(0, 4, 300)
    other = np.where(draw.random(300) < 0.5, one, draw.integers(0, 4, 300))
    found = metrics.kappa(one, other, times(np.arange(300), 0))
    assert found.value == pytest.approx(cohen_kappa_score(one, other))
    assert found.low < found.value < found.high
    assert np.isnan(metrics.kappa(np.ones(4, int), np.ones(4, int), times(np.arange(4), 0)).value)


def test_types_of_a_network_and_another() -> None:
    said = np.array([[0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]])
    counts = np.array([[2, 0], [2, 0], [1, 1], [1, 1]])  # people agree on the first two
    first, second, third = metrics.against_others(said, opinion(counts), times(np.arange(4), 0))
    assert first["a"].value == pytest.approx(25.0)  # both others contradict it on the second image
    assert second["a"].value == pytest.approx(12.5)
    assert first["c"].value == pytest.approx(100 * (0.5 + 1) / 4)
    assert third["c"].value == pytest.approx(100 * (0 + 1) / 4)
    alone = metrics.against_others(said, None, times(np.arange(4), 0))
    assert alone[0]["apart"].value == pytest.approx(100 * (0 + 1 + 0.5 + 0) / 4)


def _networks(many: int, seed: int = 0) -> dict[str, dict[str, Measured]]:
    draw = np.random.default_rng(seed)
    return {
        f"N{number}": {
            "accuracy": Measured(float(draw.random()), 0, 1, 9), "calibration": Measured(-float(number), 0, 1, 9),
            "hunt": Measured(float(number), 0, 1, 9),
        }
        for number in range(many)
    }  # fmt: skip


def test_which_measure_foretells_the_hunt() -> None:
    rows, words = metrics.foretells(_networks(12), 0)
    measured = {row.quantity: row.measured for row in rows}
    assert measured["calibration error (15 bins)"] == pytest.approx(-1.0)
    assert "calibration error" in words
    assert "over 12 networks of 12 trainings, 1 of them without a find" in words
    assert all(row.low is not None for row in rows)
    some, few = metrics.foretells(_networks(4), 0)
    assert all(row.low is None for row in some)
    assert "4 trainings are too few" in few
    twice = {f"{target} %, {name}": one for target in (97, 98) for name, one in _networks(4).items()}
    assert "over 8 networks of 4 trainings" in metrics.foretells(twice, 0)[1]
    nothing, none = metrics.foretells(_networks(2), 0)
    assert not nothing
    assert "at least three" in none
