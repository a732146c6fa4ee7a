"""Types A, B and C, with simulated people whose answers are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foible.data import load
from foible.errors import UserError
from foible.studies import run_study
from foible.studies.boundary.types import (
    certainty,
    fewer_people,
    flips,
    opinion,
    pairwise,
    types_of,
    wrong_by_any,
    wrong_by_model,
)

# Ten simulated people, three classes, six images: unanimous on 0, 1, 2, 0; split on the last two.
COUNTS = np.array([[10, 0, 0], [0, 10, 0], [0, 0, 10], [10, 0, 0], [9, 1, 0], [5, 5, 0]])
SAID = np.array([[0, 1, 0, 1, 0, 0], [0, 2, 0, 1, 0, 1], [0, 1, 0, 1, 0, 1]])


def test_every_image_is_of_one_type() -> None:
    types = types_of(SAID, opinion(COUNTS))
    assert types.both_agree.tolist() == [True, False, False, False, False, False]
    assert types.a.tolist() == [False, True, False, False, False, False]
    assert types.against.tolist() == [False, False, True, True, False, False]  # footnote 2
    assert types.c.tolist() == [False, False, False, False, True, False]
    assert types.both_disagree.tolist() == [False, False, False, False, False, True]
    assert sum(types.counts().values()) == 6
    lenient = types_of(SAID, opinion(COUNTS, 0.9))
    assert lenient.both_agree.tolist() == [True, False, False, False, True, False]
    assert lenient.both_disagree[5]  # a tie is no agreement, however low the threshold
    assert types_of(SAID, opinion(COUNTS, 0.1)).both_disagree[5]


def test_what_the_tables_count() -> None:
    people = opinion(COUNTS)
    assert wrong_by_model(SAID, people).tolist() == pytest.approx([2 / 6, 3 / 6, 2 / 6])
    assert wrong_by_any(SAID, people) == pytest.approx(3 / 6)
    assert sorted(pairwise(SAID).tolist()) == pytest.approx([1 / 6, 1 / 6, 2 / 6])
    assert certainty(SAID).tolist() == pytest.approx([1, 2 / 3, 1, 1, 1, 2 / 3])
    assert flips(np.array([[0, 0, 1, 1], [0, 1, 0, 2]])).tolist() == [1, 3]


def test_fewer_people_are_drawn_from_those_there_were() -> None:
    counts = np.array([[30, 20, 0], [2, 0, 1]])
    some = fewer_people(counts, 10, 0)
    assert some.sum(1).tolist() == [10, 3]
    assert (some <= counts).all()
    assert (fewer_people(counts, 10, 0) == some).all()
    many = np.stack([fewer_people(counts[:1], 10, seed)[0] for seed in range(300)])
    assert many.mean(0)[0] == pytest.approx(6.0, abs=0.3)


def test_the_study_counts_what_simulated_people_said(tmp_path: Path) -> None:
    test = load("digits", "test", quiet=True)
    counts = np.zeros((len(test), 10), np.int64)
    labels = test.labels.numpy()
    counts[np.arange(len(test)), labels] = 10
    counts[::5, :] = 0
    counts[::5, 0], counts[::5, 1] = 5, 5  # simulated people who cannot tell
    np.save(tmp_path / "people.npy", counts)
    result = run_study(
        "boundary", scale="quick", data="digits", out=tmp_path / "out", quiet=True,
        options={"people": str(tmp_path / "people.npy"), "epochs": "1", "trials": "2"},
    )  # fmt: skip
    rows = {(row.table.partition(":")[0], row.quantity): row.measured for row in result.rows}
    split = 100 * len(labels[::5]) / len(labels)
    c = rows["Table 3", "C: networks agree, people disagree; 10 people"]
    both = rows["Table 3", "B: both disagree; 10 people"]
    assert c is not None
    assert both is not None
    assert c + both == pytest.approx(split)
    whole = [value for (table, name), value in rows.items() if table == "Table 3" and name.endswith("; 10 people")]
    assert sum(value for value in whole if value is not None) == pytest.approx(100)
    metric = {name for table, name in rows if table.startswith("Which metric? Each")}
    assert {"lenet: κ with people", "lenet: hunt: share of trials that find a mistake, %"} <= metric
    assert any("2 networks were hunted" in note for note in result.notes)
    with pytest.raises(UserError, match="leave them out"):
        run_study("boundary", data="cifar10", out=tmp_path / "other", quiet=True, options={"generator": "G"})
