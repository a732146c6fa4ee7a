"""Hill climbing over lanes against the paper's loop, one trial at a time."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from one_line import Line, line_basket, line_trials

from foible.basket import Basket, Budget
from foible.errors import UserError
from foible.images import settle
from foible.objectives import Dissent
from foible.randomness import uniforms
from foible.search import Found, Trials, hill_climb
from foible.search.climb import hill_climb as climbing
from foible.search.task import FOUND
from foible.spaces import Affine
from foible.testing import (
    CLASSES,
    SHAPE,
    Counting,
    check_search,
    linear_basket,
    linear_network,
    linear_trials,
)

SPACE = Affine(degrees=8, percent=8, shear=8, pixels=0.7)


@pytest.mark.parametrize("options", [{}, {"width": 7, "patience": 60}, {"patience": 33}])
def test_conforms(options: dict[str, int]) -> None:
    check_search(partial(hill_climb, **options))


def test_conforms_with_repeated_resampling() -> None:
    check_search(partial(hill_climb, patience=60), Affine(resample="each"), Dissent(0.4))


def plain_loop(
    basket: Basket, trials: Trials, suspect: str, objective: Dissent, seed: int, patience: int
) -> list[tuple[bool, int, list[int]]]:
    """Paper 1's procedure as written: peers first, one candidate of one trial at a time."""
    peers, results = basket.peers(suspect), []
    for lane, seed_image, aim in zip(*trials, strict=True):
        points = SPACE.start(seed_image[None].float() / 255)
        held = basket.judge(points.image, [suspect])[0].double().softmax(1)[0, aim]
        stale, step, path, found = 0, 0, [], False
        while not found and stale < patience:
            drawn = uniforms(seed, lane[None], step, stream="hill_climb.moves", count=6)
            candidate = SPACE.move(points, drawn)
            image = SPACE.render(candidate)
            stale += 1
            if bool(objective.allows(basket.judge(image, peers), aim[None])[0]):
                now = basket.judge(image, [suspect])[0].double().softmax(1)[0, aim]
                if now < held:
                    points, held, stale = candidate, now, 0
                    path.append(step)
                    found = all(
                        bool(objective.found(basket.judge(shown, [suspect, *peers]), aim[None])[0])
                        for shown in (image, settle(image))
                    )
            step += 1
        results.append((found, step, path))
    return results


@pytest.mark.parametrize("confidence", [0.0, 0.45])
def test_the_same_as_the_papers_loop(confidence: float) -> None:
    basket = linear_basket(4)
    trials = linear_trials(basket, 30)
    objective = Dissent(confidence)
    expected = plain_loop(basket, trials, "B", objective, seed=11, patience=60)
    found = hill_climb(SPACE, objective, basket, trials, suspect="B", seed=11, patience=60, width=8)
    assert [(bool(o == FOUND), int(c)) for o, c in zip(found.outcome, found.candidates, strict=True)] == [
        e[:2] for e in expected
    ]
    paths = [found.accepted.step[found.accepted.row == row].tolist() for row in range(len(expected))]
    assert paths == [e[2] for e in expected]
    assert {e[0] for e in expected} == {True, False}  # the test sees both ends


def counted(patience: int, objective: Dissent) -> tuple[Found, dict[str, int]]:
    networks = {name: Counting(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Basket(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    trials = linear_trials(linear_basket(), 12)
    calls = dict.fromkeys("ABC", 0)
    parts = []
    for row in range(12):  # one lane in a batch: every call is one inference
        parts.append(
            hill_climb(SPACE, objective, basket, trials.rows(torch.tensor([row])), suspect="A", patience=patience)
        )
    for name in "ABC":
        network = basket.network(name)
        assert isinstance(network, Counting)
        calls[name] = len(network.calls)
    whole = hill_climb(SPACE, objective, basket, trials, suspect="A", patience=patience)
    assert torch.equal(whole.forwards, torch.cat([part.forwards for part in parts]))
    return whole, calls


def test_forwards_are_exactly_what_the_networks_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    far, _ = counted(40, Dissent())
    monkeypatch.setattr(climbing, "steps_ahead", lambda *_: 1)  # what is thrown away behind a gain is not counted
    found, calls = counted(40, Dissent())
    assert int(found.forwards.sum()) == sum(calls.values())
    assert int(found.backwards.sum()) == 0
    assert torch.equal(far.forwards, found.forwards)


def test_peers_are_asked_only_about_candidates_that_improved() -> None:
    _, calls = counted(40, Dissent())
    assert 0 < calls["C"] < calls["B"] < calls["A"]  # and C only about what B let pass


def test_a_budget_stops_a_lane() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 20)
    free = hill_climb(SPACE, Dissent(0.9), basket, trials, suspect="A")
    capped = hill_climb(SPACE, Dissent(0.9), basket, trials, suspect="A", budget=Budget(forwards=30))
    assert int(free.forwards.max()) > 60
    assert int(capped.forwards.max()) <= 30 + 5
    early = free.forwards <= 30
    assert torch.equal(capped.outcome[early], free.outcome[early])


@pytest.mark.parametrize("most", [None, 40, 80])
def test_a_find_that_waits_and_is_undone_by_rounding_goes_on(monkeypatch: pytest.MonkeyPatch, most: int | None) -> None:
    basket, budget = line_basket(2.02, 9.0), Budget(forwards=most)  # a boundary between two steps of 8 bits
    results = []
    for ahead in (4, 1):  # who looks ahead judges a find as soon as it is there
        monkeypatch.setattr(climbing, "steps_ahead", lambda *_, ahead=ahead: ahead)
        results.append(hill_climb(Line(), Dissent(), basket, line_trials(200), suspect="A", budget=budget))
    at_once, waited = results
    for name in ("outcome", "candidates", "forwards"):
        assert torch.equal(getattr(waited, name), getattr(at_once, name)), name
    assert torch.equal(waited.accepted.step, at_once.accepted.step)
    hits = int((waited.accepted.trace[:, 0] < 0.5).sum())
    assert hits > int((waited.outcome == FOUND).sum()) > 0, "some are undone"


def test_every_accepted_move_lowers_the_suspect() -> None:
    basket = linear_basket()
    found = hill_climb(SPACE, Dissent(), basket, linear_trials(basket, 40), suspect="A")
    for row in range(40):
        held = found.accepted.trace[found.accepted.row == row][:, 0]
        assert torch.equal(held, held.sort(descending=True).values)


def test_bf16_searches_and_float32_judges() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 40)
    found = hill_climb(SPACE, Dissent(), basket, trials, suspect="A", precision="bf16")
    assert bool((found.outcome == FOUND).any())


def test_progress_hears_of_every_trial_once() -> None:
    basket = linear_basket()
    heard: list[int] = []
    hill_climb(SPACE, Dissent(), basket, linear_trials(basket, 50), suspect="A", width=9, tick=heard.append)
    assert sum(heard) == 50


def test_an_unknown_suspect_is_named() -> None:
    basket = linear_basket()
    with pytest.raises(UserError, match="no network 'Z' in the basket"):
        hill_climb(SPACE, Dissent(), basket, linear_trials(basket, 2), suspect="Z")
