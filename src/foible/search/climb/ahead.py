"""Lanes that are too few to fill a batch look ahead: several of a lane's next candidates are judged at once.

Until one is accepted, all of a lane's candidates start from the same point. So where a step would be launching and
waiting more than judging, a batch holds the next candidates of each lane, which takes all up to its first gain. Those
behind it are thrown away, and like the idle rows of a round they are not counted: moves, outcomes and costs are those
of one candidate after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.asking import Asker, trace_of
from foible.search.climb.lanes import Lanes
from foible.search.task import some_rows

MOST = 512  # candidates of one lane that are judged at once, where there is room
# Values: to judge as many takes a few times as long as all that a step does besides. With fewer a GPU waits, with more
# too much is thrown away.
ROOM = 3072 * 3 * 32 * 32
# The same on a CPU with small networks, whose last lanes would be mostly the calls of a step. What is thrown away costs
# its time there, so none looks far.
FEW, LITTLE = 16, 1024 * 28 * 28


class Answers(NamedTuple):
    """What a basket said of m candidates."""

    score: Tensor  # (m,)
    better: Tensor  # (m,) bool: better than the lane's point, and allowed by every peer
    costs: Tensor  # (m,) inferences
    said: Callable[[Tensor], Tensor]  # logits (networks, k, classes) of these better ones (k,)


Judge = Callable[[Tensor, Tensor, Tensor], Answers]  # of images (m, …), their aims (m,), and the scores to beat (m,)


def lazily(asker: Asker) -> Judge:
    """The suspect about every candidate, the peers about those that it leaves open."""

    def judge(images: Tensor, aim: Tensor, best: Tensor) -> Answers:
        said, score = asker.ask(images, aim)
        rows = (score > best).nonzero()[:, 0]
        costs, better = torch.full_like(aim, len(asker.first)), torch.zeros_like(aim, dtype=torch.bool)
        if len(rows):
            allowed, said, further = asker.allowed(images, aim, said, rows)
            costs[rows] += further
            better[allowed] = True
        column = better.cumsum(0) - 1  # `said` has one for each better candidate, in their order
        return Answers(score, better, costs, lambda places: said[:, column[places]])

    return judge


def steps_ahead(lanes: Lanes, patience: int, cheap: bool) -> int:
    """How many candidates of each lane to judge at once; cheap: by networks that take no longer for them than all that
    a step does besides. Others on a CPU judge one, since each costs its time."""
    if lanes.device.type != "cuda" and not cheap:
        return 1
    most, room = (MOST, ROOM) if lanes.device.type == "cuda" else (FEW, LITTLE)
    together = min(lanes.width, room // max(1, lanes.trials.seeds[:1].numel()))
    return min(most, patience, together // len(lanes))


def look_ahead(lanes: Lanes, drawn: Tensor, judge: Judge, patience: int, budget: Budget) -> None:
    """Try drawn (steps, rows, draws), all from where each lane is, and go on from its first gain."""
    steps, count = drawn.shape[:2]
    copies = torch.arange(count, device=drawn.device).repeat(steps)
    candidate = lanes.space.move(some_rows(lanes.points, copies), drawn.flatten(0, 1))
    images = lanes.space.render(candidate)
    answers = judge(images, lanes.aim[copies], lanes.best[copies])
    better, broken, costs = (part.view(steps, count) for part in (answers.better, answers.score.isnan(), answers.costs))
    spent = lanes.forwards + costs.cumsum(0)
    reached = (torch.arange(steps, device=drawn.device)[:, None] < patience - lanes.stale) & lanes.alive
    if budget.forwards is not None:
        reached &= spent - costs < budget.forwards
    ends = (better | broken) & reached
    first, over = ends.int().argmax(0), ends.any(0)
    tried = torch.where(over, first + 1, reached.sum(0))
    lanes.forwards = torch.where(tried > 0, spent.gather(0, (tried - 1).clamp_min(0)[None])[0], lanes.forwards)
    lanes.candidates = lanes.candidates + tried
    lanes.stale = lanes.stale + tried
    gained = over & better.gather(0, first[None])[0]
    rows = gained.nonzero()[:, 0]
    if len(rows):
        places = first[rows] * count + rows
        said, aim = answers.said(places), lanes.aim[rows]
        lanes.accept(rows, candidate, answers.score, drawn.flatten(0, 1), trace_of(said, aim), places)
        found = lanes.asker.objective.found(said, aim)
        if found.any():
            lanes.finish(rows[found], images.index_select(0, places[found]))
    lanes.give_up(over & ~gained, patience, budget)
