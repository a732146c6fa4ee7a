"""MAP-Elites: the right cells and no others, elites that only get better, paths that replay, costs that add up."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Basket, Budget
from foible.errors import UserError
from foible.images import settle, to_floats
from foible.objectives import Dissent, Distances
from foible.search import SEARCHES, Found, Trials, map_elites
from foible.search.elites.variation import Boxed
from foible.search.task import EXHAUSTED, FOUND, INVALID
from foible.search.walking import retrace
from foible.spaces import Affine
from foible.testing import CLASSES, SHAPE, Counting, linear_basket, linear_network, linear_trials

SPACE = Affine(degrees=8, percent=8, shear=8, pixels=0.7)


class Lit(NamedTuple):
    image: Tensor
    light: Tensor


class Lights:
    """A box of two kinds with an exact answer: `left` and `right` light up one pixel each, 0.05 a largest move."""

    draws, kinds, reaches = 2, ("left", "right"), (5.0, 5.0)

    def start(self, seeds: Tensor) -> Lit:
        return Lit(seeds, torch.zeros(len(seeds), 2))

    def move(self, points: Lit, uniforms: Tensor) -> Lit:
        return Lit(points.image, points.light + 2 * uniforms - 1)

    def render(self, points: Lit) -> Tensor:
        flat = points.image.flatten(1)
        lit = flat[:, :2] + 0.05 * points.light
        return torch.cat([lit, flat[:, 2:]], 1).view_as(points.image)

    def draws_of(self, points: Lit) -> Tensor:
        return 0.5 + 0.5 * points.light


class Walks(Lights):
    """The same, but no box: only small moves."""

    reaches = ()


class Meter(nn.Module):
    """Says 1 once the left light is above 1.5 largest moves, 2 once the right one is above 2.5, else 0."""

    def __init__(self, marks: tuple[float, float]) -> None:
        super().__init__()
        self.marks = torch.tensor(marks)

    def forward(self, images: Tensor) -> Tensor:
        light = (images.flatten(1)[:, :2] - 0.5) / 0.05
        return torch.cat([torch.zeros(len(images), 1), light - self.marks], 1)


def meters(*networks: nn.Module) -> tuple[Basket, Trials]:
    """A suspect A that is wrong early, peers that hold on longer, and grey seed images of class 0."""
    members = dict(zip("ABCD", networks or (Meter((1.5, 2.5)), Meter((4.0, 100.0))), strict=False))
    basket = Basket(members, classes=["0", "1", "2"], preprocess="inside", shape=(1, 4, 4))
    seeds = torch.full((6, 1, 4, 4), 0.5)
    return basket, Trials(torch.arange(6), seeds, torch.zeros(6, dtype=torch.int64))


def replayed(space: Any, objective: Any, basket: Basket, trials: Trials, found: Found) -> tuple[Tensor, Tensor, Tensor]:
    """Of the found rows: trial, draws of the path summed up in largest moves, and what everybody says of the pixels."""
    assert found.trial is not None
    rows = (found.outcome == FOUND).nonzero()[:, 0]
    mine = trials.rows(found.trial[rows])
    paths = [found.accepted.draws[found.accepted.row == row] for row in rows.tolist()]
    points = retrace(space, to_floats(mine.seeds), paths)
    logits = basket.judge(settle(space.render(points))[: len(rows)], ["A", *basket.peers("A")])
    assert bool(objective.found(logits, mine.aims).all()), "what is called found is found on settled pixels"
    amounts = torch.stack([(2 * path - 1).sum(0) for path in paths])
    return found.trial[rows], amounts, logits


def scanned(basket: Basket, trials: Trials, objective: Any) -> dict[tuple[int, ...], int]:
    """Every cell that has a find in it, by a full scan of the box: the exact answer, and how large each cell is."""
    ticks = torch.linspace(-5, 5, 201)
    amounts = torch.cartesian_prod(ticks, ticks)
    space, box = Lights(), Boxed(Lights(), trials.seeds)
    seeds, aims = trials.seeds[:1].expand(len(amounts), -1, -1, -1), trials.aims[:1].expand(len(amounts))
    logits = basket.judge(settle(space.render(space.move(space.start(seeds), 0.5 + 0.5 * amounts))))
    some = objective.found(logits, aims)
    parts = (logits[0].argmax(1)[some], box.kind(amounts)[some], box.bin(amounts)[some])
    return dict(Counter(zip(*(part.tolist() for part in parts), strict=True)))


@pytest.mark.parametrize("objective", [Dissent(), Dissent(0.6, 0.5)])
def test_cells_are_those_of_a_full_scan(objective: Dissent) -> None:
    basket, trials = meters()
    exact = scanned(basket, trials, objective)
    found = map_elites(Lights(), objective, basket, trials, suspect="A", steps=80, width=100)
    _, amounts, logits = replayed(Lights(), objective, basket, trials, found)
    box = Boxed(Lights(), trials.seeds)
    cells = list(zip(logits[0].argmax(1).tolist(), box.kind(amounts).tolist(), box.bin(amounts).tolist(), strict=True))
    assert len(set(cells)) == len(cells), "one elite a cell"
    assert set(cells) <= set(exact)
    assert {cell for cell, points in exact.items() if points > 100} <= set(cells)
    assert len(exact) > 6
    assert all(size >= said for said, _, size in exact), "1.5 and 2.5 largest moves: smaller cells stay empty"


def test_each_elite_goes_towards_the_best_of_its_cell() -> None:
    """The score of class 1 rises with left and hangs little on right: the best below 2 is at 2, of all at 4."""
    basket, trials = meters()
    found = map_elites(Lights(), Dissent(), basket, trials, suspect="A", steps=200, width=50)
    _, amounts, logits = replayed(Lights(), Dissent(), basket, trials, found)
    box = Boxed(Lights(), trials.seeds)
    place = {
        key: amounts[row]
        for row, key in enumerate(
            zip(logits[0].argmax(1).tolist(), box.kind(amounts).tolist(), box.bin(amounts).tolist(), strict=True)
        )
    }
    assert float(place[1, 0, 1][0]) == pytest.approx(2, abs=0.15)
    assert float(place[1, 0, 2][0]) == pytest.approx(4, abs=0.15)
    assert float(place[2, 1, 3][1]) == pytest.approx(5, abs=0.15)  # the end of the box


def test_elites_only_get_better() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 20)
    box = Boxed(SPACE, to_floats(trials.seeds))
    before: dict[tuple[int, ...], float] = {}
    improved = 0
    for steps in (12, 30, 70):
        found = map_elites(SPACE, Dissent(), basket, trials, suspect="A", steps=steps, width=40)
        trial, amounts, logits = replayed(SPACE, Dissent(), basket, trials, found)
        aims = trials.aims[trial]
        score = Dissent().score(logits[0], aims).tolist()
        keys = zip(
            aims.tolist(), logits[0].argmax(1).tolist(), box.kind(amounts).tolist(), box.bin(amounts).tolist(),
            strict=True,
        )  # fmt: skip
        now = dict(zip(keys, score, strict=True))
        assert set(before) <= set(now), "a cell that is filled stays filled"
        for cell, old in before.items():
            assert now[cell] >= old - 0.05  # judged on settled pixels here, before settling there
            improved += now[cell] > old + 0.05
        assert len(now) > len(before)
        before = now
    assert improved > 0


@pytest.mark.parametrize("objective", [Dissent(), Dissent(0.4), Distances()])
@pytest.mark.parametrize("space", [SPACE, Affine(resample="each"), Walks()])
def test_paths_replay_from_their_own_trial(space: Any, objective: Any) -> None:
    if isinstance(space, Walks):
        basket, trials = meters()
    else:
        basket = linear_basket()
        trials = linear_trials(basket, 20)
    found = map_elites(space, objective, basket, trials, suspect="A", seed=3, steps=40, width=50)
    trial, _, _ = replayed(space, objective, basket, trials, found)
    assert len(trial) > 1
    for row in (found.outcome == FOUND).nonzero()[:, 0].tolist():
        steps = found.accepted.step[found.accepted.row == row]
        assert torch.equal(steps, steps.sort().values)


def test_without_a_box_the_size_is_the_number_of_moves() -> None:
    basket, trials = meters()
    found = map_elites(Walks(), Dissent(), basket, trials, suspect="A", steps=80, width=60)
    replayed(Walks(), Dissent(), basket, trials, found)
    lengths = torch.bincount(found.accepted.row, minlength=len(found.outcome))[found.outcome == FOUND]
    bins = [int(length >= 4) + int(length >= 16) + int(length >= 64) for length in lengths.tolist()]
    assert len(set(bins)) >= 2, "short and long ways are cells of their own"
    assert len(bins) <= 2 * 4


def test_trials_without_a_find_have_a_row_and_the_rest_theirs() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 30)
    found = map_elites(SPACE, Dissent(), basket, trials, suspect="A", steps=40, width=50)
    assert found.trial is not None
    assert sorted(set(found.trial.tolist())) == list(range(30))
    assert torch.equal(found.trial, found.trial.sort().values)
    fruitful = set(found.trial[found.outcome == FOUND].tolist())
    assert set(found.trial[found.outcome == EXHAUSTED].tolist()) == set(range(30)) - fruitful
    assert fruitful
    moves = torch.bincount(found.accepted.row, minlength=len(found.outcome))
    assert bool((moves[found.outcome == FOUND] == 1).all())
    assert bool((moves[found.outcome == EXHAUSTED] == 0).all())


@pytest.mark.parametrize("objective", [Dissent(), Distances()])
def test_the_rows_sum_to_what_the_networks_saw(objective: Any) -> None:
    networks = {name: Counting(linear_network(i)) for i, name in enumerate("ABC")}
    basket = Basket(networks, classes=[str(i) for i in range(CLASSES)], preprocess="inside", shape=SHAPE)
    trials = linear_trials(linear_basket(), 12)
    # One child a step: every call is one inference, padded to the least number of rows.
    found = map_elites(SPACE, objective, basket, trials, suspect="A", steps=150, width=1)
    calls = {name: len(basket.network(name).calls) for name in "ABC"}  # type: ignore[union-attr]
    assert int(found.forwards.sum()) == sum(calls.values())
    assert int(found.candidates.sum()) == 150
    assert bool((found.outcome == FOUND).any())
    if isinstance(objective, Distances):
        assert calls["A"] == calls["B"] == calls["C"]
    else:
        assert 0 < calls["C"] < calls["B"] < calls["A"]  # peers are asked only about what would enter


@pytest.mark.parametrize("forwards", [1, 40, 100])
def test_a_budget_is_kept(forwards: int) -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 20)
    found = map_elites(SPACE, Dissent(), basket, trials, suspect="A", width=64, budget=Budget(forwards=forwards))
    spent = int(found.forwards.sum())
    assert 20 * forwards - 2 * 3 < spent <= 20 * forwards
    few = map_elites(SPACE, Dissent(), basket, trials, suspect="A", width=10, steps=2, budget=Budget(forwards=forwards))
    assert int(few.candidates.sum()) <= 20


def test_the_same_again_and_other_with_another_seed_or_unit() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 20)
    one, two, other = (
        map_elites(SPACE, Dissent(), basket, trials, suspect="A", seed=seed, steps=10, width=40) for seed in (1, 1, 2)
    )
    assert torch.equal(one.accepted.draws, two.accepted.draws)
    assert torch.equal(one.forwards, two.forwards)
    assert not torch.equal(one.accepted.draws, other.accepted.draws)
    later = trials._replace(lanes=trials.lanes + 100)
    unit = map_elites(SPACE, Dissent(), basket, later, suspect="A", seed=1, steps=10, width=40)
    assert not torch.equal(one.accepted.draws, unit.accepted.draws), "another unit draws other numbers"


class Blind(nn.Module):
    """NaN for images that are bright at the corner, else the meter's answer."""

    def __init__(self) -> None:
        super().__init__()
        self.meter = Meter((1.5, 2.5))

    def forward(self, images: Tensor) -> Tensor:
        answer = self.meter(images)
        return torch.where(images[:, 0, -1, -1:] > 0.9, torch.nan, answer)


def test_nan_is_an_outcome_of_its_trial_alone() -> None:
    basket, trials = meters(Blind(), Meter((4.0, 100.0)))
    trials.seeds[2:4, :, -1, -1] = 1.0
    found = map_elites(Lights(), Dissent(), basket, trials, suspect="A", steps=40, width=50)
    assert found.trial is not None
    assert found.trial[found.outcome == INVALID].tolist() == [2, 3]
    assert 2 not in found.trial[found.outcome == FOUND]
    assert bool((found.outcome == FOUND).any())
    assert int(found.candidates[found.outcome == INVALID].max()) <= 50, "nobody goes on asking"
    trials.seeds[:, :, -1, -1] = 1.0
    bad = map_elites(Lights(), Dissent(), basket, trials, suspect="A", steps=40, width=50)
    assert bad.outcome.tolist() == [INVALID] * 6
    assert int(bad.forwards.sum()) == 50


def test_a_kind_that_cannot_move_is_left_alone() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 10)
    still = Affine(degrees=0, percent=20, shear=0, pixels=0)
    found = map_elites(still, Dissent(), basket, trials, suspect="A", steps=40, width=40)
    assert bool((found.outcome == FOUND).any())
    assert torch.equal(found.accepted.draws[:, [0, 3, 4, 5]], torch.full((len(found.accepted.row), 4), 0.5))
    nothing = Affine(degrees=0, percent=0, shear=0, pixels=0)
    with pytest.raises(UserError, match="changes anything"):
        map_elites(nothing, Dissent(), basket, trials, suspect="A", steps=4)


def test_no_peers_no_trials_and_wrong_options() -> None:
    basket, trials = meters(Meter((1.5, 2.5)))
    alone = map_elites(Lights(), Dissent(), basket, trials, suspect="A", steps=20, width=20)
    assert bool((alone.outcome == FOUND).any())
    none = map_elites(Lights(), Dissent(), basket, trials.rows(torch.arange(0)), suspect="A")
    assert len(none.outcome) == 0
    for wrong in ({"width": 0}, {"steps": 0}):
        with pytest.raises(UserError, match="at least 1"):
            map_elites(Lights(), Dissent(), basket, trials, suspect="A", **wrong)
    assert SEARCHES["map-elites"] is map_elites


def test_progress_hears_of_every_trial_once() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 25)
    for options in ({"steps": 7}, {"budget": Budget(forwards=30)}, {"steps": 7, "budget": Budget(forwards=30)}):
        heard: list[int] = []
        map_elites(SPACE, Dissent(), basket, trials, suspect="A", width=20, tick=heard.append, **options)
        assert sum(heard) == 25
        assert len(heard) > 1
