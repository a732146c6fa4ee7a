"""A round of hill climbing without a look at the device in between, for small networks on a GPU.

`hill_climb` asks the peers only about candidates that improved, which means looking, at every step, at which ones they
are. Where a network is a few matrix products, that look costs more than asking everybody about everything. Here every
network judges every candidate, all decisions are masks, and the device is looked at once a round. The moves taken are
the same; the inferences spent are networks × candidates, and are counted so.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from foible.basket import Basket, Precision
from foible.objectives import Objective, of_class, probabilities

COMPILED_FROM = 65_536  # rows; below this, compiling takes longer than it saves


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


class Dense:
    """The rounds of one search."""

    def __init__(
        self, space: Any, objective: Objective, basket: Basket, names: list[str], patience: int, precision: Precision
    ) -> None:
        self.space, self.objective, self.basket, self.names = space, objective, basket, names
        self.patience, self.precision = patience, precision
        self.moved: tuple[int, ...] | None = None  # which fields of a point moves change
        self._compiled: Any = None

    def _step(
        self, still: Any, state: State, aim: Tensor, drawn: Tensor, left: Tensor
    ) -> tuple[State, Tensor, Tensor, Tensor]:
        """One candidate for every row: the state after it, the rows that accepted it, those that broke, the logits."""
        fields = list(still)
        for place, field in zip(self.moved or (), state.moving, strict=True):
            fields[place] = field
        candidate = self.space.move(type(still)(*fields), drawn)
        logits = self.basket.judge(self.space.render(candidate), self.names, self.precision)
        whole = getattr(self.objective, "whole", False)
        score = self.objective.score(logits if whole else logits[0], aim)
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
            state.waiting | (accepted & self.objective.found(logits, aim)),
            tried,
        )
        return after, accepted, broken, logits

    def _stepper(self, rows: int) -> Any:
        if rows < COMPILED_FROM or self.basket.device.type != "cuda":
            return self._step
        if self._compiled is None:
            self._compiled = torch.compile(self._step, dynamic=False)
        return self._compiled

    def round(self, lanes: Any, drawn: Tensor, left: Tensor) -> Round:
        """Try drawn (steps, rows, draws) in turn; `lanes` is brought up to date. left: candidates each row may try."""
        if self.moved is None:
            moved = self.space.move(lanes.points, drawn[0])
            self.moved = tuple(
                k for k, (old, new) in enumerate(zip(lanes.points, moved, strict=True)) if old is not new
            )
        nobody = torch.zeros_like(lanes.alive)
        state = State(
            tuple(lanes.points[place] for place in self.moved),
            lanes.best, lanes.stale, lanes.alive, nobody, torch.zeros_like(lanes.stale),
        )  # fmt: skip
        step, taken, said, broken = self._stepper(len(lanes.rows)), [], [], nobody
        for draws in drawn:
            state, accepted, worse, logits = step(lanes.points, state, lanes.aim, draws, left)
            taken.append(accepted)
            said.append(logits)
            broken = broken | worse
        when, rows = torch.stack(taken).nonzero().unbind(1)
        answers = torch.stack(said).transpose(1, 2)[when, rows].transpose(0, 1)  # (networks, accepted, classes)
        trace = of_class(probabilities(answers), lanes.aim[rows]).t()
        events = (lanes.rows[rows], lanes.step[rows] + when, drawn[when, rows], trace)
        fields = list(lanes.points)
        for place, field in zip(self.moved, state.moving, strict=True):
            fields[place] = field
        lanes.points = type(lanes.points)(*fields)
        lanes.best, lanes.stale, lanes.alive = state.best, state.stale, state.alive
        lanes.step = lanes.step + state.tried
        return Round(events, state.tried, state.waiting.nonzero()[:, 0], broken)
