"""A gate's figure when versions had a say in which images there are: two simulated versions of known accuracies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gate_cases import CLASSES, compared, tables

from foible.recipes.gate.checks import Check, measure
from foible.recipes.gate.suite_gate import DRAWN_IMAGES, gate
from foible.recipes.suite.choosing import Candidate, FrozenRun, place_digest, spread
from foible.recipes.suite.suite import make_suite

IMAGES, EACH, DATA_SETS = 900, 100, 300
OLD_ERROR, NEW_ERROR = 0.08, 0.12  # of independent versions: four points


def _said(labels: list[int], wrong: np.ndarray) -> list[int]:
    return [(label + bool(miss)) % len(CLASSES) for label, miss in zip(labels, wrong, strict=True)]


def test_a_version_that_is_worse_is_not_called_better_for_what_was_chosen(tmp_path: Path) -> None:
    """600 images: NEW breaks 24 and fixes 21, so it is 0.5 points worse, whatever the images that these two chose
    look like."""
    labels = [k % 3 for k in range(600)]
    place = np.random.default_rng(0).permutation(600)
    old, new = (np.isin(np.arange(600), place[some]) for some in (slice(0, 21), slice(21, 45)))
    said = {"old": _said(labels, old), "new": _said(labels, new)}
    make_suite([compared(tmp_path, labels, **said)], tmp_path / "suite", per_class=200)
    gated = gate(tmp_path / "suite", tables(old=said["old"], new=said["new"]), quiet=True)
    (decided,) = gated.of("overall")
    assert (decided.name, decided.n) == (DRAWN_IMAGES, 600)
    assert decided.points == pytest.approx(0.5)
    assert gated.verdict == "pass"
    assert all(check.points is None for check in gated.of("tag")), "no figure for what OLD and NEW chose"
    small = make_suite([tmp_path / "run"], tmp_path / "small", per_class=50)
    assert small["tags"]["drawn"] == 150
    (decided,) = gate(tmp_path / "small", tables(old=said["old"], new=said["new"]), quiet=True).of("overall")
    assert decided.low is not None
    assert decided.high is not None
    assert decided.low <= 0.5 <= decided.high


@pytest.fixture(scope="module")
def checks() -> list[Check]:
    """The deciding check of a gate over each of many data sets, at a tolerance that is just what NEW lost."""
    source = FrozenRun(Path(), "", {}, {}, CLASSES)
    labels, generator = np.arange(IMAGES) % len(CLASSES), np.random.default_rng(1)
    found = []
    for number in range(DATA_SETS):
        everything = [
            Candidate(
                place_digest({"data_sha256": number}, place), CLASSES[label], (CLASSES[label],), source, None, place
            )
            for place, label in enumerate(labels.tolist())
        ]
        drawn = [one.row for one in spread(everything, dict.fromkeys(CLASSES, EACH))]
        old, new = (generator.random(IMAGES) < error for error in (OLD_ERROR, NEW_ERROR))
        broken, fixed = (int(which[drawn].sum()) for which in (new & ~old, old & ~new))
        found.append(measure("overall", DRAWN_IMAGES, len(drawn), broken, fixed, 100 * (NEW_ERROR - OLD_ERROR)))
    return found


def test_the_deciding_figure_is_unbiased(checks: list[Check]) -> None:
    points = np.array([check.points for check in checks])
    error = points.std() / np.sqrt(len(points))
    assert error < 0.2
    assert abs(points.mean() - 100 * (NEW_ERROR - OLD_ERROR)) < 3 * error


def test_its_interval_and_its_verdict_err_as_often_as_they_say(checks: list[Check]) -> None:
    """95 % hold the truth; a version that is just tolerable fails in 2.5 %, and passes in as many."""
    true = 100 * (NEW_ERROR - OLD_ERROR)
    held = np.mean(
        [check.low is not None and check.high is not None and check.low <= true <= check.high for check in checks]
    )
    assert 0.92 <= held <= 0.98
    for verdict in ("fail", "pass"):
        assert np.mean([check.verdict == verdict for check in checks]) <= 0.05
