"""Edge cases (paper 2, Sec. 5): a class boundary, crossed and crossed back at several places.

First `descend`. Where it reaches the class, further points around the one it found are taken, those that are given the
class too; on the line from the image to each of them the boundary is where the class is first given, found by halving.
What is kept is the image just across, as a PNG holds it: one level less of its change, and the answer is another one.
Such images are worth a person's label (`foible export`), and training on.
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
from foible.search.climb.descend import descend
from foible.search.task import FOUND, Accepted, Found, Trials, some_rows

HALVINGS = 14
ROWS = 1000  # that are drawn and judged at once


@torch.no_grad()
def edges(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    places: int = 4,
    spread: float = 0.5,
    rate: float = 0.1,
    steps: int = 1000,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Rows of `found` for up to `places` crossings of each trial: the one that descent leads to, and others around it.

    spread: how far around, as a share of the way to it. A trial whose class is not reached has one row, as `descend`
    has it. Arguments as there.
    """
    if places < 1 or not spread > 0:
        raise UserError(f"places is {places} and spread {spread}: expected at least 1, and above 0")
    came = descend(
        space, objective, basket, trials, suspect=suspect, seed=seed, rate=rate, steps=steps, budget=budget,
        precision=precision, tick=tick,
    )  # fmt: skip
    device, count = basket.device, len(trials.lanes)
    moved = torch.zeros(count, space.draws).index_add(0, came.accepted.row, 2 * came.accepted.draws - 1).to(device)
    trial = torch.arange(count).repeat_interleave(torch.where(came.outcome == FOUND, places, 1))
    nth = torch.arange(len(trial)) - torch.searchsorted(trial, trial)
    lanes = (trials.lanes.cpu()[trial] * places + nth).to(device)
    around = normals(seed, lanes, stream="edges.place", count=space.draws).to(moved)
    ends = moved[trial.to(device)]
    far = spread * ends.norm(dim=1, keepdim=True) / around.norm(dim=1, keepdim=True).clamp_min(1e-12)
    ends = ends + torch.where((nth > 0).to(device)[:, None], far * around, 0.0)
    asker, start = Asker(objective, basket, suspect, precision), space.start(to_floats(trials.seeds.to(device)))
    aims, which = trials.aims.to(device), trial.to(device)

    def render(rows: Tensor, amounts: Tensor) -> Tensor:
        image: Tensor = space.render(space.move(some_rows(start, which[rows]), 0.5 + 0.5 * amounts))
        return image

    def across(rows: Tensor, amounts: Tensor) -> tuple[Tensor, Tensor]:
        parts = [
            asker.still_found(render(some, there), aims[which[some]])
            for some, there in zip(rows.split(ROWS), amounts.split(ROWS), strict=True)
        ]
        holds, costs = (torch.cat(each) for each in zip(*parts, strict=True))
        return holds, costs

    reached = (came.outcome == FOUND)[trial].to(device)
    forwards, every = came.forwards[trial].to(device), torch.arange(len(trial), device=device)
    low, high = torch.zeros(len(trial), device=device), torch.ones(len(trial), device=device)
    if bool(reached.any()):
        rows = every[reached]
        holds, costs = across(rows, ends[rows])
        forwards[rows] += costs
        reached[rows[~holds]] = False
        rows = rows[holds]
        for _ in range(HALVINGS):
            if not len(rows):
                break
            middle = (low[rows] + high[rows]) / 2
            holds, costs = across(rows, middle[:, None] * ends[rows])
            forwards[rows] += costs
            high[rows], low[rows] = torch.where(holds, middle, high[rows]), torch.where(holds, low[rows], middle)
    ends = high[:, None] * ends
    kept = (reached | (nth == 0).to(device)).cpu()  # a place beyond the boundary's bends has no crossing to show
    rows = kept.nonzero()[:, 0]
    there = rows.to(device)
    said = [
        basket.judge(render(some, ends[some]), asker.everyone) for some in there.split(ROWS)
    ]  # fmt: skip
    trace = torch.cat([trace_of(one, aims[which[some]]) for one, some in zip(said, there.split(ROWS), strict=True)]) \
        if said else torch.empty(0, len(asker.everyone))  # fmt: skip
    step = torch.ones(len(rows), dtype=torch.int64)
    number = torch.arange(len(rows))
    moves = Accepted(number, step, (0.5 + 0.5 * ends[there]).cpu(), trace.cpu())
    at = trial[rows]
    return Found(came.outcome[at], came.candidates[at], forwards[there].cpu(), came.backwards[at], moves, trial=at)
