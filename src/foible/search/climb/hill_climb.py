"""Next-ascent stochastic hill climbing (paper 1, Sec. 2), many trials at once.

For each lane: try a small random move of the current point X; if the suspect A gives the class C less than before,
A(X′)_C < A(X)_C, and every peer still says C, then X ← X′. Stop when A no longer says C, or after `patience`
candidates in a row that brought nothing. The peers are asked only about candidates that lowered A(X′)_C: the paper
asks them first, which accepts the same candidates and costs several times as much. Small networks on a GPU are all
asked about everything, without a look in between (dense.py); lanes that are too few for a batch look ahead (ahead.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.objectives import Objective
from foible.search.asking import Asker, trace_of
from foible.search.climb import dense
from foible.search.climb.ahead import lazily, look_ahead, steps_ahead
from foible.search.climb.lanes import ROUND, Lanes
from foible.search.task import Found, Trials


@torch.no_grad()
def hill_climb(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    patience: int = 250,
    width: int | None = None,
    ask: str = "auto",
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Climb from every trial's seed image; at most `width` lanes at a time share a batch (default: 2,000, and on a GPU
    what its memory holds).

    ask: the peers "lazily", only about candidates that improved; "all" networks about everything; "auto" does the
        second with small networks on a GPU. Both take the same moves; what they spend differs.
    Lanes never touch: what a lane draws and does depends on its number and the seed alone. `tick(k)` hears of every k
    further trials that are done.
    """
    if patience < 1 or (width is not None and width < 1):
        raise UserError(f"patience is {patience} and width is {width}: expected at least 1")
    if ask not in ("auto", "lazily", "all"):
        raise UserError(f"ask is {ask!r}: expected auto, lazily or all")
    budget = budget or Budget()
    asker = Asker(objective, basket, suspect, precision)
    lanes = Lanes(space, asker, trials, width, tick)
    if ask == "all" or asker.all or (ask == "auto" and dense.is_worth_it(asker)):
        return dense.climb(lanes, seed, patience, budget)
    cheap = dense.is_cheap(basket, asker.everyone)
    while len(lanes):
        if (ahead := steps_ahead(lanes, patience, cheap)) > 1:
            look_ahead(lanes, lanes.draws(seed, ahead), lazily(asker), patience, budget)
            lanes.refill(gaps=0.0)
            continue
        for drawn in lanes.draws(seed, ROUND):
            candidate = space.move(lanes.points, drawn)  # X′, a small random move of X
            images = space.render(candidate)
            said, score = asker.ask(images, lanes.aim)  # it rises exactly when A(X′)_C falls
            lanes.tried()
            better = lanes.better(score)  # A(X′)_C < A(X)_C
            if len(better):
                rows, said, costs = asker.allowed(images, lanes.aim, said, better)  # and P(X′) = C for every peer P
                lanes.forwards.index_add_(0, better, costs)
                if len(rows):
                    aim = lanes.aim.index_select(0, rows)
                    lanes.accept(rows, candidate, score, drawn, trace_of(said, aim))  # X ← X′
                    hit = rows[objective.found(said, aim)]  # A(X′) ≠ C
                    if len(hit):
                        lanes.wait(hit, images.index_select(0, hit))
            lanes.give_up(score.isnan(), patience, budget)
            if not lanes.alive.any():
                break
        lanes.end_round(patience, budget)
        lanes.refill()
    return lanes.close()
