"""Who is asked about what, in which order, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from one_line import line_basket
from torch import Tensor

from foible.basket import Basket, Precision
from foible.images import settle
from foible.objectives import Dissent, Distances
from foible.search.asking import Asker, trace_of
from foible.testing import linear_basket, linear_trials


class Noting(Basket):
    """A basket that notes who was shown how many images."""

    log: list[tuple[int, tuple[str, ...], str]]

    def judge(self, images: Tensor, names: Sequence[str] | None = None, precision: Precision = "float32") -> Tensor:
        self.log.append((len(images), tuple(self.names if names is None else names), precision))
        return super().judge(images, names, precision)


def noting(networks: int) -> Noting:
    basket = Noting.__new__(Noting)
    basket.__dict__.update(linear_basket(networks).__dict__, log=[])
    return basket


def blurred(count: int = 200) -> tuple[Tensor, Tensor]:
    """Images near boundaries, so that peers differ about them, and the classes aimed at."""
    trials = linear_trials(linear_basket(4), count)
    noise = torch.rand(trials.seeds.shape, generator=torch.Generator().manual_seed(1)) - 0.5
    return (trials.seeds / 255 + 0.9 * noise).clamp(0, 1), trials.aims


@pytest.mark.parametrize("networks", [1, 2, 4])
def test_peers_see_only_what_those_before_them_allowed(networks: int) -> None:
    basket, objective = noting(networks), Dissent(0.4)
    images, aim = blurred()
    asker = Asker(objective, basket, "A")
    said, score = asker.ask(images, aim)
    everything = linear_basket(networks).judge(images)
    assert torch.equal(said, everything[:1])
    assert torch.equal(score, objective.score(everything[0], aim))
    asked = torch.arange(3, 150)
    rows, heard, costs = asker.allowed(images, aim, said, asked)
    expected = asked[objective.allows(everything[1:, asked], aim[asked])]
    assert torch.equal(rows, expected)
    assert torch.allclose(heard, everything[:, expected], atol=1e-6)
    first = objective.allows(everything[1:2, asked], aim[asked])
    shown = [(200, ("A",)), (147, ("B",)), (int(first.sum()), ("C", "D"))]
    assert [entry[:2] for entry in basket.log] == shown[:networks]
    assert costs.sum() == sum(count * len(names) for count, names in (entry[:2] for entry in basket.log[1:]))
    assert torch.equal(costs, min(1, networks - 1) + first * max(0, networks - 2))
    assert networks == 1 or 0 < len(rows) < 147
    assert networks < 3 or len(rows) < int(first.sum()) < 147


def test_nobody_is_asked_about_what_nobody_needs() -> None:
    basket = noting(4)
    images, aim = blurred(40)
    asker = Asker(Dissent(1.0), basket, "A")  # nobody is ever that sure
    said, _ = asker.ask(images, aim)
    rows, _, costs = asker.allowed(images, aim, said, torch.arange(40))
    assert len(rows) == 0
    assert costs.tolist() == [1] * 40
    asker.allowed(images, aim, said, torch.arange(0))
    assert [names for _, names, _ in basket.log] == [("A",), ("B",)]


def test_who_has_answered_for_a_score_is_not_asked_again() -> None:
    basket, objective = noting(4), Distances()
    images, aim = blurred()
    asker = Asker(objective, basket, "A")
    said, score = asker.ask(images, aim)
    assert torch.equal(score, objective.score(linear_basket(4).judge(images), aim))
    rows, heard, costs = asker.allowed(images, aim, said, torch.arange(200))
    assert torch.equal(rows, objective.allows(said[1:], aim).nonzero()[:, 0])
    assert torch.equal(heard, said[:, rows])
    assert not costs.any()
    assert [entry[:2] for entry in basket.log] == [(200, ("A", "B", "C", "D"))]


def test_what_is_found_is_found_in_float32_on_rounded_images() -> None:
    basket = noting(3)
    images, aim = blurred()
    asker = Asker(Dissent(), basket, "A", precision="bf16")
    found, said = asker.settled(images, aim)
    exact = linear_basket(3).judge(settle(images))
    assert torch.equal(said, exact)
    assert torch.equal(found, Dissent().found(exact, aim))
    again, costs = asker.still_found(images, aim)
    assert torch.equal(again, found)
    suspect = Dissent().found(exact[:1], aim)
    assert torch.equal(costs, 1 + 2 * suspect)
    assert 0 < int(found.sum()) < int(suspect.sum()) < 200
    assert {precision for _, _, precision in basket.log} <= {"float32", "folded"}  # never in bfloat16
    asker.ask(images, aim)
    assert basket.log[-1][2] == "bf16"
    nothing, free = asker.still_found(images[:0], aim[:0])
    assert nothing.shape == free.shape == (0,)


def test_a_boundary_between_two_steps_of_8_bits() -> None:
    """The suspect lets go at 2.02 largest moves, on paper; the 8 bits on either side lie at 2.00 and 2.05."""
    basket = line_basket(2.02)
    levels = torch.linspace(0, 1, 2551)[:, None, None, None].expand(-1, 1, 1, 2)
    aim = torch.zeros(len(levels), dtype=torch.int64)
    before = Dissent().found(basket.judge(levels), aim)
    after, _ = Asker(Dissent(), basket, "A").settled(levels, aim)
    assert (before != after).any()
    assert torch.equal(after, Dissent().found(basket.judge(settle(levels)), aim))


def test_the_trace_is_of_the_class_aimed_at() -> None:
    said = torch.tensor([[[0.5, 0.5], [0.2, 0.8]], [[0.9, 0.1], [0.6, 0.4]]]).log()
    expected = torch.tensor([[0.5, 0.9], [0.8, 0.4]])
    assert torch.allclose(trace_of(said, torch.tensor([0, 1])), expected)
