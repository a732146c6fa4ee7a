from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
import torch

import foible
from foible.basket import Basket
from foible.data import load
from foible.recipes.train.fleets import meet
from foible.studies.peer_pressure.held_out import Judge
from foible.studies.peer_pressure.reliability import ConsensusFinds, difference, rarefied, trend


def test_rarefaction_is_the_mean_over_all_draws() -> None:
    counts = Counter({(0, 1): 3, (0, 2): 2, (1, 0): 1})
    finds = list(counts.elements())
    for draws in range(1, 7):
        seen = [len(set(some)) for some in combinations(finds, draws)]
        assert rarefied(counts, draws) == pytest.approx(sum(seen) / len(seen))
    assert rarefied(counts, 100) == 3
    assert rarefied(Counter(), 0) == 0


def test_the_interval_of_a_difference_is_newcombes() -> None:
    # R. G. Newcombe, Interval estimation for the difference between independent proportions (1998), Table II,
    # method 10: 56/70 − 48/80 is 0.2, from 0.0524 to 0.3339.
    change, low, high = difference(48, 80, 56, 70)
    assert change == pytest.approx(0.2)
    assert low == pytest.approx(0.0524, abs=1e-4)
    assert high == pytest.approx(0.3339, abs=1e-4)


def test_a_trend_of_two_groups_is_the_test_of_their_difference() -> None:
    from scipy.stats import chi2_contingency

    z = trend([(0.0, 30, 100), (3.0, 60, 120)])
    chi = chi2_contingency([[30, 70], [60, 60]], correction=False).statistic
    assert z == pytest.approx(chi**0.5)
    assert trend([(0.0, 60, 120), (3.0, 30, 100)]) == pytest.approx(-(chi**0.5))
    assert trend([(0.0, 10, 10), (1.0, 5, 5), (2.0, 0, 0)]) == 0
    assert trend([(0.0, 0, 0)]) == 0


def test_a_tally_without_labels_looks_them_up(networks: Basket) -> None:
    data = load("digits", "test")
    found = foible.hunt(
        networks, "digits", suspect="mlp-8", split="test", unlabelled=True, trials=60, shrink=False, realism="none",
        device="cpu", quiet=True,
    )  # fmt: skip
    assert set(found.column("truth")) == {None}
    labels = meet(data, networks.classes).tolist()
    peer = networks.peers("mlp-8")[0]
    tally = ConsensusFinds(3)
    tally.add(found, labels, Judge(networks.only([peer]), 0.0))
    assert tally.trials == 60
    assert len(tally.found) == len(found.filter(outcome="found")) > 5
    assert tally.by_judge == len(tally.found)  # a judge that was a peer agrees with the consensus
    assert tally.by_both == tally.by_label == tally.pairs.total()
    seeds = torch.tensor(found.column("origin_index"))
    said = networks.predict(data.images[seeds])[0].argmax(1)
    assert tally.misnamed == int((said != data.labels[seeds]).sum())
    assert all(label != said for label, said in tally.pairs)
