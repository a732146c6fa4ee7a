"""What the multi-point searches promise alike: known answers on one line, costs, budgets, NaN, and lanes apart."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from one_line import Line, ends, line_basket, line_trials
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.objectives import Dissent, Distances
from foible.search import SEARCHES, genetic, pbil, strategy
from foible.search.climb.jury import REFUSED, Jury
from foible.search.task import EXHAUSTED, FOUND, INVALID
from foible.spaces import Affine, Swaps
from foible.testing import check_search, linear_basket, linear_trials

ALL = [genetic, pbil, strategy]
EACH = pytest.mark.parametrize("search", ALL)


@pytest.mark.parametrize("search", [*ALL, *(partial(search, width=7, generations=20) for search in ALL)])
def test_conforms(search: Any) -> None:
    check_search(search)


class Plain:
    """Dissent without its slack: an objective that can only say yes or no about the peers."""

    inner = Dissent(0.4)

    def score(self, logits: Tensor, aim: Tensor) -> Tensor:
        return self.inner.score(logits, aim)

    def allows(self, logits: Tensor, aim: Tensor) -> Tensor:
        return self.inner.allows(logits, aim)

    def found(self, logits: Tensor, aim: Tensor) -> Tensor:
        return self.inner.found(logits, aim)


@EACH
@pytest.mark.parametrize("objective", [Plain(), Distances()])
def test_conforms_with_other_objectives(search: Any, objective: Any) -> None:
    check_search(partial(search, generations=20), objective=objective)


@EACH
def test_finds_exactly_between_the_boundaries(search: Any) -> None:
    """The suspect lets go at 3 largest moves, the first peer at 3.5: only what lies between is a mistake."""
    trials = line_trials(12)
    found = search(Line(), Dissent(), line_basket(3.0, 3.5, 9.0), trials, suspect="A", generations=300)
    assert (found.outcome == FOUND).all()
    where = ends(found, 12)
    assert bool(((where > 2.9) & (where < 3.6)).all())  # 8 bits round by 0.05 largest moves


@EACH
def test_finds_nothing_where_nothing_is(search: Any) -> None:
    trials = line_trials(4)
    found = search(Line(), Dissent(), line_basket(3.5, 3.0, 9.0), trials, suspect="A", generations=20)
    assert (found.outcome == EXHAUSTED).all()
    where = ends(found, 4)  # its best is where the peer and the suspect are as near as can be to what is asked
    assert bool(((where > 2.0) & (where < 4.5)).all())


@EACH
def test_without_peers_the_suspect_alone_decides(search: Any) -> None:
    found = search(Line(), Dissent(), line_basket(2.0), line_trials(5), suspect="A")
    assert (found.outcome == FOUND).all()
    assert bool((ends(found, 5) > 1.9).all())


@EACH
@pytest.mark.parametrize("thresholds", [(3.0, 3.4, 9.0, 9.0), (3.4, 3.0, 9.0, 9.0), (2.0,), (2.0, 4.0)])
def test_forwards_are_exactly_what_the_networks_saw(search: Any, thresholds: tuple[float, ...]) -> None:
    basket = line_basket(*thresholds)
    found = search(Line(), Dissent(), basket, line_trials(9), suspect="A", generations=12, width=4)
    recorded = len(found.accepted.row) * len(basket)  # the moves of the best, judged for the record
    assert int(found.forwards.sum()) == basket.seen - recorded
    assert int(found.backwards.sum()) == 0


@EACH
def test_peers_are_asked_less_than_the_suspect(search: Any) -> None:
    basket = line_basket(3.4, 3.0, 9.0, 9.0)
    found = search(Line(), Dissent(), basket, line_trials(6), suspect="A", members=20, generations=12)
    assert bool((found.forwards < 3 * found.candidates).all())  # with four networks: 4 if all were asked about all


@EACH
def test_a_budget_stops_a_lane(search: Any) -> None:
    basket, trials = linear_basket(), linear_trials(linear_basket(), 20)
    run = partial(search, Affine(), Dissent(0.7), basket, trials, suspect="A", generations=40)
    free = run()
    assert int(free.forwards.max()) > 400
    for most in (3, 40, 200):
        capped = run(budget=Budget(forwards=most))
        assert int(capped.forwards.max()) <= most + 2 * len(basket)
        assert bool((capped.forwards >= most)[capped.outcome == EXHAUSTED].all())  # and all of it is used
        early = free.forwards <= most
        assert torch.equal(capped.outcome[early], free.outcome[early])


@EACH
def test_a_broken_lane_leaves_the_others_alone(search: Any) -> None:
    trials = line_trials(6, marked=(2,))
    broken = search(Line(), Dissent(), line_basket(3.0, 3.5, breaks="A"), trials, suspect="A", generations=100)
    whole = search(Line(), Dissent(), line_basket(3.0, 3.5), line_trials(6), suspect="A", generations=100)
    others = torch.arange(6) != 2
    assert int(broken.outcome[2]) == INVALID
    assert torch.equal(broken.outcome[others], whole.outcome[others])
    assert torch.equal(broken.forwards[others], whole.forwards[others])


@EACH
def test_a_peer_that_answers_nan_holds_nothing(search: Any) -> None:
    trials = line_trials(3, marked=(0, 1, 2))
    found = search(Line(), Dissent(), line_basket(3.0, 9.0, breaks="B"), trials, suspect="A", generations=5)
    assert not bool((found.outcome == FOUND).any())


@EACH
def test_the_seed_decides(search: Any) -> None:
    basket = linear_basket()
    run = partial(search, Affine(), Dissent(), basket, linear_trials(basket, 10), suspect="A")
    one, again, other = run(seed=1), run(seed=1), run(seed=2)
    assert torch.equal(one.accepted.draws, again.accepted.draws)
    assert torch.equal(one.forwards, again.forwards)
    assert not torch.equal(one.forwards, other.forwards)


@EACH
def test_progress_hears_of_every_trial_once(search: Any) -> None:
    basket, heard = linear_basket(), []
    search(
        Affine(), Dissent(0.7), basket, linear_trials(basket, 25), suspect="A", width=7, generations=4,
        tick=heard.append,
    )  # fmt: skip
    assert sum(heard) == 25


@EACH
def test_no_trials_are_no_work(search: Any) -> None:
    found = search(Line(), Dissent(), line_basket(1.0, 2.0), line_trials(0), suspect="A")
    assert len(found.outcome) == len(found.accepted.row) == 0


@pytest.mark.parametrize("search", [pbil, strategy])
def test_a_space_without_a_box_is_named(search: Any) -> None:
    basket = linear_basket()
    with pytest.raises(UserError, match=r"swaps has no box.*use hill-climb or genetic"):
        search(Swaps(), Dissent(), basket, linear_trials(basket, 2), suspect="A")


@EACH
@pytest.mark.parametrize("options", [{"generations": 0}, {"width": 0}, {"members": 0}])
def test_senseless_options_are_named(search: Any, options: dict[str, int]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} is 0: expected at least"):
        search(Line(), Dissent(), line_basket(1.0), line_trials(2), suspect="A", **options)


def test_searches_have_their_names() -> None:
    assert SEARCHES["genetic"] is genetic
    assert SEARCHES["pbil"] is pbil
    assert SEARCHES["strategy"] is strategy


def brute_force(basket: Any, objective: Dissent, places: Tensor) -> Tensor:
    """Fitness of places (n, members) in largest moves, every network asked about every member."""
    images = torch.zeros(places.numel(), 1, 1, 2)
    images[:, 0, 0, 0] = 0.5 + 0.04 * places.flatten()
    aim = torch.zeros(len(images), dtype=torch.int64)
    logits = basket.judge(images)
    lacking = objective.slack(logits, aim)[1:].clamp(max=0).sum(0)
    return (objective.score(logits[0], aim) + 2 * lacking).view_as(places)


@pytest.mark.parametrize("parents", [1, 3, 8])
def test_the_best_are_as_if_everyone_had_been_asked(parents: int) -> None:
    basket, objective = line_basket(4.0, 2.0, 3.0, 8.0), Dissent(0.6)
    places = 20 * torch.rand(6, 8, generator=torch.Generator().manual_seed(0)) - 10
    expected = brute_force(basket, objective, places)
    basket.seen = 0
    trials = line_trials(6)
    verdict = Jury(Line(), objective, basket, "A", "float32").judge(
        Line().start(trials.seeds), trials.aims, (0.5 + 0.5 * places)[..., None, None], parents,
        torch.full((6,), 10_000),
    )  # fmt: skip
    assert torch.equal(verdict.fitness.topk(parents).indices, expected.topk(parents).indices)
    torch.testing.assert_close(verdict.fitness.topk(parents).values, expected.topk(parents).values)
    assert bool((verdict.fitness >= expected - 1e-4).all())  # the others: never less than they are worth
    assert bool(verdict.exact.gather(1, expected.topk(parents).indices).all())
    assert int(verdict.spent.sum()) == basket.seen
    if parents < 8:
        assert basket.seen < 4 * places.numel()


def test_peers_that_only_refuse_cost_more_than_any_score() -> None:
    jury = Jury(Line(), Plain(), line_basket(4.0, 2.0), "A", "float32")
    trials = line_trials(1)
    paths = (0.5 + 0.5 * torch.tensor([[9.0, -9.0]]))[..., None, None]
    verdict = jury.judge(Line().start(trials.seeds), trials.aims, paths, 2, torch.tensor([100]))
    assert float(verdict.fitness[0, 0]) < -REFUSED / 2 < float(verdict.fitness[0, 1])
