"""The area under the curve, against scipy's count, and its interval."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import mannwhitneyu

from foible import UserError
from foible.realism import separation


def test_it_is_the_share_of_pairs_in_order() -> None:
    draw = torch.Generator().manual_seed(0)
    for n, m in ((1, 1), (7, 3), (40, 60)):
        ours = torch.randint(0, 5, (n,), generator=draw).float() + 1  # with ties
        theirs = torch.randint(0, 5, (m,), generator=draw).float()
        expected = mannwhitneyu(ours, theirs).statistic / (n * m)
        told = separation(ours, theirs)
        assert told.auc == pytest.approx(expected)
        assert told.n == (n, m)
        assert 0 <= told.low <= told.auc <= told.high <= 1


def test_no_overlap_is_certain_only_with_many() -> None:
    few = separation(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 2.0]))
    many = separation(torch.arange(200.0) + 200, torch.arange(200.0))
    assert few.auc == many.auc == few.high == 1
    assert few.low < 0.7
    assert 0.97 < many.low < 1
    assert separation(torch.tensor([1.0]), torch.tensor([2.0])).low == 0


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Two normal distributions one standard deviation apart: the area is Φ(1/√2)."""
    draw = torch.Generator().manual_seed(0)
    truth = torch.distributions.Normal(0, 1).cdf(torch.tensor(0.5).sqrt()).item()
    covered = 0
    for _ in range(300):
        ours, theirs = torch.randn(25, generator=draw) + 1, torch.randn(35, generator=draw)
        told = separation(ours, theirs)
        covered += told.low <= truth <= told.high
    assert 0.91 * 300 <= covered <= 0.99 * 300


def test_nothing_against_something() -> None:
    with pytest.raises(UserError, match="0 scores against 2"):
        separation(torch.empty(0), torch.ones(2))
