"""Plain gradient descent in a box (paper 2): e ← e − λ ∂loss/∂e, until the objective is reached.

The loss is the objective's score turned round: for `Restore` the cross entropy of the true class. Each lane stops by
itself, at the first step whose image is found as a PNG will hold it; one that a last rounding undoes goes on. With
`restarts`, a lane that came to nothing begins again around its image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.images import to_floats
from foible.objectives import Objective
from foible.randomness import normals
from foible.search.asking import Asker, trace_of
from foible.search.task import EXHAUSTED, FOUND, INVALID, Accepted, Found, Trials, some_rows
from foible.spaces import is_box

FULL, KEPT = 64, 16_384  # steps that are all noted, later ones ever more seldom; numbers of a path that are kept


def descend(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    rate: float = 0.1,
    steps: int = 1000,
    momentum: float = 0.0,
    restarts: int = 0,
    spread: float = 1.0,
    settled: bool = True,
    width: int | None = None,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Descend from every trial's seed image.

    rate: λ, in largest moves of the box. steps: most of them, from each start. momentum: share of the last step that
    the next one keeps. restarts: further starts, `spread` times a normal draw away from the image. settled: found is
    what a PNG holds; else what the space draws, as in paper 2, whose pixels may leave [0, 1].
    width: lanes in a batch. Lanes never touch. `tick(k)` hears of every k further trials that are done.
    """
    if not is_box(space):
        raise UserError(f"{type(space).__name__} has no slope to follow: use the search hill-climb")
    if rate <= 0 or steps < 1 or restarts < 0 or not 0 <= momentum < 1 or spread < 0:
        raise UserError(
            f"rate is {rate}, steps {steps}, restarts {restarts}, momentum {momentum}, spread {spread}: expected above "
            "0, at least 1, at least 0, from 0 to below 1, and at least 0"
        )
    asker = Asker(objective, basket, suspect, precision)
    rows = torch.arange(len(trials.lanes), device=basket.device)
    books = []
    for part in rows.split(width or _width(basket, trials)):
        some = trials.rows(part.to(trials.lanes.device)).to(basket.device)
        batch = _Batch(space, asker, some, budget or Budget(), settled)
        for start in range(restarts + 1):
            batch.begin(seed, start, spread)
            batch.go(rate, steps, momentum)
        books.append((batch, part))
        if tick is not None:
            tick(len(part))
    outcome, tried, forwards, backwards = (
        torch.cat([getattr(batch, name) for batch, _ in books]).cpu() if books else torch.empty(0, dtype=torch.int64)
        for name in ("outcome", "tried", "forwards", "backwards")
    )
    events = [batch.path(part) for batch, part in books]
    return Found(outcome, tried, forwards, backwards, Accepted.gather(events, space.draws, len(asker.everyone)))


def _width(basket: Basket, trials: Trials) -> int:
    """Lanes in a batch: what memory holds of a network's and a generator's activations."""
    each = 4 * trials.seeds[0].numel() * 200 if len(trials.seeds) else 1
    room = torch.cuda.mem_get_info(basket.device)[0] // 4 if basket.device.type == "cuda" else 1_000_000_000
    return int(max(16, min(16_384 if basket.device.type == "cuda" else 1000, room // each)))


class _Batch:
    """Some trials, and where each of them is in the box."""

    def __init__(self, space: Any, asker: Asker, trials: Trials, budget: Budget, settles: bool) -> None:
        self.space, self.asker, self.trials, self.budget, self.settles = space, asker, trials, budget, settles
        device, count = asker.basket.device, len(trials.lanes)
        self.first = space.start(to_floats(trials.seeds))
        self.place = torch.zeros(count, space.draws, device=device)  # in largest moves
        self.outcome = torch.full((count,), EXHAUSTED, device=device)
        self.tried, self.forwards, self.backwards = (
            torch.zeros(count, dtype=torch.int64, device=device) for _ in range(3)
        )
        self.noted: list[tuple[Tensor, Tensor, Tensor]] = []  # rows, their steps, their places

    def begin(self, seed: int, start: int, spread: float) -> None:
        """Where those that are not done begin: at the image, and later around it. What was noted of them is void."""
        self.live = (self.outcome == EXHAUSTED).nonzero()[:, 0]
        if start:
            drawn = normals(seed, self.trials.lanes[self.live], stream=f"descend.start {start}", count=self.space.draws)
            self.place[self.live] = spread * drawn.to(self.place)
            gone = torch.zeros_like(self.outcome, dtype=torch.bool).index_fill(0, self.live, True)
            self.noted = [tuple(part[~gone[rows]] for part in (rows, *rest)) for rows, *rest in self.noted]  # type: ignore[misc]
            self._note(self.live)

    def go(self, rate: float, steps: int, momentum: float) -> None:
        speed = torch.zeros_like(self.place)
        for number in range(1, steps + 1):
            if not len(self.live):
                return
            slope = self._slope()
            rows = self.live
            if not len(rows):
                return
            speed[rows] = momentum * speed[rows] + rate * slope
            self.place[rows] += speed[rows]
            self.tried[rows] += 1
            if number <= FULL or number % (1 << (number.bit_length() - FULL.bit_length() + 1)) == 0:
                self._note(rows)
        if len(self.live):
            self._slope()  # where the last step led

    def _note(self, rows: Tensor) -> None:
        self.noted.append((rows, self.tried[rows], self.place[rows]))

    def _slope(self) -> Tensor:
        """Ask about where the live rows are; those that are found, broken or out of budget leave. (m, draws) of the
        others."""
        rows = self.live
        asker, aim = self.asker, self.trials.aims[rows]
        with torch.enable_grad():
            place = self.place[rows].requires_grad_()
            images = self.space.render(self.space.move(some_rows(self.first, rows), 0.5 + 0.5 * place))
            said, score = asker.ask(images, aim)
            [slope] = torch.autograd.grad(score.sum(), place)
        said, images, score = said.detach(), images.detach(), score.detach()
        self.forwards[rows] += len(asker.first)
        self.backwards[rows] += 1
        broken = ~(score.isfinite() & slope.isfinite().all(1))
        self.outcome[rows[broken]] = INVALID
        with torch.no_grad():
            hit = (asker.objective.found(said, aim) & ~broken).nonzero()[:, 0]
            if len(hit):
                if self.settles:
                    self.forwards[rows[hit]] += len(asker.everyone)
                    sure, _ = asker.settled(images[hit], aim[hit])
                    hit = hit[sure]
                self.outcome[rows[hit]] = FOUND
        going = self.outcome[rows] == EXHAUSTED
        going &= ~self.budget.spent(self.forwards[rows], self.backwards[rows])
        self.live = rows[going]
        return slope[going]

    @torch.no_grad()
    def path(self, trial: Tensor) -> tuple[Tensor, ...]:
        """(trial, step, draws, trace) of the moves that lead to where each row ended: the steps of a row that was
        found, of others one move."""
        every = torch.arange(len(self.place), device=self.place.device)
        self._note(every)
        rows, step, place = (torch.cat(parts) for parts in zip(*self.noted, strict=True))
        order = torch.argsort((rows << 32) + step, stable=True)
        rows, step, place = rows[order], step[order], place[order]
        last = torch.cat([rows[1:] != rows[:-1], torch.ones_like(rows[:1], dtype=torch.bool)])
        again = torch.cat([torch.zeros_like(last[:1]), (rows[1:] == rows[:-1]) & (step[1:] == step[:-1])])
        number = _within(rows)
        most = max(1, min(FULL, KEPT // self.space.draws))
        length = torch.bincount(rows, minlength=len(every))[rows].clamp_min(1)
        some = (number + 1) * most // length > number * most // length  # evenly, where there are many
        kept = last | ((self.outcome[rows] == FOUND) & some)
        kept &= ~torch.cat([again[1:], torch.zeros_like(again[:1])])  # of two at one step the later
        kept &= place.any(1) | last
        rows, step, place = rows[kept], step[kept], place[kept]
        begins = torch.cat([torch.ones_like(rows[:1], dtype=torch.bool), rows[1:] != rows[:-1]])
        before = torch.where(begins[:, None], 0.0, torch.cat([place[:1], place[:-1]]))
        moved = (place - before).abs().sum(1) > 0
        rows, step, draws, place = rows[moved], step[moved], (0.5 + 0.5 * (place - before))[moved], place[moved]
        traces = [
            trace_of(self._everybody(some, there), self.trials.aims[some])
            for some, there in zip(rows.split(1000), place.split(1000), strict=True)
            if len(some)
        ]
        nobody = torch.empty(0, len(self.asker.everyone), device=place.device)
        return trial[rows], step, draws, torch.cat([nobody, *traces])

    def _everybody(self, rows: Tensor, place: Tensor) -> Tensor:
        images = self.space.render(self.space.move(some_rows(self.first, rows), 0.5 + 0.5 * place))
        return self.asker.basket.judge(images, self.asker.everyone)


def _within(rows: Tensor) -> Tensor:
    """(m,): of sorted row numbers, which one each is of its row."""
    places = torch.arange(len(rows), device=rows.device)
    begins = torch.cat([torch.ones_like(rows[:1], dtype=torch.bool), rows[1:] != rows[:-1]])
    return places - torch.where(begins, places, 0).cummax(0).values
