"""The genetic algorithm's own parts: who becomes a parent, what children are made of, what survives."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from foible.errors import UserError
from foible.objectives import Dissent
from foible.randomness import uniforms
from foible.search import genetic
from foible.search.climb.genetic import Genetic, Pool
from foible.search.task import FOUND
from foible.spaces import Swaps
from foible.testing import check_search, linear_basket, linear_trials

LANES = torch.tensor([0, 7, 11])


def idea(**changed: object) -> Genetic:
    settings = {
        "members": 40, "parents": 6, "moves": 5, "draws": 3, "elite": 2, "rivals": 2, "crossover": "uniform",
        "mutation": 0.0, "seed": 4,
    }  # fmt: skip
    return Genetic(**(settings | changed))  # type: ignore[arg-type]


def numbered(breed: Genetic) -> Pool:
    """A pool in which every draw says whose it is: parent + move / 100."""
    whose = torch.arange(breed.parents)[:, None, None] + torch.arange(breed.moves)[None, :, None] / 100
    genomes = whose.expand(len(LANES), -1, -1, breed.draws).contiguous()
    return Pool(genomes, torch.arange(breed.parents, 0, -1.0).repeat(len(LANES), 1))


def test_the_first_generation_is_drawn_evenly() -> None:
    breed = idea()
    first = breed.sample(breed.begin(LANES), LANES, 0)
    assert first.shape == (3, 40, 5, 3)
    assert 0 <= float(first.min()) < 0.02
    assert 0.98 < float(first.max()) < 1
    assert float(first.mean()) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("crossover", ["uniform", "one-point"])
def test_children_have_each_move_from_one_of_two_parents(crossover: str) -> None:
    breed = idea(crossover=crossover)
    children = breed.sample(numbered(breed), LANES, 3)
    owner = children.floor()
    assert torch.equal(owner[..., :1].expand_as(owner), owner)  # moves are inherited whole
    place = torch.arange(5)[:, None] / 100
    torch.testing.assert_close(children - owner, place.expand_as(children))  # and keep their place
    owner = owner[..., 0]
    mixed = 0
    for child in owner.flatten(0, 1).tolist():
        assert len(set(child)) <= 2
        mixed += len(set(child)) == 2
        if crossover == "one-point":
            assert sum(a != b for a, b in pairwise(child)) <= 1
    assert mixed > 60


def test_better_parents_have_more_children() -> None:
    breed = idea(members=2000)
    counts = breed.sample(numbered(breed), LANES, 1)[..., 0].floor().long().flatten().bincount(minlength=6).double()
    # The better of two out of six: place k with chance (2 (6 − k) − 1) / 36.
    expected = torch.tensor([11, 9, 7, 5, 3, 1]) / 36
    torch.testing.assert_close(counts / counts.sum(), expected.double(), atol=0.02, rtol=0)


def test_mutation_draws_anew() -> None:
    never, always = idea(), idea(mutation=1.0)
    fresh = uniforms(4, LANES[:, None], 3, member=torch.arange(40), stream="genetic.moves", count=15)
    assert torch.equal(always.sample(numbered(always), LANES, 3), fresh.view(3, 40, 5, 3))
    some = idea(mutation=0.2, members=2000)
    changed = some.sample(numbered(some), LANES, 3) != idea(members=2000).sample(numbered(never), LANES, 3)
    assert float(changed.float().mean()) == pytest.approx(0.2, abs=0.01)


def test_the_elite_survives_worse_children_and_nobody_else_does() -> None:
    breed = idea()
    pool = numbered(breed)
    children = torch.full((3, 40, 5, 3), -1.0)
    after = breed.learn(pool, children, torch.linspace(0.9, 0.1, 40).repeat(3, 1))
    assert after.fitness[0].tolist() == pytest.approx([6.0, 5.0, *torch.linspace(0.9, 0.1, 40)[:4].tolist()])
    assert torch.equal(after.genomes[:, :2], pool.genomes[:, :2])
    assert bool((after.genomes[:, 2:] == -1).all())


def test_works_where_there_is_no_box() -> None:
    check_search(genetic, Swaps())
    basket = linear_basket()
    trials = linear_trials(basket, 12)
    found = genetic(Swaps(), Dissent(), basket, trials, suspect="A", moves=20)
    assert bool((found.outcome == FOUND).any())
    assert torch.bincount(found.accepted.row).tolist() == [20] * 12
    for row in range(12):  # a path's moves in their order
        assert found.accepted.step[found.accepted.row == row].diff().tolist() == [1] * 19


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"crossover": "two-point"}, "crossover is 'two-point': expected 'uniform' or 'one-point'"),
        ({"mutation": 1.5}, "mutation is 1.5: expected a share from 0 to 1"),
        ({"moves": 0}, "moves is 0: expected at least 1"),
        ({"parents": 50}, "members is 30: expected at least 50"),
    ],
)
def test_senseless_options_are_named(options: dict[str, object], said: str) -> None:
    basket = linear_basket()
    with pytest.raises(UserError, match=said):
        genetic(Swaps(), Dissent(), basket, linear_trials(basket, 2), suspect="A", **options)  # type: ignore[arg-type]
