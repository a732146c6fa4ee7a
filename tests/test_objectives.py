from __future__ import annotations

import pytest
import torch

from foible.errors import UserError
from foible.objectives import Dissent
from foible.testing import check_objective


@pytest.mark.parametrize("objective", [Dissent(), Dissent(0.3), Dissent(0.9), Dissent(0.6, 0.7)])
def test_conforms(objective: Dissent) -> None:
    check_objective(objective)


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
