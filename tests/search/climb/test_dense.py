"""Hill climbing that asks every network about everything: the same moves as the lazy way, other costs."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from one_line import Line, line_basket, line_trials
from torch import nn

from foible.basket import Basket, Budget
from foible.objectives import Dissent, Distances
from foible.search import hill_climb
from foible.search.climb.dense import is_cheap, together
from foible.search.task import FOUND
from foible.spaces import Affine
from foible.testing import CLASSES, SHAPE, check_search, linear_basket, linear_trials

SPACE = Affine(degrees=8, percent=8, shear=8, pixels=0.7)
everybody = partial(hill_climb, ask="all")


def test_conforms() -> None:
    check_search(everybody)
    check_search(partial(everybody, width=7), Affine(resample="each"), Dissent(0.4))


@pytest.mark.parametrize("space", [SPACE, Affine(resample="each")])
@pytest.mark.parametrize("confidence", [0.0, 0.45])
def test_the_same_moves_as_the_lazy_way(space: Affine, confidence: float) -> None:
    basket = linear_basket(4)
    trials = linear_trials(basket, 60)
    lazy = hill_climb(space, Dissent(confidence), basket, trials, suspect="B", seed=4, ask="lazily", width=13)
    dense = hill_climb(space, Dissent(confidence), basket, trials, suspect="B", seed=4, ask="all", width=29)
    assert torch.equal(lazy.outcome, dense.outcome)
    assert torch.equal(lazy.candidates, dense.candidates)
    assert torch.equal(lazy.accepted.step, dense.accepted.step)
    assert torch.equal(lazy.accepted.draws, dense.accepted.draws)
    assert torch.allclose(lazy.accepted.trace, dense.accepted.trace, atol=1e-5)
    assert 0 < int((lazy.outcome == FOUND).sum()) < 60


def test_a_find_that_rounding_undoes_goes_on_at_its_next_step() -> None:
    basket = line_basket(2.02, 9.0)  # boundaries between two steps of 8 bits: some finds do not survive settling
    lazy, dense = (
        hill_climb(Line(), Dissent(), basket, line_trials(200), suspect="A", ask=ask) for ask in ("lazily", "all")
    )
    assert torch.equal(lazy.candidates, dense.candidates)
    assert torch.equal(lazy.accepted.step, dense.accepted.step)
    assert torch.equal(lazy.outcome, dense.outcome)


def test_costs_are_all_networks_on_all_candidates() -> None:
    basket = linear_basket()
    found = everybody(SPACE, Dissent(0.9), basket, linear_trials(basket, 20), suspect="A", patience=30)
    lost = found.outcome != FOUND
    assert bool((found.forwards[lost] == 1 + 3 * found.candidates[lost]).all())
    capped = everybody(SPACE, Dissent(0.9), basket, linear_trials(basket, 20), suspect="A", budget=Budget(forwards=31))
    assert int(capped.forwards.max()) <= 31 + 3


def test_first_layers_as_one_product_give_the_same_logits() -> None:
    torch.manual_seed(0)
    networks = {
        str(width): nn.Sequential(nn.Flatten(), nn.Linear(144, width), nn.ReLU(), nn.Linear(width, CLASSES))
        for width in (3, 8, 5)
    }
    basket = Basket(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    images = torch.rand(20, *SHAPE)
    judge = together(basket, ["8", "3", "5"])
    assert judge is not None
    assert torch.allclose(judge(images), basket.judge(images, ["8", "3", "5"]), atol=1e-6)


def test_what_is_no_matrix_product_is_asked_lazily() -> None:
    conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(200, CLASSES))
    classes = [str(i) for i in range(CLASSES)]
    mixed = Basket({"A": conv, "B": linear_basket().network("B")}, classes=classes, preprocess="inside", shape=SHAPE)
    assert together(mixed, ["A", "B"]) is None
    assert not is_cheap(mixed, ["A", "B"])
    assert is_cheap(mixed, ["B"])


def test_the_papers_distances_are_climbed() -> None:
    basket = linear_basket(4)
    trials = linear_trials(basket, 40)
    found = hill_climb(SPACE, Distances(), basket, trials, suspect="A")
    assert int((found.outcome == FOUND).sum()) > 0
    assert bool((found.forwards >= 4 * found.candidates).all())
    check_search(hill_climb, SPACE, Distances())
