"""What the multi-point searches share: lanes that are whole populations (paper 1, Sec. 2, end).

A lane is one population around one seed image. In each generation an idea (genetic, PBIL, strategy) samples members,
every one a path of moves from the seed; the jury judges them (`jury.py` says what their fitness is); the idea learns. A
lane ends when it finds, when its budget is spent, or after `generations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.images import to_floats
from foible.objectives import Objective
from foible.search.asking import trace_of
from foible.search.climb.jury import Jury, Verdict, best
from foible.search.task import EXHAUSTED, FOUND, INVALID, Accepted, Found, Trials, some_rows
from foible.spaces import is_box

PIXELS = {"cpu": 3_000_000, "cuda": 150_000_000}  # that share a batch: what a cache holds, and what a GPU likes
FOREVER = 1 << 40  # more inferences than anybody spends


class Idea(Protocol):
    """One way to breed, n lanes at once. Its state is a NamedTuple of tensors with a row a lane."""

    @property
    def members(self) -> int:
        """Sampled in each generation."""

    @property
    def parents(self) -> int:
        """How many of the best it learns from."""

    @property
    def moves(self) -> int:
        """Moves in the path of a member."""

    def begin(self, lanes: Tensor) -> Any:
        """The state of lanes (n,) that have seen nothing."""

    def sample(self, state: Any, lanes: Tensor, generation: int) -> Tensor:
        """(n, members, ...): the genomes of the next generation."""

    def paths(self, genomes: Tensor) -> Tensor:
        """(n, members, moves, draws): the moves that genomes stand for."""

    def learn(self, state: Any, genomes: Tensor, fitness: Tensor) -> Any:
        """The next state. fitness: (n, members), exact for the `parents` best, an upper bound for all others."""


def need_box(space: Any, search: str) -> None:
    """Refuse a space in which no single move leads anywhere."""
    if not is_box(space):
        name = type(space).__name__.lower()
        raise UserError(f"{name} has no box, which {search} searches: use hill-climb or genetic")


def need_at_least(least: int, **options: int | None) -> None:
    for name, value in options.items():
        if value is not None and value < least:
            raise UserError(f"{name} is {value}: expected at least {least}")


def pick(genomes: Tensor, index: Tensor) -> Tensor:
    """genomes (n, members, ...) at index (n, k): (n, k, ...)."""
    return genomes[torch.arange(len(genomes), device=genomes.device)[:, None], index]


def _chunks(rows: Tensor, size: int) -> list[Tensor]:
    """These rows, at most `size` at a time; no rows are no chunks."""
    return list(rows.split(size)) if len(rows) else []


class _Book:
    """What each of n trials has come to so far, and the path of its best member."""

    def __init__(self, count: int, moves: int, draws: int, device: torch.device) -> None:
        self.outcome = torch.full((count,), EXHAUSTED, device=device)
        self.candidates = torch.zeros(count, dtype=torch.int64, device=device)
        self.forwards = torch.zeros_like(self.candidates)
        self.fitness = torch.full((count,), -torch.inf, device=device)  # of the best member that everyone judged
        self.number = torch.full_like(self.candidates, -1)  # which candidate of its lane that is
        self.path = torch.zeros(count, moves, draws, device=device)

    def enter(self, rows: Tensor, paths: Tensor, verdict: Verdict) -> None:
        """A generation of these rows. What is found is the best, even where another was fitter before rounding."""
        found = verdict.hit >= 0
        fitness = verdict.fitness.where(verdict.exact, -torch.inf)
        top = torch.where(found, verdict.hit, best(fitness, 1)[:, 0])
        value = torch.where(found, torch.inf, pick(fitness, top[:, None])[:, 0])
        better = (value > self.fitness[rows]).nonzero()[:, 0]
        self.fitness[rows[better]] = value[better]
        self.number[rows[better]] = self.candidates[rows[better]] + top[better]
        self.path[rows[better]] = paths[better, top[better]]
        self.candidates[rows] += verdict.tried
        self.forwards[rows] += verdict.spent
        self.outcome[rows[found]] = FOUND
        self.outcome[rows[verdict.broken]] = INVALID


@torch.no_grad()
def evolve(
    idea: Idea,
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    generations: int,
    width: int | None,
    budget: Budget | None,
    precision: Precision,
    tick: Callable[[int], None] | None,
) -> Found:
    """Breed every lane of `trials`, `width` of them in a batch (default: by image size)."""
    need_at_least(1, generations=generations, width=width, parents=idea.parents)
    need_at_least(idea.parents, members=idea.members)
    jury, device, count = Jury(space, objective, basket, suspect, precision), basket.device, len(trials.lanes)
    limit = FOREVER if budget is None or budget.forwards is None else budget.forwards
    width = width or max(1, PIXELS[device.type] // max(1, idea.members * trials.seeds[:1].numel()))
    book = _Book(count, idea.moves, space.draws, device)
    for rows in _chunks(torch.arange(count, device=device), width):
        taken = trials.rows(rows.to(trials.lanes.device))
        lanes, aims = taken.lanes.to(device), taken.aims.to(device)
        start, state = space.start(to_floats(taken.seeds.to(device))), idea.begin(lanes)
        for generation in range(generations):
            genomes = idea.sample(state, lanes, generation)
            paths = idea.paths(genomes)
            verdict = jury.judge(start, aims, paths, idea.parents, limit - book.forwards[rows])
            book.enter(rows, paths, verdict)
            going = (book.outcome[rows] == EXHAUSTED) & (book.forwards[rows] < limit) & (generation + 1 < generations)
            if tick is not None and not going.all():
                tick(int((~going).sum()))
            if not going.any():
                break
            state = idea.learn(state, genomes, verdict.fitness)
            if not going.all():
                keep = going.nonzero()[:, 0]
                rows, lanes, aims = rows[keep], lanes[keep], aims[keep]
                start, state = some_rows(start, keep), some_rows(state, keep)
    accepted = _recorded(space, basket, trials, jury.everyone, book, width * idea.members)
    forwards = book.forwards.cpu()
    return Found(book.outcome.cpu(), book.candidates.cpu(), forwards, torch.zeros_like(forwards), accepted)


def _recorded(space: Any, basket: Basket, trials: Trials, everyone: list[str], book: _Book, batch: int) -> Accepted:
    """The path of each lane's best member, move by move, with what every network says on the way.

    These answers are for the record and not counted: the search did not need them. `step` is the member's number among
    its lane's candidates times the moves of a path, and the move's place in it.
    """
    moves = book.path.shape[1]
    events: list[tuple[Tensor, ...]] = []
    for rows in _chunks((book.number >= 0).nonzero()[:, 0], batch):
        taken = trials.rows(rows.to(trials.lanes.device))
        points, aims = space.start(to_floats(taken.seeds.to(basket.device))), taken.aims.to(basket.device)
        for place, draws in enumerate(book.path[rows].unbind(1)):
            points = space.move(points, draws)
            trace = trace_of(basket.judge(space.render(points), everyone), aims)
            events.append((rows, book.number[rows] * moves + place, draws, trace))
    return Accepted.gather(events, book.path.shape[2], len(everyone))
