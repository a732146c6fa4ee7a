"""Gradient descent in a box."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from linear_generator import Linear

from foible.basket import Basket, Budget
from foible.errors import UserError
from foible.images import settle, to_floats
from foible.objectives import Restore
from foible.search import Trials, descend
from foible.search.task import EXHAUSTED, FOUND, INVALID
from foible.search.walking import Paths, retrace
from foible.spaces import Affine, Latent, Swaps
from foible.testing import Counting, check_search, linear_basket, linear_network, linear_trials

SPACE = Latent(Linear(), step=1.0, reach=8.0)


def mistakes(basket: Basket, count: int = 40) -> Trials:
    """Images, and the class that comes second for the suspect."""
    trials = linear_trials(basket, count)
    second = basket.predict(trials.seeds, ["A"])[0].topk(2, 1).indices[:, 1]
    return Trials(trials.lanes, trials.seeds, second)


def test_conforms() -> None:
    check_search(partial(descend, rate=0.5, steps=40), Affine())


def test_descends_the_cross_entropy_by_plain_steps() -> None:
    basket = linear_basket(2)
    trials = mistakes(basket)
    found = descend(SPACE, Restore(), basket, trials, suspect="A", rate=0.3)
    assert bool((found.outcome == FOUND).all())
    row = int(torch.where(found.candidates <= 64, found.candidates, 0).argmax())
    steps = int(found.candidates[row])
    assert steps > 1
    e, z = torch.zeros(1, 6), SPACE.start(to_floats(trials.seeds[row : row + 1]))
    for _ in range(steps):  # e ← e − λ ∂CE/∂e
        e.requires_grad_()
        logits = basket.judge(SPACE.render(z._replace(shift=e)), ["A"])[0]
        loss = torch.nn.functional.cross_entropy(logits, trials.aims[row : row + 1])
        e = (e - 0.3 * torch.autograd.grad(loss, e)[0]).detach()
    own = found.accepted.row == row
    assert int(own.sum()) == steps
    assert torch.allclose((2 * found.accepted.draws[own] - 1).sum(0), e[0], atol=1e-4)


def test_what_is_found_is_found_on_what_a_png_holds_and_not_before() -> None:
    basket = linear_basket(3)
    trials = mistakes(basket)
    found = descend(SPACE, Restore(), basket, trials, suspect="A")
    moves = torch.bincount(found.accepted.row, minlength=40)
    points = retrace(SPACE, to_floats(trials.seeds), Paths(found.accepted.draws, moves))
    said = basket.judge(settle(SPACE.render(points)[:40]), ["A"])[0].argmax(1)
    assert torch.equal(said == trials.aims, found.outcome == FOUND)
    before = found.accepted.trace[:, 0]  # the class is given in the last step of each, and in no earlier one
    last = torch.cat([found.accepted.row[1:] != found.accepted.row[:-1], torch.ones(1, dtype=torch.bool)])
    assert float(before[last].mean()) > float(before[~last].mean())


def test_long_paths_are_thinned_and_end_where_they_ended() -> None:
    basket = linear_basket(2)
    trials = mistakes(basket, 20)
    found = descend(SPACE, Restore(), basket, trials, suspect="A", rate=0.004, steps=1000)
    assert int(found.candidates.max()) > 100
    moves = torch.bincount(found.accepted.row, minlength=20)
    assert int(moves.max()) <= 64
    points = retrace(SPACE, to_floats(trials.seeds), Paths(found.accepted.draws, moves))
    said = basket.judge(settle(SPACE.render(points)[:20]), ["A"])[0].argmax(1)
    assert bool((said == trials.aims)[found.outcome == FOUND].all())


def test_restarts_rescue() -> None:
    class Hill(torch.nn.Module):
        """Class 1 is given far away on one side; the slope at the image leads to the other."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            way = (images.flatten(1) - 0.5) @ SPACE.opened.columns[:, 0]
            return torch.stack([torch.zeros_like(way), torch.where(way > 0.4, 5.0, -1 - (way + 0.1).square())], 1)

    basket = Basket({"A": Hill()}, classes=["0", "1"], preprocess="inside", shape=SPACE.opened.shape)
    seeds = torch.full((30, *SPACE.opened.shape), 128, dtype=torch.uint8)
    trials = Trials(torch.arange(30), seeds, torch.ones(30, dtype=torch.int64))
    once = descend(SPACE, Restore(), basket, trials, suspect="A", steps=50)
    again = descend(SPACE, Restore(), basket, trials, suspect="A", steps=50, restarts=4)
    assert bool((once.outcome == EXHAUSTED).all())
    assert int((again.outcome == FOUND).sum()) > 15


def test_budget_and_what_is_no_number() -> None:
    basket = linear_basket(2)
    short = descend(SPACE, Restore(1.0), basket, mistakes(basket), suspect="A", budget=Budget(forwards=7))
    assert int(short.forwards.max()) <= 7 + 2
    broken = Basket(
        {"A": lambda images: images.flatten(1)[:, :3] * torch.nan}, classes=list("abc"), preprocess="inside"
    )
    trials = mistakes(basket, 5)
    result = descend(SPACE, Restore(), broken, Trials(trials.lanes, trials.seeds, trials.aims % 3), suspect="A")
    assert bool((result.outcome == INVALID).all())


def test_words() -> None:
    basket = linear_basket(2)
    with pytest.raises(UserError, match="no slope to follow"):
        descend(Swaps(), Restore(), basket, mistakes(basket), suspect="A")
    with pytest.raises(UserError, match="momentum 1"):
        descend(SPACE, Restore(), basket, mistakes(basket), suspect="A", momentum=1.0)


def test_waiting_lanes_take_the_places_of_those_that_ended() -> None:
    """However wide the batch is, the same is found; and one long lane does not hold up the others."""
    basket = linear_basket(2)
    given = linear_trials(basket, 40)
    seeds = given.seeds.clamp(5, 250)  # at 0 and 1 a last bit says on which side of the clip a pixel is
    trials = Trials(given.lanes, seeds, basket.predict(seeds, ["A"])[0].topk(2, 1).indices[:, 1])
    how = {"suspect": "A", "rate": 0.3, "steps": 16, "restarts": 2, "momentum": 0.1}
    whole = descend(SPACE, Restore(), basket, trials, **how)
    assert set(whole.outcome.tolist()) == {FOUND, EXHAUSTED}
    assert int(whole.candidates.max()) == 48  # all steps of three starts
    ticks: list[int] = []
    part = descend(SPACE, Restore(), basket, trials, width=7, tick=ticks.append, **how)
    assert sum(ticks) == 40
    for name in ("outcome", "candidates", "forwards", "backwards"):
        assert torch.equal(getattr(part, name), getattr(whole, name)), name
    assert torch.equal(part.accepted.row, whole.accepted.row)
    assert torch.allclose(part.accepted.draws, whole.accepted.draws, atol=1e-4)

    alone = Basket({"A": Counting(linear_network(0))}, classes=basket.classes, preprocess="inside")
    found = descend(SPACE, Restore(), alone, trials, suspect="A", rate=0.3, width=8)
    copy = alone.network("A")
    assert isinstance(copy, Counting)
    rounds = sum(int(some.max()) for some in found.candidates.split(8))  # if each batch waited for its last lane
    assert int(found.candidates.max()) < len(copy.calls) < 0.8 * rounds
