"""PBIL's own parts: the code, what a generation teaches, and beginning anew."""

from __future__ import annotations

import pytest
import torch
from one_line import Line, line_basket, line_trials

from foible.errors import UserError
from foible.objectives import Dissent
from foible.search import pbil
from foible.search.climb.pbil import Pbil, places

LANES = torch.tensor([3, 8])


def idea(**changed: object) -> Pbil:
    settings = {"space": Line(), "members": 400, "bits": 4, "rate": 0.25, "shake": 0.0, "certain": 0.8, "seed": 0}
    return Pbil(**(settings | changed))  # type: ignore[arg-type]


def test_the_code_is_grays_and_fills_the_box_evenly() -> None:
    codes = torch.tensor([[code >> bit & 1 for bit in (3, 2, 1, 0)] for code in range(16)]).float()
    where = places(codes)
    order = where.argsort()
    torch.testing.assert_close(where[order], torch.arange(16) / 8 - 15 / 16)
    assert codes[order].diff(dim=0).abs().sum(1).tolist() == [1] * 15  # neighbours differ in one bit


def test_members_follow_the_chances() -> None:
    breed = idea()
    state = breed.begin(LANES)
    assert float(breed.sample(state, LANES, 0).mean()) == pytest.approx(0.5, abs=0.03)
    sure = state._replace(chance=torch.tensor([[0.0, 1.0, 0.25, 1.0]] * 2))
    mean = breed.sample(sure, LANES, 0).mean(1)
    torch.testing.assert_close(mean, sure.chance, atol=0.07, rtol=0)
    assert mean[:, [0, 1, 3]].tolist() == [[0, 1, 1]] * 2


def test_chances_move_towards_the_best_member() -> None:
    breed = idea(members=3)
    genomes = torch.tensor([[[0, 0, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]]] * 2).float()
    after = breed.learn(breed.begin(LANES), genomes, torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]]))
    torch.testing.assert_close(after.chance, torch.tensor([[0.625, 0.375, 0.625, 0.625], [0.375] * 4]))


def test_shaking_reaches_its_share_of_the_chances() -> None:
    breed = idea(shake=0.3, rate=0.0, bits=24)
    state = breed.begin(torch.arange(200))
    chance = breed.learn(state, torch.zeros(200, 1, 24), torch.zeros(200, 1)).chance
    values, counts = chance.unique(return_counts=True)
    torch.testing.assert_close(values, torch.tensor([0.475, 0.5, 0.525]))
    torch.testing.assert_close(counts / counts.sum(), torch.tensor([0.15, 0.7, 0.15]), atol=0.02, rtol=0)


def test_a_certain_lane_begins_anew_and_the_other_goes_on() -> None:
    breed = idea(members=1)
    state = breed.begin(LANES)._replace(chance=torch.tensor([[0.05, 0.05, 0.95, 0.95], [0.5, 0.5, 0.95, 0.95]]))
    after = breed.learn(state, torch.tensor([[[0.0, 0, 1, 1]]] * 2), torch.zeros(2, 1))
    assert after.chance[0].tolist() == [0.5] * 4
    assert float(after.chance[1].max()) > 0.95


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": 1.5}, "rate is 1.5: expected 0 to 1"),
        ({"bits": 0}, "bits is 0: expected at least 1"),
        ({"bits": 60}, "bits is 60: expected at most 24"),
    ],
)
def test_senseless_options_are_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        pbil(Line(), Dissent(), line_basket(1.0), line_trials(1), suspect="A", **options)  # type: ignore[arg-type]
