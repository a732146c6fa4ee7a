"""Next-ascent stochastic hill climbing (paper 1, Sec. 2), many trials at once.

For each lane: try a small random move of the current point X; if the suspect A gives the class C less than before,
A(X′)_C < A(X)_C, and every peer still says C, then X ← X′. Stop when A no longer says C, or after `patience`
candidates in a row that brought nothing. The peers are asked only about candidates that lowered A(X′)_C: the paper
asks them first, which accepts the same candidates and costs several times as much. Small networks on a GPU are all
asked about everything, without a look in between (see dense.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.images import settle, to_floats
from foible.objectives import Objective, of_class, probabilities
from foible.randomness import uniforms
from foible.search.dense import Dense, is_cheap
from foible.search.found import EXHAUSTED, FOUND, INVALID, Accepted, Found, Trials

ROUND = 16  # steps between two looks at which lanes are done
AHEAD = 64  # most candidates of one lane that are judged at once, where there is room


def _put(points: Any, index: Tensor, new: Any, rows: Tensor | None = None) -> None:
    """points[index] = new[rows], field by field; a field that is the same tensor on both sides is left alone."""
    for ours, theirs in zip(points, new, strict=True):
        if ours is not theirs:
            ours.index_copy_(0, index, theirs if rows is None else theirs.index_select(0, rows))


def _ask(
    basket: Basket, objective: Objective, images: Tensor, aim: Tensor, peers: list[str], precision: Precision
) -> tuple[Tensor, Tensor, Tensor | int]:
    """What the peers say: logits (peers, allowed, classes) of the rows that all allow, which rows these are, and how
    many peers each row cost. The first peer is asked alone: what it refuses need not be shown to anybody else."""
    first = basket.judge(images, peers[:1], precision)
    rows = objective.allows(first, aim).nonzero()[:, 0]
    if len(peers) < 2 or not rows.numel():
        return first[:, rows].expand(len(peers), -1, -1), rows, len(peers[:1])
    costs = torch.ones_like(aim)
    costs[rows] += len(peers) - 1
    rest = basket.judge(images.index_select(0, rows), peers[1:], precision)
    kept = objective.allows(rest, aim[rows]).nonzero()[:, 0]
    rows = rows[kept]
    return torch.cat([first[:, rows], rest[:, kept]]), rows, costs


class _Lanes:
    """The live rows of a batch: which trial each works on, where it is, and what it has spent."""

    def __init__(self, space: Any, objective: Objective, basket: Basket, trials: Trials, suspect: str) -> None:
        self.space, self.objective, self.basket, self.trials, self.suspect = (
            space,
            objective,
            basket,
            trials,
            suspect,
        )
        self.next = 0  # the next trial that nobody works on

    def begin(self, width: int) -> None:
        fresh = self._fresh(width)
        self.rows, self.lane, self.aim, self.points, self.best = fresh
        self.step = torch.zeros_like(self.rows)
        self.stale = torch.zeros_like(self.rows)
        self.alive = torch.ones_like(self.rows, dtype=torch.bool)

    def _fresh(self, count: int) -> tuple[Tensor, Tensor, Tensor, Any, Tensor]:
        rows = torch.arange(self.next, min(self.next + count, len(self.trials.lanes)), device=self.basket.device)
        self.next += len(rows)
        taken = self.trials.rows(rows.to(self.trials.lanes.device))
        lane, aim = taken.lanes.to(self.basket.device), taken.aims.to(self.basket.device)
        seeds = to_floats(taken.seeds.to(self.basket.device))
        whole = getattr(self.objective, "whole", False)
        logits = self.basket.judge(seeds, [self.suspect, *self.basket.peers(self.suspect)] if whole else [self.suspect])
        best = self.objective.score(logits if whole else logits[0], aim)
        return rows, lane, aim, self.space.start(seeds), best

    @property
    def finished(self) -> int:
        return self.next - int(self.alive.sum())

    def refill(self) -> None:
        """Put waiting trials where lanes have finished; with none waiting, close the gaps once they are many."""
        done = (~self.alive).nonzero()[:, 0]
        slots = done[: len(self.trials.lanes) - self.next]
        if len(slots):
            rows, lane, aim, points, best = self._fresh(len(slots))
            for ours, new in ((self.rows, rows), (self.lane, lane), (self.aim, aim), (self.best, best)):
                ours[slots] = new
            _put(self.points, slots, points)
            self.step[slots] = 0
            self.stale[slots] = 0
            self.alive[slots] = True
        if 5 * (len(done) - len(slots)) > len(self.rows):
            keep = self.alive.nonzero()[:, 0]
            for name in ("rows", "lane", "aim", "best", "step", "stale", "alive"):
                setattr(self, name, getattr(self, name)[keep])
            self.points = type(self.points)(*(field.index_select(0, keep) for field in self.points))


def _width(basket: Basket, trials: Trials) -> int:
    """How many lanes share a batch: 1,000, and on a GPU a share of its free memory, activations allowed for."""
    if basket.device.type != "cuda":
        return 1000
    free, _ = torch.cuda.mem_get_info(basket.device)
    bytes_each = 4 * trials.seeds[0].numel()
    return int(max(64, min(131_072, free // 4 // (64 * bytes_each))))


def _left(budget: Budget, spent: Tensor, each: int) -> Tensor:
    """How many more candidates each row may try, at `each` inferences a candidate."""
    if budget.forwards is None:
        return torch.full_like(spent, 2**62)
    return (budget.forwards - spent + each - 1).div(each, rounding_mode="floor").clamp_min(1)


def _tell(lanes: _Lanes, told: int, tick: Callable[[int], None] | None) -> int:
    if tick is None:
        return told
    finished = lanes.finished
    if finished > told:
        tick(finished - told)
    return max(told, finished)


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
    """Climb from every trial's seed image; at most `width` lanes at a time share a batch (default: 1,000, and on a GPU
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
    peers = basket.peers(suspect)
    everyone = [suspect, *peers]
    count, device = len(trials.lanes), basket.device
    outcome = torch.full((count,), EXHAUSTED, device=device)
    candidates, forwards = (torch.zeros(count, dtype=torch.int64, device=device) for _ in range(2))
    backwards = torch.zeros_like(forwards)
    whole = getattr(objective, "whole", False)  # it takes every network's answer to score a point
    forwards += len(everyone) if whole else 1  # on the seed image
    all_at_once = ask == "all" or whole or (ask == "auto" and device.type == "cuda" and is_cheap(basket, everyone))
    dense = Dense(space, objective, basket, everyone, patience, precision) if all_at_once else None
    events: list[tuple[Tensor, ...]] = []
    told = 0
    if device.type == "cuda" and trials.seeds.nbytes < torch.cuda.mem_get_info(device)[0] // 8:
        trials = trials.to(device)
    lanes = _Lanes(space, objective, basket, trials, suspect)
    width = width or _width(basket, trials)
    lanes.begin(width)
    while len(lanes.rows):
        ahead = min(AHEAD, width // len(lanes.rows)) if dense is not None else 1
        steps = lanes.step + torch.arange(ROUND if ahead < 2 else ahead, device=device)[:, None]
        drawn = uniforms(seed, lanes.lane, steps, stream="hill_climb.moves", count=space.draws)
        if dense is not None:
            left = _left(budget, forwards[lanes.rows], len(everyone))
            brought = (dense.round if ahead < 2 else dense.look_ahead)(lanes, drawn, left)
            events.append(brought.events)
            candidates[lanes.rows] += brought.tried
            forwards[lanes.rows] += brought.tried * len(everyone)
            outcome[lanes.rows[brought.broken]] = INVALID
            hit = brought.waiting
            if hit.numel():
                forwards[lanes.rows[hit]] += len(everyone)
                shown = space.render(type(lanes.points)(*(field.index_select(0, hit) for field in lanes.points)))
                sure = hit[objective.found(basket.judge(settle(shown), everyone), lanes.aim[hit])]
                outcome[lanes.rows[sure]] = FOUND
                lanes.alive[sure] = False
            told = _tell(lanes, told, tick)
            lanes.refill()
            continue
        tried = torch.zeros_like(lanes.step)
        asked = torch.zeros_like(lanes.step)
        for k in range(ROUND):
            candidate = space.move(lanes.points, drawn[k])
            images = space.render(candidate)
            logits = basket.judge(images, [suspect], precision)[0]
            score = objective.score(logits, lanes.aim)
            tried += lanes.alive
            lanes.stale += 1
            better = ((score > lanes.best) & lanes.alive).nonzero()[:, 0]
            if better.numel():
                aim = lanes.aim[better]
                shown = images.index_select(0, better)
                said, allowed, costs = _ask(basket, objective, shown, aim, peers, precision)
                asked[better] += costs
                index, aim = better[allowed], aim[allowed]
                if index.numel():
                    _put(lanes.points, index, candidate, index)
                    lanes.best[index] = score[index]
                    lanes.stale[index] = 0
                    everything = torch.cat([logits[index][None], said])
                    trace = of_class(probabilities(everything), aim).t()
                    events.append((lanes.rows[index], lanes.step[index] + k, drawn[k].index_select(0, index), trace))
                    hit = objective.found(everything, aim).nonzero()[:, 0]
                    if hit.numel():  # found means found on what a PNG will hold, in float32
                        asked[index[hit]] += len(everyone)
                        settled = settle(shown.index_select(0, allowed[hit]))
                        sure = hit[objective.found(basket.judge(settled, everyone), aim[hit])]
                        outcome[lanes.rows[index[sure]]] = FOUND
                        lanes.alive[index[sure]] = False
            broken = score.isnan()
            if broken.any():
                outcome[lanes.rows[broken & lanes.alive]] = INVALID
                lanes.alive &= ~broken
            lanes.alive &= lanes.stale < patience
            if budget.forwards is not None:
                spent = forwards[lanes.rows] + tried + asked
                lanes.alive &= ~budget.spent(spent, torch.zeros_like(spent))
            if not lanes.alive.any():
                break
        candidates[lanes.rows] += tried
        forwards[lanes.rows] += tried + asked
        lanes.step += ROUND
        told = _tell(lanes, told, tick)
        lanes.refill()
    accepted = Accepted.gather(events, space.draws, len(everyone))
    return Found(outcome.cpu(), candidates.cpu(), forwards.cpu(), backwards.cpu(), accepted)
