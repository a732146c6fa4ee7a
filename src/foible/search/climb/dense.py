"""A round of hill climbing without a look at the device in between, for small networks on a GPU.

`hill_climb` asks the peers only about candidates that improved, which means looking, at every step, at which ones they
are. Where a network is a few matrix products, that look costs more than asking everybody about everything. Here every
network judges every candidate, all decisions are masks, and the device is looked at once a round. The moves taken are
the same; the inferences spent are networks × candidates, and are counted so.

When no trial is waiting and the batch empties, the rows that are left look ahead (ahead.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from foible.basket import Basket, Budget
from foible.search.asking import Asker, trace_of
from foible.search.climb.ahead import MOST, Answers, look_ahead
from foible.search.climb.lanes import ROUND, Lanes
from foible.search.task import INVALID, Found, some_rows


class State(NamedTuple):
    """What a step changes, row by row."""

    moving: tuple[Tensor, ...]  # the fields of the point that moves change
    best: Tensor  # its score
    stale: Tensor  # candidates since the last gain
    alive: Tensor  # still searching
    waiting: Tensor  # found something, to be judged on its settled image after the round
    tried: Tensor  # candidates in this round


class Round(NamedTuple):
    """What a round brought: `events` for `Accepted.gather`, candidates tried, and which rows wait or broke."""

    events: tuple[Tensor, ...]
    tried: Tensor
    waiting: Tensor
    broken: Tensor


def is_cheap(basket: Basket, names: list[str]) -> bool:
    """Whether these networks are matrix products and little else."""
    costly = (nn.modules.conv._ConvNd, nn.MultiheadAttention, nn.RNNBase)
    networks = [basket.network(name) for name in names]
    return all(
        isinstance(one, nn.Module)
        and any(isinstance(part, nn.Linear) for part in one.modules())
        and not any(isinstance(part, costly) for part in one.modules())
        and sum(weights.numel() for weights in one.parameters()) < 1_000_000
        for one in networks
    )


def together(basket: Basket, names: list[str]) -> Callable[[Tensor], Tensor] | None:
    """Networks that all begin with a matrix product of the same pixels, as one function of images: their first layers
    are one product, so that the images are read once. None where they are not of that kind."""
    networks = [basket.network(name) for name in names]
    hows = {basket.hows[name] for name in names}
    if len(hows) > 1 or any(len(basket.lists[name]) != len(basket.classes) for name in names):
        return None
    for network in networks:
        begins = [type(part) for part in network.children()][:2] if isinstance(network, nn.Sequential) else []
        if begins != [nn.Flatten, nn.Linear]:
            return None
    firsts = [network[1] for network in networks]  # type: ignore[index]
    rests = [network[2:] for network in networks]  # type: ignore[index]
    weight = torch.cat([first.weight for first in firsts])
    bias = torch.cat(
        [first.weight.new_zeros(len(first.weight)) if first.bias is None else first.bias for first in firsts]
    )
    spare = -len(weight) % 32  # rows of zeros: 160 columns are quicker than 150
    weight, bias = (torch.cat([part, part.new_zeros(spare, *part.shape[1:])]) for part in (weight, bias))
    sizes, (how,) = [*(len(first.weight) for first in firsts), spare], hows
    shared: nn.Module = nn.Identity()
    if all(len(rest) and isinstance(rest[0], nn.ReLU) for rest in rests):  # one pass over what lies together
        shared, rests = nn.ReLU(inplace=True), [rest[1:] for rest in rests]

    def judge(images: Tensor) -> Tensor:
        parts = shared(linear(how(images).flatten(1), weight, bias)).split(sizes, 1)[:-1]
        return torch.stack([rest(part) for rest, part in zip(rests, parts, strict=True)])

    return judge


def is_worth_it(asker: Asker) -> bool:
    """Whether asking everybody about everything is quicker than a look at who improved."""
    return asker.basket.device.type == "cuda" and is_cheap(asker.basket, asker.everyone)


def climb(lanes: Lanes, seed: int, patience: int, budget: Budget) -> Found:
    """Hill climbing, a round at a time: the same moves as `hill_climb` takes."""
    dense, each = Dense(lanes.space, lanes.asker, patience), len(lanes.asker.everyone)
    while len(lanes):
        if (ahead := min(MOST, lanes.width // len(lanes))) > 1:
            look_ahead(lanes, lanes.draws(seed, ahead), dense.answers, patience, budget)
            lanes.refill()
            continue
        brought = dense.round(lanes, lanes.draws(seed, ROUND), _left(budget, lanes.forwards, each))
        lanes.events.append(brought.events)
        lanes.candidates = lanes.candidates + brought.tried
        lanes.forwards = lanes.forwards + brought.tried * each
        lanes.outcome = lanes.outcome.masked_fill(brought.broken, INVALID)
        if brought.waiting.numel():
            lanes.finish(brought.waiting, lanes.space.render(some_rows(lanes.points, brought.waiting)))
        lanes.refill()
    return lanes.close()


def _left(budget: Budget, spent: Tensor, each: int) -> Tensor:
    """How many more candidates each row may try, at `each` inferences a candidate."""
    if budget.forwards is None:
        return torch.full_like(spent, 2**62)
    return (budget.forwards - spent + each - 1).div(each, rounding_mode="floor").clamp_min(1)


class Dense:
    """The rounds of one search."""

    def __init__(self, space: Any, asker: Asker, patience: int) -> None:
        self.space, self.asker, self.objective, self.patience = space, asker, asker.objective, patience
        self.moved: tuple[int, ...] | None = None  # which fields of a point moves change
        self.decide = slice(None) if asker.all else slice(1)  # whether it is found: what is accepted, the peers allow
        product = asker.precision == "float32" and asker.basket.device.type == "cuda"
        self.judge = together(asker.basket, asker.everyone) if product else None

    def _step(
        self, still: Any, state: State, aim: Tensor, drawn: Tensor, left: Tensor
    ) -> tuple[State, Tensor, Tensor, Tensor]:
        """One candidate for every row: the state after it, the rows that accepted it, those that broke, the logits."""
        fields = list(still)
        for place, field in zip(self.moved or (), state.moving, strict=True):
            fields[place] = field
        candidate = self.space.move(type(still)(*fields), drawn)
        logits = self._judge(self.space.render(candidate))
        score = self.asker.score(logits, aim)
        active = state.alive & ~state.waiting
        accepted = active & (score > state.best) & self.objective.allows(logits[1:], aim)
        broken = active & score.isnan()
        moving = tuple(
            torch.where(accepted.view(-1, *[1] * (old.ndim - 1)), candidate[place], old)
            for place, old in zip(self.moved or (), state.moving, strict=True)
        )
        stale = torch.where(accepted, 0, state.stale + active)
        tried = state.tried + active
        after = State(
            moving,
            torch.where(accepted, score, state.best),
            stale,
            state.alive & ~broken & (stale < self.patience) & (tried < left),
            state.waiting | (accepted & self.objective.found(logits[self.decide], aim)),
            tried,
        )
        return after, accepted, broken, logits

    def _judge(self, images: Tensor) -> Tensor:
        asker = self.asker
        judged = self.judge(images) if self.judge else asker.basket.judge(images, asker.everyone, asker.precision)
        return judged.float()

    def answers(self, images: Tensor, aim: Tensor, best: Tensor) -> Answers:
        """What looking ahead needs to know."""
        logits = self._judge(images)
        score = self.asker.score(logits, aim)
        better = (score > best) & self.objective.allows(logits[1:], aim)
        return Answers(score, better, torch.full_like(aim, len(logits)), lambda places: logits[:, places])

    def _moved(self, lanes: Lanes, drawn: Tensor) -> tuple[int, ...]:
        """Which fields of a point moves change."""
        if self.moved is None:
            pairs = enumerate(zip(lanes.points, self.space.move(lanes.points, drawn[0]), strict=True))
            self.moved = tuple(place for place, (old, new) in pairs if old is not new)
        return self.moved

    def round(self, lanes: Lanes, drawn: Tensor, left: Tensor) -> Round:
        """Try drawn (steps, rows, draws) in turn; `lanes` is brought up to date. left: candidates each row may try."""
        places = self._moved(lanes, drawn)
        nobody = torch.zeros_like(lanes.alive)
        state = State(
            tuple(lanes.points[place] for place in places),
            lanes.best, lanes.stale, lanes.alive, nobody, torch.zeros_like(lanes.stale),
        )  # fmt: skip
        taken, said, broken = [], [], nobody
        for draws in drawn:
            state, accepted, worse, logits = self._step(lanes.points, state, lanes.aim, draws, left)
            taken.append(accepted)
            said.append(logits)
            broken = broken | worse
        when, rows = torch.stack(taken).nonzero().unbind(1)
        answers = torch.stack(said).transpose(1, 2)[when, rows].transpose(0, 1)  # (networks, accepted, classes)
        trace = trace_of(answers, lanes.aim[rows])
        events = (lanes.trial[rows], lanes.candidates[rows] + when, drawn[when, rows], trace)
        fields = list(lanes.points)
        for place, field in zip(places, state.moving, strict=True):
            fields[place] = field
        lanes.points = type(lanes.points)(*fields)
        lanes.best, lanes.stale, lanes.alive = state.best, state.stale, state.alive
        return Round(events, state.tried, state.waiting.nonzero()[:, 0], broken)
