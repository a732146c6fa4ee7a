"""Lanes that look ahead: several candidates at once, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from one_line import Line, line_basket, line_trials

from foible.basket import Basket, Budget
from foible.images import to_floats
from foible.objectives import Dissent
from foible.search import Found, hill_climb
from foible.search.climb import ahead
from foible.search.climb import hill_climb as climbing
from foible.search.task import FOUND, INVALID
from foible.spaces import Affine
from foible.testing import linear_basket, linear_trials

SPACE = Affine(degrees=8, percent=8, shear=8, pixels=0.7)


def same(one: Found, other: Found) -> None:
    for name in ("outcome", "candidates", "forwards"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert torch.equal(one.accepted.step, other.accepted.step)
    assert torch.equal(one.accepted.draws, other.accepted.draws)
    assert torch.allclose(one.accepted.trace, other.accepted.trace, atol=1e-5)


@pytest.fixture
def heights(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lazy lanes look ahead here as on a GPU; how far they did."""
    seen: list[int] = []
    real = ahead.look_ahead

    def watched(lanes: Any, drawn: torch.Tensor, *others: Any) -> None:
        seen.append(len(drawn))
        real(lanes, drawn, *others)

    monkeypatch.setattr(climbing, "steps_ahead", lambda lanes, *_: min(512, 400 // len(lanes)))
    monkeypatch.setattr(climbing, "look_ahead", watched)
    return seen


def test_as_many_steps_as_fill_a_batch_and_none_of_deep_networks_on_a_cpu() -> None:
    class Some:
        def __init__(self, lanes: int, device: str = "cuda", width: int = 40_000) -> None:
            self.lanes, self.device, self.width = lanes, torch.device(device), width
            self.trials = linear_trials(linear_basket(), 1)
            self.trials = self.trials._replace(seeds=torch.zeros(1, 3, 32, 32, dtype=torch.uint8))

        def __len__(self) -> int:
            return self.lanes

    def steps(*given: Any, patience: int = 250, cheap: bool = False) -> int:
        return ahead.steps_ahead(Some(*given), patience, cheap)  # type: ignore[arg-type]

    assert steps(1, "cpu") == steps(1000, "cpu") == 1
    assert [steps(lanes, "cpu", cheap=True) for lanes in (1, 16, 17, 130, 131, 1000)] == [16, 16, 15, 2, 1, 0]
    assert [steps(lanes) for lanes in (1, 12, 13, 1000, 1537, 4000)] == [250, 250, 236, 3, 1, 0]
    assert steps(1, patience=20) == 20
    assert steps(10, "cuda", 64) == 6, "no more than there may be lanes"


@pytest.mark.parametrize("budget", [None, 40, 41])
def test_lazily_asked_lanes_take_the_same_moves_at_the_same_cost(
    heights: list[int], monkeypatch: pytest.MonkeyPatch, budget: int | None
) -> None:
    basket = linear_basket(4)
    trials, asked = linear_trials(basket, 40), {"suspect": "A", "patience": 60, "budget": Budget(forwards=budget)}
    far = hill_climb(SPACE, Dissent(0.45), basket, trials, **asked)
    assert max(heights) > 16
    monkeypatch.setattr(climbing, "steps_ahead", lambda *_: 1)
    same(far, hill_climb(SPACE, Dissent(0.45), basket, trials, **asked))
    assert 0 < int((far.outcome == FOUND).sum()) < 40


def test_finds_that_rounding_undoes_go_on(heights: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    basket = line_basket(2.02, 9.0)  # boundaries between two steps of 8 bits: some finds do not survive settling
    far = hill_climb(Line(), Dissent(), basket, line_trials(60), suspect="A")
    assert heights
    monkeypatch.setattr(climbing, "steps_ahead", lambda *_: 1)
    same(far, hill_climb(Line(), Dissent(), basket, line_trials(60), suspect="A"))


def test_an_answer_that_is_no_number_ends_a_lane_at_its_step(
    heights: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = linear_basket(3)
    trials = linear_trials(plain, 40)
    least = 0.97 * to_floats(trials.seeds).mean((1, 2, 3)).quantile(0.2)

    def broken(images: torch.Tensor) -> torch.Tensor:
        logits = plain.network("A")(images)
        return torch.where((images.mean((1, 2, 3)) < least)[:, None], torch.nan, logits)

    networks = {name: plain.network(name) for name in plain.names} | {"A": broken}
    basket = Basket(networks, classes=plain.classes, preprocess="inside", shape=plain.shape)
    far = hill_climb(SPACE, Dissent(0.45), basket, trials, suspect="A", patience=60)
    assert heights
    monkeypatch.setattr(climbing, "steps_ahead", lambda *_: 1)
    same(far, hill_climb(SPACE, Dissent(0.45), basket, trials, suspect="A", patience=60))
    assert 0 < int((far.outcome == INVALID).sum()) < 40


def test_everybody_asked_about_everything() -> None:
    basket = linear_basket(4)
    trials = linear_trials(basket, 30)
    wide = hill_climb(SPACE, Dissent(0.45), basket, trials, suspect="A", width=3000, ask="all", patience=60)
    narrow = hill_climb(SPACE, Dissent(0.45), basket, trials, suspect="A", width=30, ask="all", patience=60)
    same(wide, narrow)
