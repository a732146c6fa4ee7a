from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from foible.errors import UserError
from foible.objectives import Dissent, Distances, asks_all, slack_of
from foible.search import gradient, hill_climb
from foible.search.task import FOUND
from foible.spaces import Affine
from foible.testing import check_objective, linear_basket, linear_trials

CONFIDENCES = [(0.0, 0.0), (0.3, 0.0), (0.5, 0.5), (0.9, 0.0), (0.0, 0.8), (0.6, 0.7), (0.2, 0.3)]


class Plain:
    """An objective of a user's own, which says neither whom it asks nor what slack there is."""

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        return Dissent().score(logits, aim)

    def allows(self, logits: Tensor, aim: Tensor) -> Tensor:
        return Dissent().allows(logits, aim)

    def found(self, logits: Tensor, aim: Tensor) -> Tensor:
        return Dissent().found(logits, aim)


class Mean(Dissent):
    """It takes everybody's answer, and says so."""

    asks = "all"

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        return logits.mean(0).gather(1, aim[:, None])[:, 0]


class Old(Plain):
    """It says so as objectives did before there was `asks`."""

    whole = True

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        return Distances().score(logits, aim)


class NoSlack(Dissent):
    slack = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "objective",
    [Dissent(), Dissent(0.3), Dissent(0.9), Dissent(0.6, 0.7), Distances(), Distances(0.4), Plain(), Mean(), Old()],
)
def test_conforms(objective: Any) -> None:
    check_objective(objective)


def test_whom_an_objective_asks() -> None:
    expected: dict[Any, bool] = {Dissent(): False, Distances(): True, Plain(): False, Mean(): True, Old(): True}
    assert {objective: asks_all(objective) for objective in expected} == expected

    class Both(Dissent):
        whole = True  # and `asks`, inherited, says the suspect

    class Peers(Dissent):
        asks = "peers"  # type: ignore[assignment]

    assert asks_all(Both())
    wrong: Any = Peers()
    for refuses in (asks_all, check_objective):
        with pytest.raises(UserError, match=r"Peers\.asks is 'peers': expected 'suspect' or 'all'"):
            refuses(wrong)


def test_slack_where_there_is_one() -> None:
    logits, aim = torch.randn(3, 8, 4), torch.randint(4, (8,))
    slack = slack_of(Dissent(0.4), logits, aim)
    assert slack is not None
    assert torch.equal(slack, Dissent(0.4).slack(logits, aim))
    for without in (Plain(), NoSlack()):
        assert slack_of(without, logits, aim) is None  # type: ignore[arg-type]


def test_a_slack_of_another_shape_does_not_conform() -> None:
    class Flat(Dissent):
        def slack(self, logits: Tensor, aim: Tensor) -> Tensor:
            return super().slack(logits, aim).amin(0)

    with pytest.raises(AssertionError, match="slack must be one float for each network and row"):
        check_objective(Flat())


def test_an_objective_that_says_nothing_is_climbed_like_one_that_does() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 30)
    pairs: list[tuple[Any, Any]] = [(Plain(), Dissent()), (Old(), Distances())]
    for ours, theirs in pairs:
        one, other = (hill_climb(Affine(), it, basket, trials, suspect="A", patience=40) for it in (ours, theirs))
        assert torch.equal(one.forwards, other.forwards)
        assert torch.equal(one.accepted.draws, other.accepted.draws)


def test_no_slope_without_slack() -> None:
    basket = linear_basket()
    objectives: list[Any] = [Plain(), NoSlack()]
    for objective in objectives:
        with pytest.raises(UserError, match=r"has no slack\(logits, aim\): the gradient search needs one"):
            gradient(Affine(), objective, basket, linear_trials(basket, 4), suspect="A")


def test_score_rises_exactly_when_the_probability_falls() -> None:
    logits = torch.randn(200, 10, dtype=torch.float64) * 2
    aim = torch.randint(10, (200,))
    held = logits.softmax(1).gather(1, aim[:, None])[:, 0]
    assert torch.equal(Dissent().score(logits, aim).argsort(), held.argsort(descending=True))


def test_score_still_moves_where_the_probability_rounds_to_one() -> None:
    logits = torch.tensor([[40.0, 0.0], [39.0, 0.0]])
    assert logits.softmax(1)[0, 0] == logits.softmax(1)[1, 0] == 1
    first, second = Dissent().score(logits, torch.tensor([0, 0]))
    assert second > first


def _logits(*probabilities: tuple[float, float]) -> torch.Tensor:
    return torch.tensor(probabilities)[:, None].log()


@pytest.mark.parametrize(
    ("objective", "suspect", "peers", "found"),
    [
        (Dissent(), (0.4, 0.6), [(0.9, 0.1), (0.55, 0.45)], True),
        (Dissent(), (0.6, 0.4), [(0.9, 0.1), (0.55, 0.45)], False),  # the suspect is right
        (Dissent(), (0.4, 0.6), [(0.9, 0.1), (0.45, 0.55)], False),  # a peer is wrong too
        (Dissent(), (0.4, 0.6), [(0.9, 0.1), (0.5, 0.5)], False),  # a tie is not an answer
        (Dissent(0.9), (0.4, 0.6), [(0.91, 0.09), (0.89, 0.11)], False),  # a peer is not sure enough
        (Dissent(0.4), (0.4, 0.6), [(0.45, 0.55)], False),  # sure enough, but of another class
        (Dissent(0.9), (0.4, 0.6), [(0.91, 0.09), (0.92, 0.08)], True),
        (Dissent(0, 0.7), (0.4, 0.6), [(0.9, 0.1)], False),  # the suspect is not wrong enough
        (Dissent(0, 0.7), (0.2, 0.8), [(0.9, 0.1)], True),
        (Dissent(), (0.4, 0.6), [], True),
    ],
)
def test_found_means_what_the_paper_says(
    objective: Dissent, suspect: tuple[float, float], peers: list[tuple[float, float]], found: bool
) -> None:
    assert bool(objective.found(_logits(suspect, *peers), torch.tensor([0]))[0]) is found


def test_a_probability_above_one_is_refused() -> None:
    with pytest.raises(UserError, match=r"peer_confidence is 1\.5"):
        Dissent(peer_confidence=1.5)


@given(
    seed=st.integers(0, 10**6), networks=st.integers(1, 4), classes=st.integers(2, 6), spread=st.floats(0.1, 8),
    confidences=st.sampled_from(CONFIDENCES),
)  # fmt: skip
def test_found_is_when_every_slack_is_above_zero(
    seed: int, networks: int, classes: int, spread: float, confidences: tuple[float, float]
) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = spread * torch.randn(networks, 100, classes, dtype=torch.float64, generator=draw)
    aim = torch.randint(classes, (100,), generator=draw)
    for_class = torch.nn.functional.one_hot(aim, classes) * spread  # so that peers often hold the class, A seldom
    logits[1:] += for_class
    logits[:1] -= for_class
    objective = Dissent(*confidences)
    slack = objective.slack(logits, aim)
    assert slack.shape == (networks, 100)
    clear = (slack.abs() > 1e-9).all(0)
    assert torch.equal(objective.found(logits, aim)[clear], (slack > 0).all(0)[clear])


@pytest.mark.parametrize("confidences", CONFIDENCES)
def test_slack_counts_in_log_odds(confidences: tuple[float, float]) -> None:
    """Of two classes, a network's log-odds less those asked for; of the suspect, against the class."""
    logits = _logits((0.1, 0.9), (0.95, 0.05), (0.7, 0.3)).double()
    slack = Dissent(*confidences).slack(logits, torch.tensor([0]))[:, 0]
    peer, suspect = (max(0.0, math.log(c / (1 - c))) if c else 0.0 for c in confidences)
    expected = [math.log(9) - suspect, math.log(19) - peer, math.log(7 / 3) - peer]
    assert slack.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("confidences", CONFIDENCES)
def test_the_slope_of_slack_is_what_small_steps_show(confidences: tuple[float, float]) -> None:
    draw = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 20, 4, dtype=torch.float64, generator=draw).requires_grad_()
    aim = torch.randint(4, (20,), generator=draw)

    def slack(at: torch.Tensor) -> torch.Tensor:
        return Dissent(*confidences).slack(at, aim)

    slack(logits).sum().backward()
    assert logits.grad is not None
    step, plain = 1e-6, logits.detach()
    for network in range(3):
        for k in range(4):  # rows do not touch, so all 20 can be moved at once
            moved = torch.zeros_like(plain)
            moved[network, :, k] = step
            shown = (slack(plain + moved) - slack(plain - moved)).sum(0) / (2 * step)
            assert torch.allclose(shown, logits.grad[network, :, k], atol=1e-5)
    assert (logits.grad.abs().amax(2) > 0.1).all()  # every network has a slope everywhere


def test_nan_has_no_slack_above_zero() -> None:
    logits = _logits((0.1, 0.9), (0.9, 0.1))
    for network in range(2):
        broken = logits.clone()
        broken[network, 0, 1] = torch.nan
        assert not (Dissent().slack(broken, torch.tensor([0])) > 0).all()


def test_distances_by_hand() -> None:
    """A at (0, 1), peers at (0.9, 0.1), (0.6, 0.4) and (0.9, 0.1)."""
    logits = _logits((1e-9, 1 - 1e-9), (0.9, 0.1), (0.6, 0.4), (0.9, 0.1))
    aim, root = torch.tensor([0]), math.sqrt(2)
    apart, between = (0.9 + 0.6 + 0.9) * root / 3, (0.3 + 0.0 + 0.3) * root / 3
    assert float(Distances().score(logits, aim)[0]) == pytest.approx(apart - between, abs=1e-5)
    assert float(Distances().score(logits[:3], aim)[0]) == pytest.approx((1.5 / 2 - 0.3) * root, abs=1e-5)
    assert float(Distances().score(logits[:2], aim)[0]) == pytest.approx(0.9 * root, abs=1e-5)
    assert torch.equal(Distances().score(logits[:1], aim), Dissent().score(logits[0], aim))
    assert torch.equal(Distances(0.7).found(logits, aim), Dissent(0.7).found(logits, aim))


@pytest.mark.parametrize("networks", [1, 2, 4])
def test_climbing_distances(networks: int) -> None:
    """Finds, each one a find of Dissent too; and the way there went up, move by move."""
    basket = linear_basket(networks)
    trials = linear_trials(basket, 48)
    space, objective = Affine(degrees=8, percent=8, pixels=0.7), Distances()
    found = hill_climb(space, objective, basket, trials, suspect="A", patience=60)
    rows = (found.outcome == FOUND).nonzero()[:, 0].tolist()
    assert len(rows) > 5
    for row in rows:
        points, aim = space.start(trials.seeds[row : row + 1] / 255), trials.aims[row : row + 1]
        scores = [objective.score(basket.judge(space.render(points)), aim)]
        for draws in found.accepted.draws[found.accepted.row == row]:
            points = space.move(points, draws[None])
            scores.append(objective.score(basket.judge(space.render(points)), aim))
        climbed = torch.cat(scores)
        assert (climbed.diff() > -1e-5).all()
        pixels = (space.render(points).clamp(0, 1) * 255).round().to(torch.uint8)
        said = basket.predict(pixels).argmax(2)[:, 0].tolist()
        assert said[0] != int(aim)
        assert said[1:] == [int(aim)] * (networks - 1)
