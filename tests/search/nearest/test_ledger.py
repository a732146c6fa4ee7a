"""One ledger for all methods: the smallest success is kept; while there is none, the highest margin; and the cost."""

from __future__ import annotations

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.nearest.ledger import Ledger


def offer(
    ledger: Ledger,
    row: int,
    value: float,
    *,
    by: float,
    size: float,
    sound: bool = True,
    counts: bool | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """A point of one number for one row; a success where its margin is above 0."""
    ledger.offer(
        torch.tensor([row]),
        torch.tensor([[value]]),
        by=torch.tensor([by], dtype=dtype),
        hit=torch.tensor([by > 0]),
        size=torch.tensor([size], dtype=dtype),
        sound=torch.tensor([sound]),
        counts=None if counts is None else torch.tensor([counts]),
    )


def best(ledger: Ledger) -> list[float]:
    return ledger.best[:, 0].tolist()


def test_a_success_replaces_a_miss_and_only_a_smaller_one_replaces_it() -> None:
    ledger = Ledger(torch.zeros(2, 1))
    offer(ledger, 1, 1.0, by=-3.0, size=0.1)
    assert best(ledger) == [0.0, 1.0]
    assert ledger.found.tolist() == [False, False]
    offer(ledger, 1, 2.0, by=1.0, size=9.0)
    assert best(ledger) == [0.0, 2.0]
    assert ledger.found.tolist() == [False, True]
    offer(ledger, 1, 3.0, by=5.0, size=9.0)  # as large: the first stays
    offer(ledger, 1, 4.0, by=-0.1, size=0.0)  # no miss comes after a success
    assert best(ledger) == [0.0, 2.0]
    offer(ledger, 1, 5.0, by=1.0, size=8.0)
    assert best(ledger) == [0.0, 5.0]
    assert ledger.least.tolist() == [torch.inf, 8.0]


def test_while_there_is_no_success_the_highest_margin_is_kept_whatever_its_size() -> None:
    ledger = Ledger(torch.zeros(1, 1))
    for value, by in ((1.0, -3.0), (2.0, -1.0), (3.0, -2.0), (4.0, -1.0)):
        offer(ledger, 0, value, by=by, size=10 * value)
    assert best(ledger) == [2.0]


def test_answers_that_are_not_finite_are_told_and_never_kept() -> None:
    ledger = Ledger(torch.zeros(3, 1))
    offer(ledger, 0, 1.0, by=torch.inf, size=0.0, sound=False)
    offer(ledger, 1, 1.0, by=torch.nan, size=0.0, sound=False)
    offer(ledger, 1, 2.0, by=1.0, size=1.0)
    ended = ledger.close((1,))
    assert ended.images[:, 0].tolist() == [0.0, 2.0, 0.0]
    assert ended.found.tolist() == [False, True, False]
    assert ended.invalid.tolist() == [True, False, False]  # what was found is not invalid
    assert ledger.able(torch.arange(3), 0).tolist() == [False, False, True]


def test_what_does_not_count_changes_nothing() -> None:
    ledger = Ledger(torch.zeros(1, 1))
    offer(ledger, 0, 1.0, by=1.0, size=0.0, counts=False)
    offer(ledger, 0, 2.0, by=-1.0, size=0.0, counts=False)
    offer(ledger, 0, 3.0, by=torch.nan, size=0.0, sound=False, counts=False)
    assert best(ledger) == [0.0]
    assert ledger.nearly.isinf().all()
    assert not ledger.invalid.any()
    offer(ledger, 0, 4.0, by=1.0, size=0.0, counts=True)
    assert best(ledger) == [4.0]


def test_sizes_of_any_dtype_are_compared_as_they_are() -> None:
    ledger = Ledger(torch.zeros(1, 1))
    offer(ledger, 0, 1.0, by=1.0, size=2.0**30 + 1, dtype=torch.float64)  # float32 takes both for one
    offer(ledger, 0, 2.0, by=1.0, size=2.0**30, dtype=torch.float64)
    assert best(ledger) == [2.0]
    offer(ledger, 0, 3.0, by=1.0, size=1.0, dtype=torch.float16)
    assert best(ledger) == [3.0]


def test_a_row_is_able_until_its_budget_is_spent() -> None:
    ledger, rows = Ledger(torch.zeros(3, 1), Budget(forwards=3, backwards=4)), torch.arange(3)
    ledger.spend(rows[1:], 2, 3)
    ledger.spend(torch.tensor([False, False, True]))
    assert ledger.forwards.tolist() == [0, 2, 3]
    assert ledger.backwards.tolist() == [0, 3, 3]
    assert ledger.able(rows, 1).tolist() == [True, True, False]
    assert ledger.able(rows, 2).tolist() == [True, False, False]
    assert ledger.affords(rows, 2).tolist() == [True, False, False]
    assert ledger.affords(rows, 0, 1).tolist() == [True, True, True]
    assert ledger.left(rows, 10).tolist() == [3, 1, 0]
    assert ledger.left(rows, 2).tolist() == [2, 1, 0]
    assert Ledger(torch.zeros(1, 1)).left(rows[:1], 10).tolist() == [10]


def test_the_start_is_not_written_into() -> None:
    start: Tensor = torch.zeros(1, 1)
    offer(Ledger(start), 0, 1.0, by=1.0, size=1.0)
    assert start.tolist() == [[0.0]]
