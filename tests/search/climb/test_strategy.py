"""The evolution strategy's own parts, on functions whose answers are known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from one_line import Line, line_basket, line_trials
from torch import Tensor

from foible.errors import UserError
from foible.objectives import Dissent
from foible.search import strategy
from foible.search.climb.strategy import Around, Strategy
from foible.spaces import Affine

LANES = torch.arange(5)
SPACE = Affine()


def climb(
    fitness: Callable[[Tensor], Tensor], generations: int, collapse: float = 0.0, space: Affine = SPACE
) -> list[Around]:
    """The states that a strategy of nine members goes through; fitness: (n, members, draws) -> (n, members)."""
    breed = Strategy(space, 9, 2.0, collapse, seed=1)
    states = [breed.begin(LANES)]
    for generation in range(generations):
        members = breed.sample(states[-1], LANES, generation)
        states.append(breed.learn(states[-1], members, fitness(members)))
    return states


def test_goes_to_the_top_of_a_hill() -> None:
    top = torch.tensor([1.0, -2.0, 3.0, 0.0, -1.0, 2.0])
    last = climb(lambda x: -(x - top).square().sum(2), 150)[-1]
    assert float((last.mean - top).abs().max()) < 1e-3
    assert float(last.sigma.max()) < 1e-3


def test_learns_which_coordinates_are_steep() -> None:
    steep = torch.tensor([100.0, 1, 1, 1, 1, 1])
    spread = climb(lambda x: -(steep * x.square()).sum(2), 60)[-1].variance
    assert bool((spread[:, 0] < 0.2 * spread[:, 1:].mean(1)).all())


def test_steps_grow_on_a_slope() -> None:
    states = climb(lambda x: x[..., 4], 12, space=Affine(reach=500))
    assert float(states[-1].sigma.min()) > 4.0
    assert bool((states[-1].mean[:, 4] > 15).all())


def test_stays_in_the_box() -> None:
    breed = Strategy(SPACE, 9, 50.0, 0.0, seed=1)
    members = breed.sample(breed.begin(LANES), LANES, 0)
    ends = torch.tensor(SPACE.reaches)
    assert bool((members.abs() <= ends).all())
    assert bool((members.abs() == ends).any())
    torch.testing.assert_close(breed.paths(members)[:, :, 0], 0.5 + 0.5 * members)


def test_begins_anew_where_steps_have_collapsed() -> None:
    states = climb(lambda x: -(x - 1).square().sum(2), 120, collapse=0.2)
    for lane in range(len(LANES)):
        again = [k for k, state in enumerate(states) if k and float(state.sigma[lane]) == 2.0]
        assert again  # σ is back at its first value
        assert float(states[again[0] - 1].sigma[lane]) < 2.0
        for field in (states[again[0]].mean, states[again[0]].path, states[again[0]].drift):
            assert float(field[lane].abs().max()) == 0
    assert all(float(state.sigma.min()) >= 0.4 for state in states)


def test_a_coordinate_that_cannot_move_does_no_harm() -> None:
    space = Affine(reach=6.0, pixels=0.0)
    breed = Strategy(space, 9, 2.0, 0.0, seed=1)
    state = breed.begin(LANES)
    for generation in range(300):
        members = breed.sample(state, LANES, generation)
        state = breed.learn(state, members, -members[..., :2].square().sum(2))
    assert all(bool(field.isfinite().all()) for field in state)


def test_weights_fall_with_rank_and_sum_to_one() -> None:
    weights = Strategy(SPACE, 10, 2.0, 0.2, seed=0).weights
    assert len(weights) == 5
    assert float(weights.sum()) == pytest.approx(1)
    assert bool((weights.diff() < 0).all())
    assert bool((weights > 0).all())


@pytest.mark.parametrize("options", [{"sigma": 0.0}, {"collapse": 1.0}])
def test_senseless_options_are_named(options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"sigma is .* and collapse .*: expected above 0, and 0 to 1"):
        strategy(Line(), Dissent(), line_basket(1.0), line_trials(1), suspect="A", **options)  # type: ignore[arg-type]
