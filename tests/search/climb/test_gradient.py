"""Gradient search: known answers on a line, honest costs, and a find for less than hill climbing pays."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from one_line import Line, Watched, ends, line_basket, line_trials
from torch import Tensor, nn

from foible.basket import Basket, Budget
from foible.errors import UserError
from foible.objectives import Dissent
from foible.search import gradient, hill_climb
from foible.search.asking import Asker
from foible.search.climb.gradient import Manner, _Climb
from foible.search.task import EXHAUSTED, FOUND, INVALID
from foible.spaces import Affine
from foible.spaces.swaps import Swaps
from foible.testing import CLASSES, SHAPE, Counting, check_search, linear_basket, linear_network, linear_trials


@pytest.mark.parametrize("search", [gradient, partial(gradient, width=7), partial(gradient, effort=150)])
def test_conforms(search: Any) -> None:
    check_search(search)


def test_conforms_where_peers_must_be_sure() -> None:
    check_search(gradient, Affine(degrees=8, percent=8, shear=8, pixels=0.7), Dissent(0.4))


def test_it_stops_between_the_suspects_boundary_and_its_peers() -> None:
    basket = line_basket(3.0, 4.0, 6.0)
    found = gradient(Line(), Dissent(), basket, line_trials(30), suspect="A")
    assert bool((found.outcome == FOUND).all())
    assert bool((ends(found, 30) > 3).all())
    assert bool((ends(found, 30) < 4 + 0.05).all())  # half a step of 8 bits


def test_what_no_place_of_the_box_does_is_not_found() -> None:
    basket = line_basket(4.0, 3.0)  # the peer gives way first
    found = gradient(Line(), Dissent(), basket, line_trials(12), suspect="A", effort=100)
    assert bool((found.outcome == EXHAUSTED).all())
    assert len(found.accepted.row) == 0
    spent = found.forwards + 2 * found.backwards
    assert bool((spent >= 100).all())
    assert int(spent.max()) < 100 + 2 + 3 * 2 + 2  # the step under way may be finished


def test_a_step_is_no_longer_than_its_slope_promises_to_be_enough() -> None:
    basket = line_basket(0.7, 1.0)  # a full step leads beyond the peer's boundary
    assert 10 * Manner.rate > 1.0
    found = gradient(Line(), Dissent(), basket, line_trials(30), suspect="A")
    assert bool((found.outcome == FOUND).all())
    assert found.candidates.tolist() == [2] * 30


def test_a_later_start_is_where_the_suspect_is_nearest_to_its_boundary() -> None:
    basket, trials, rows = line_basket(3.0, 4.0), line_trials(20), torch.arange(20)
    climb = _Climb(Line(), Dissent(), Asker(Dissent(), basket, "A"), trials, 0, Manner(), 450, Budget())
    climb.begin(rows)
    assert float(climb.place.abs().max()) <= 0.02
    assert basket.seen == 0
    drawn = climb._places(rows, Manner.looks, Manner.spread)[..., 0]
    climb.begin(rows)
    nearest = (drawn - 0.3).abs().argmin(1, keepdim=True)
    assert torch.equal(climb.place, drawn.gather(1, nearest))
    assert climb.forwards.tolist() == [Manner.looks] * 20
    assert basket.seen == 20 * Manner.looks


class _Precisions(nn.Module):
    """Notes of every call whether it was in bfloat16, and whether it could be differentiated."""

    calls: list[tuple[bool, bool]]

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, []

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(images)
        self.calls.append((logits.dtype == torch.bfloat16, logits.requires_grad))
        return logits


def test_it_searches_in_the_precision_asked_for_and_settles_in_float32() -> None:
    networks = {name: _Precisions(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Basket(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    trials = linear_trials(linear_basket(), 12)
    found = gradient(Affine(), Dissent(), basket, trials, suspect="A", effort=100, precision="bf16")
    noted = [call for name in "ABC" for call in basket.network(name).calls]  # type: ignore[union-attr]
    assert bool((found.outcome == FOUND).any())
    assert (True, True) in noted
    assert (False, False) in noted, "settled in float32"
    assert (False, True) not in noted


def test_nan_ends_its_own_lane_only() -> None:
    basket = line_basket(3.0, 6.0, breaks="A")
    found = gradient(Line(), Dissent(), basket, line_trials(20, marked=(4, 11)), suspect="A")
    assert found.outcome[[4, 11]].tolist() == [INVALID, INVALID]
    assert int((found.outcome == FOUND).sum()) == 18


def test_forwards_are_exactly_what_the_networks_saw() -> None:
    networks = {name: Counting(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Watched(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    trials = linear_trials(linear_basket(), 12)
    parts = [
        gradient(Affine(), Dissent(0.5), basket, trials.rows(torch.tensor([row])), suspect="A", effort=200)
        for row in range(12)
    ]
    assert sum(int(part.forwards.sum()) for part in parts) == basket.seen
    copies = [basket.network(name) for name in "ABC"]
    calls = [len(copy.calls) for copy in copies if isinstance(copy, Counting)]
    assert 0 < calls[2] < calls[0], "peers are not asked where they cannot matter"
    whole = gradient(Affine(), Dissent(0.5), basket, trials, suspect="A", effort=200)
    assert torch.equal(whole.forwards, torch.cat([part.forwards for part in parts]))
    assert torch.equal(whole.backwards, torch.cat([part.backwards for part in parts]))


class _Slopes(nn.Module):
    """Counts the rows whose gradient is asked for."""

    count = 0

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(images)
        if logits.requires_grad:
            logits.register_hook(self._note)
        return logits

    def _note(self, slope: Tensor) -> None:
        type(self).count += int((slope != 0).any(1).sum())


def test_backwards_are_the_gradients_that_were_used() -> None:
    _Slopes.count = 0
    networks = {name: _Slopes(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Basket(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    trials = linear_trials(linear_basket(), 20)
    found = gradient(Affine(), Dissent(0.5), basket, trials, suspect="A", effort=200)
    counted, steps = int(found.backwards.sum()), int(found.candidates.sum())
    last = 20 + steps // 5  # of a lane, or of a start, which is at least five long: these move nothing
    assert steps > 200
    assert counted <= _Slopes.count <= counted + 3 * last < 3 * counted


def test_it_finds_more_for_less_than_hill_climbing() -> None:
    basket = linear_basket(5)
    trials = linear_trials(basket, 60)
    objective = Dissent(0.45)
    ours = gradient(Affine(), objective, basket, trials, suspect="A")
    theirs = hill_climb(Affine(), objective, basket, trials, suspect="A")
    found, climbed = int((ours.outcome == FOUND).sum()), int((theirs.outcome == FOUND).sum())
    assert found >= climbed > 0
    assert (ours.forwards + 2 * ours.backwards).sum() / found < 5 * theirs.candidates.sum() / climbed / 3


def test_a_budget_of_gradients_is_kept() -> None:
    basket = linear_basket()
    found = gradient(Affine(), Dissent(0.9), basket, linear_trials(basket, 10), suspect="A", budget=Budget(backwards=5))
    assert int(found.backwards.max()) <= 5 + 2


def test_progress_hears_of_every_trial_once() -> None:
    basket = linear_basket()
    heard: list[int] = []
    gradient(Affine(), Dissent(), basket, linear_trials(basket, 50), suspect="A", width=16, tick=heard.append)
    assert sum(heard) == 50


def test_what_it_cannot_do_is_said() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 2)
    with pytest.raises(UserError, match="Swaps has no slope to follow"):
        gradient(Swaps(), Dissent(), basket, trials, suspect="A")
    with pytest.raises(UserError, match="effort is 0"):
        gradient(Affine(), Dissent(), basket, trials, suspect="A", effort=0)

    class NoSlack:
        score, allows, found = Dissent().score, Dissent().allows, Dissent().found

    with pytest.raises(UserError, match="NoSlack has no slack"):
        gradient(Affine(), NoSlack(), basket, trials, suspect="A")

    class Cut(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return images.detach().flatten(1)[:, :CLASSES]

    cut = Basket({"A": Cut(), "B": Cut()}, classes=basket.classes, preprocess="inside", shape=SHAPE)
    with pytest.raises(UserError, match="network 'A' gives no gradient"):
        gradient(Affine(), Dissent(), cut, trials, suspect="A")
