"""Known answers: Fleiss 1971, Krippendorff's own example, Dawid and Skene's anaesthetists; and shares that balance."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from foible.studio.agreement import (
    Votes,
    dawid_skene,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
    person_agreement,
)
from foible.studio.sharing import CHECK, GAP, REPEAT, VOTE, in_order, settled, share_out

FLEISS = """0 0 0 0 14|0 2 6 4 2|0 0 3 5 6|0 3 9 2 0|2 2 8 1 1|7 7 0 0 0|3 2 6 3 0|2 5 3 2 2|6 5 2 1 0|0 2 2 3 7"""
KRIPPENDORFF = """1 2 3 3 2 1 4 1 2 . . .|1 2 3 3 2 2 4 1 2 5 . 3|. 3 3 3 2 3 4 2 2 5 1 .|1 2 3 3 2 4 4 1 2 5 1 ."""
PATIENTS = (  # Table 1 of Dawid and Skene: three readings of the first observer, one of each other
    "111 1 1 1 1,333 4 3 3 4,112 2 1 2 2,222 3 1 2 1,222 3 2 2 2,222 3 3 2 2,122 2 1 1 1,333 3 4 3 3,222 2 2 2 3,"
    "232 2 2 2 3,444 4 4 4 4,222 3 3 4 3,111 1 1 1 1,222 3 2 1 2,121 1 1 1 1,111 2 1 1 1,111 1 1 1 1,111 1 1 1 1,"
    "222 2 2 2 1,222 1 3 2 2,222 2 2 2 2,222 2 2 2 1,222 3 2 2 2,221 2 2 2 2,111 1 1 1 1,111 1 1 1 1,232 2 2 2 2,"
    "111 1 1 1 1,111 1 1 1 1,112 1 1 2 1,111 1 1 1 1,333 3 2 3 3,111 1 1 1 1,222 2 2 2 2,222 3 2 3 2,433 4 3 4 3,"
    "221 2 2 3 2,232 3 2 3 3,333 3 4 3 2,111 1 1 1 1,111 1 1 1 1,121 2 1 1 1,232 2 2 2 2,121 1 1 1 1,222 2 2 2 2"
)


def anaesthetists() -> Votes:
    lines = [
        (patient, person, int(said) - 1)
        for patient, row in enumerate(PATIENTS.split(","))
        for person, answers in enumerate(row.split())
        for said in answers
    ]
    item, person, choice = np.array(lines).T
    return Votes(item, person, choice, 45, 5, 4)


def test_fleiss_kappa_of_his_example() -> None:
    counts = np.array([row.split() for row in FLEISS.split("|")], float)
    kappa, by_class = fleiss_kappa(counts)
    assert kappa == pytest.approx(0.210, abs=5e-4)
    n, many = counts.sum(1)[0], len(counts)
    share = counts.sum(0) / (n * many)
    own = 1 - (counts * (n - counts)).sum(0) / (many * n * (n - 1) * share * (1 - share))  # his formula for one class
    assert by_class == pytest.approx(own)


def test_krippendorffs_alpha_of_his_example() -> None:
    table = [row.split() for row in KRIPPENDORFF.split("|")]
    counts = np.zeros((12, 5))
    for row in table:
        for unit, value in enumerate(row):
            if value != ".":
                counts[unit, int(value) - 1] += 1
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)


def test_agreement_where_nothing_can_be_said() -> None:
    nothing, alone = np.zeros((3, 2)), np.array([[1.0, 0.0], [0.0, 1.0]])
    for counts in (nothing, alone):
        assert np.isnan(fleiss_kappa(counts)[0])
        assert np.isnan(krippendorff_alpha(counts))
    assert np.isnan(krippendorff_alpha(np.array([[3.0, 0.0]])))
    assert fleiss_kappa(np.array([[3.0, 0], [0, 3]]))[0] == krippendorff_alpha(np.array([[3.0, 0], [0, 3]])) == 1


def test_dawid_and_skene_of_their_example() -> None:
    model = dawid_skene(anaesthetists())
    assert model.prior == pytest.approx([0.40, 0.42, 0.11, 0.07], abs=0.005)  # their Table 2
    assert model.confusion[0][0] == pytest.approx([0.89, 0.11, 0, 0], abs=0.01)
    assert model.confusion.sum(2) == pytest.approx(1)
    votes = anaesthetists()
    for patient in (0, 1, 2, 35):  # Bayes' rule, written out
        mine = votes.item == patient
        likely = model.prior * model.confusion[votes.person[mine], :, votes.choice[mine]].prod(0)
        assert model.posterior[patient] == pytest.approx(likely / likely.sum(), abs=1e-4)
    assert model.best[2] == 1  # patient 3: three readings of seven say the first class


def test_majority_and_people() -> None:
    counts = np.array([[2.0, 1], [1, 1], [0, 0], [0, 3]])
    assert majority(counts).tolist() == [0, -1, -1, 1]
    votes = Votes(np.array([0, 0, 0, 1]), np.array([0, 1, 2, 0]), np.array([0, 0, 1, 1]), 2, 4, 2)
    agree = person_agreement(votes)
    assert agree[:3] == pytest.approx([0.5, 0.5, 0])  # of the two others, one agrees; nobody else saw the second image
    assert np.isnan(agree[3])
    empty = dawid_skene(Votes(*(np.zeros(0, np.int64),) * 3, 2, 0, 2))
    assert empty.best.tolist() == [-1, -1]
    assert dawid_skene(Votes(*(np.zeros(0, np.int64),) * 3, 2, 0, 0)).best.tolist() == [-1, -1]


@pytest.mark.parametrize(("items", "people", "votes"), [(40, 12, 3), (7, 5, 5), (100, 7, 2), (1, 3, 1)])
def test_shares_are_balanced(items: int, people: int, votes: int) -> None:
    pairs = share_out(dict.fromkeys(range(items), votes), {}, dict.fromkeys(range(people), 0), 3)
    assert len({*pairs}) == len(pairs) == items * votes
    assert {*Counter(item for _, item in pairs).values()} == {votes}
    loads = Counter(person for person, _ in pairs)
    assert max(loads.values()) - min(loads[person] for person in range(people)) <= 1
    assert pairs == share_out(dict.fromkeys(range(items), votes), {}, dict.fromkeys(range(people), 0), 3)
    assert items == 1 or pairs != share_out(dict.fromkeys(range(items), votes), {}, dict.fromkeys(range(people), 0), 4)


def test_nobody_gets_an_image_twice_unless_it_is_a_repeat() -> None:
    assert share_out({5: 2}, {5: {0, 1}}, {0: 0, 1: 0, 2: 9}, 0) == [(2, 5)]
    turns = in_order(range(100), range(100, 110), 0.1, 7, 1)
    kinds = Counter(turn.kind for turn in turns)
    assert kinds == {VOTE: 100, CHECK: 10, REPEAT: 10}
    for place, turn in enumerate(turns):
        if turn.kind == REPEAT:
            first = turns.index((turn.item, VOTE))
            assert place - first >= GAP - 1 or place == len(turns) - 1
    assert [t for t in turns if t.kind == VOTE] != sorted(t for t in turns if t.kind == VOTE)
    assert turns != in_order(range(100), range(100, 110), 0.1, 7, 2)


def test_when_people_agree() -> None:
    assert settled([1, 1, 1], 3)
    assert not settled([1, 1, 2], 3)
    assert settled([1, 1, 2, 1], 3)
    assert not settled([], 3)
    assert settled([4], 1)
    assert not settled([4, 5], 1)
