"""Gradient search in a box (paper 1, future work 4), made to spend few inferences.

What is climbed is the worst slack: by how much the condition of the worst-placed network fails, be it the suspect that
must lose the class or a peer that must hold it. A place v in the box becomes an image, the image becomes slacks, and
the slope of those that matter leads on (Adam).

Five habits keep it cheap:
- a step is no longer than its slope promises to be enough: Adam's full length suits shallow networks; deep ones have
  slopes about five times as steep, which turn within such a step;
- a start that does not get near is given up after a few steps;
- the next one is chosen by a look: of some random places of the box, the one where the suspect alone is nearest to
  its boundary. That costs one inference a place and no gradient;
- a peer is not asked where it cannot matter: while the suspect is further from losing the class than the peer can have
  come from holding it, or for one step after it was sure;
- only the networks that weigh in the worst slack are differentiated: mostly one or two of the basket.

Places are kept on a grid of 1/1024 of the box, so that a last bit, which may hang on the batch, does not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.images import to_floats
from foible.networks.load.opened import first_line
from foible.objectives import Objective, Sloped
from foible.randomness import uniforms
from foible.search.asking import Asker, trace_of
from foible.search.task import EXHAUSTED, FOUND, INVALID, Accepted, Found, Trials
from foible.spaces import at, far, is_box

GRID = 1024
NEVER = -1e9  # the slack of a network that has not been asked


@dataclass(frozen=True)
class Manner:
    """How to climb; the defaults were chosen at peer confidence 0.9 on MLPs (MNIST), small CNNs (digits) and ResNets of
    20, 32 and 44 layers (CIFAR-10)."""

    rate: float = 0.12  # Adam's, the longest step of a coordinate, in half-widths of the box
    beyond: float = 0.2  # the worst slack, above 0, at which a step aims if its slope holds
    shortest: float = 0.05  # of a full step, however little is needed
    keep: float = 0.7  # of the last slope (Adam's first moment)
    memory: float = 0.9  # of its size (Adam's second moment)
    sharpness: float = 2.0  # of the soft worst slack: weights are softmax(−sharpness · slack)
    weighs: float = 0.22  # least weight of a network that is differentiated
    sure: float = 2.0  # slack from which on a peer is asked only every second step, once the suspect is close
    drift: float = 0.8  # slack that a peer may lose in a step, while the suspect is far off
    seeds: float = 3.0  # slack that peers are taken to have at the seed image
    near: float = 1.0  # slack of the suspect, below 0, from which on it is close
    spread: float = 0.55  # of the box, for starts after the first
    looks: int = 6  # places that such a start is chosen from


def gradient(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    effort: int = 450,
    rate: float = Manner.rate,
    spread: float = Manner.spread,
    width: int | None = None,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Climb from every trial's seed image, and from other places of its box, until something is found.

    effort: the most that a trial spends, in inferences; a gradient counts as two further ones.
    rate: the longest step, in half-widths of the box. spread: how far out later starts lie, 0 to 1.
    width: lanes that share a batch. Lanes never touch. `tick(k)` hears of every k further trials that are done.
    """
    if not is_box(space):
        raise UserError(
            f"{type(space).__name__} has no slope to follow: use the search hill-climb or genetic, or make it a box by "
            'giving it kinds, reaches and draws_of (docs/compose.md, "A box of your own")'
        )
    if not isinstance(objective, Sloped):
        raise UserError(f"{type(objective).__name__} has no slack(logits, aim): the gradient search needs one")
    if effort < 1 or rate <= 0 or not 0 <= spread <= 1:
        raise UserError(
            f"effort is {effort}, rate {rate}, spread {spread}: expected at least 1, above 0, and from 0 to 1"
        )
    asker = Asker(objective, basket, suspect, precision)
    climb = _Climb(space, objective, asker, trials, seed, Manner(rate=rate, spread=spread), effort, budget or Budget())
    width = width or _width(basket, trials)
    told, count = 0, len(trials.lanes)
    waiting, live = torch.arange(count, device=basket.device).split(width), torch.empty(0, dtype=torch.int64)
    for fresh in waiting:
        live = torch.cat([live.to(fresh.device), fresh])
        last = fresh is waiting[-1]
        while len(live) > (0 if last else width // 2):
            live = climb.begin(live)
            if len(live):
                climb.step(live)
                live = climb.going(live)
            done = int(fresh[-1]) + 1 - len(live)
            if tick is not None and done > told:
                tick(done - told)
                told = done
    accepted = Accepted.gather(climb.events, space.draws, len(climb.names))
    return Found(climb.outcome.cpu(), climb.steps.cpu(), climb.forwards.cpu(), climb.backwards.cpu(), accepted)


def _width(basket: Basket, trials: Trials) -> int:
    """Lanes in a batch: what memory holds of all networks' activations."""
    each = 4 * trials.seeds[0].numel() * 200 * len(basket) if len(trials.seeds) else 1
    room = torch.cuda.mem_get_info(basket.device)[0] // 2 if basket.device.type == "cuda" else 4_000_000_000
    return int(max(16, min(16_384 if basket.device.type == "cuda" else 1000, room // each)))


class _Climb:
    """Every trial's state; `step` takes some of them one step further."""

    def __init__(
        self, space: Any, objective: Sloped, asker: Asker, trials: Trials, seed: int, manner: Manner, effort: int,
        budget: Budget,
    ) -> None:  # fmt: skip
        self.space, self.objective, self.asker, self.seed, self.manner = space, objective, asker, seed, manner
        self.effort, self.budget = effort, budget
        self.basket, self.names = asker.basket, asker.everyone
        device, count, networks = asker.basket.device, len(trials.lanes), len(self.names)
        self.lanes, self.aims, self.seeds = trials.lanes.to(device), trials.aims.to(device), trials.seeds
        self.place, self.slope, self.size = (torch.zeros(count, space.draws, device=device) for _ in range(3))
        self.slack = torch.full((count, networks), NEVER, device=device)  # as last heard
        self.age = torch.zeros(count, networks, dtype=torch.int64, device=device)  # steps since
        self.best = torch.full((count,), NEVER, device=device)  # worst slack, of this start
        self.since, self.along = (torch.zeros(count, dtype=torch.int64, device=device) for _ in range(2))
        self.starts, self.steps, self.forwards, self.backwards = (torch.zeros_like(self.since) for _ in range(4))
        self.outcome = torch.full((count,), EXHAUSTED, device=device)
        self.begins = torch.ones(count, dtype=torch.bool, device=device)
        self.events: list[tuple[Tensor, ...]] = []

    def step(self, live: Tensor) -> None:
        """Judge where these trials are, and take them one step up the slope."""
        seeds = self._seeds(live)
        place = self.place[live].requires_grad_()
        with torch.enable_grad():
            images = self.space.render(at(self.space, place, seeds))
            heard, fresh = self._ask(live, images)
            now = torch.where(fresh, heard.detach(), self.slack[live])
            self._settle(live, images.detach(), now)
            weight = torch.softmax(-self.manner.sharpness * now, 1)
            used = (weight >= self.manner.weighs) & fresh
            slope = self._slope((heard * weight * used).sum(), place)
        self.steps[live] += 1
        self.slack[live], self.age[live] = now, torch.where(fresh, 0, self.age[live] + 1)
        worst = now.amin(1)
        broken = worst.isnan() | slope.isnan().any(1)
        outcome = self.outcome[live]
        self.outcome[live] = torch.where(broken & (outcome == EXHAUSTED), INVALID, outcome)
        gained = worst > self.best[live] + 0.02
        self.since[live] = torch.where(gained, 0, self.since[live] + 1)
        self.best[live] = torch.maximum(self.best[live], worst)
        self.along[live] += 1
        going = (self.outcome[live] == EXHAUSTED) & ~self._hopeless(live)
        self.begins[live] = ~going
        self.backwards[live] += (used & going[:, None]).sum(1)
        self._move(live, slope, worst)

    def going(self, live: Tensor) -> Tensor:
        """Those of these trials that are not done."""
        forwards, backwards = self.forwards[live], self.backwards[live]
        over = (forwards + 2 * backwards >= self.effort) | self.budget.spent(forwards, backwards)
        return live[(self.outcome[live] == EXHAUSTED) & ~over]

    def begin(self, live: Tensor) -> Tensor:
        """Put those of these trials that begin anew at their places: the first time close to the seed image, then at
        the best of some looks. Back come those that can pay for a step."""
        rows = live[self.begins[live]]
        if not rows.numel():
            return live
        first = self.starts[rows] == 0
        self.place[rows] = self._places(rows, 1, 0.02)[:, 0]
        self._look(rows[~first])
        self.slack[rows] = torch.where(first, self.manner.seeds, NEVER)[:, None].expand(-1, len(self.names))
        self.slope[rows], self.size[rows], self.best[rows] = 0.0, 0.0, NEVER
        self.age[rows], self.since[rows], self.along[rows] = 0, 0, 0
        self.starts[rows] += 1
        return self.going(live)

    @torch.no_grad()
    def _look(self, rows: Tensor) -> None:
        """Put these trials at that of some random places where the suspect is nearest to its boundary.

        Nearest, not furthest beyond: where it is far gone, its peers mostly are too."""
        if not rows.numel():
            return
        looks = self.manner.looks
        places = self._places(rows, looks, self.manner.spread)
        seeds, aims = self._seeds(rows).repeat_interleave(looks, 0), self.aims[rows].repeat_interleave(looks)
        images = self.space.render(at(self.space, places.flatten(0, 1), seeds))
        said = self.basket.judge(images, self.names[:1], self.asker.precision)
        nearest = self.objective.slack(said, aims)[0].abs().view(-1, looks).argmin(1)
        self.place[rows] = places[torch.arange(len(rows), device=rows.device), nearest]
        self.forwards[rows] += looks

    def _places(self, rows: Tensor, count: int, reach: float) -> Tensor:
        """(n, count, draws): so many random places for each trial, no further out than `reach` of the box."""
        lanes, starts = self.lanes[rows][:, None], self.starts[rows][:, None]
        member = torch.arange(count, device=rows.device)
        stream = "gradient.starts"
        drawn = uniforms(self.seed, lanes, starts, member=member, stream=stream, count=self.space.draws)
        return _on_grid((2 * drawn - 1) * reach)

    def _seeds(self, rows: Tensor) -> Tensor:
        return to_floats(self.seeds.index_select(0, rows.to(self.seeds.device)).to(self.basket.device))

    def _ask(self, live: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """Slacks (n, networks), of no meaning where not asked, and who was: the suspect always, peers that matter."""
        logits = [self._judge(self.names[0], images)]
        suspect = self.objective.slack(logits[0][None], self.aims[live])[0].detach()[:, None]
        known, age, manner = self.slack[live], self.age[live], self.manner
        may_be = known - manner.drift * (age + 1)
        far_off = (may_be > suspect + 1) & (age < 5)
        close = (known > manner.sure) & (age < 1)
        fresh = ~torch.where(suspect > -manner.near, close, far_off)
        fresh[:, 0] = True
        for k, name in enumerate(self.names[1:], 1):
            rows = fresh[:, k].nonzero()[:, 0]
            said = torch.zeros_like(logits[0])
            if rows.numel():
                whole = len(rows) == len(live)
                answers = self._judge(name, images if whole else images.index_select(0, rows))
                said = answers if whole else said.index_copy(0, rows, answers)
            logits.append(said)
        self.forwards[live] += fresh.sum(1)
        slacks = self.objective.slack(torch.stack(logits), self.aims[live]).t()
        return slacks, fresh

    def _judge(self, name: str, images: Tensor) -> Tensor:
        said = self.basket.judge(images, [name], self.asker.precision)[0]
        if not said.requires_grad:
            raise UserError(f"network {name!r} gives no gradient: use the search hill-climb or strategy")
        return said

    def _slope(self, gain: Tensor, place: Tensor) -> Tensor:
        try:
            return torch.autograd.grad(gain, place)[0]
        except RuntimeError as error:
            raise UserError(
                f"torch cannot differentiate one of {', '.join(map(repr, self.names))} ({first_line(error)}): it may "
                "write into what it keeps from call to call; mend it, or use the search hill-climb or strategy"
            ) from error

    @torch.no_grad()
    def _settle(self, live: Tensor, images: Tensor, now: Tensor) -> None:
        """Where all conditions seem to hold, ask everyone about the image that a PNG will hold."""
        ready = (now > 0).all(1).nonzero()[:, 0]
        if not ready.numel():
            return
        rows = live[ready]
        found, logits = self.asker.settled(images.index_select(0, ready), self.aims[rows])
        self.forwards[rows] += len(self.names)
        now[ready] = torch.minimum(now[ready], self.objective.slack(logits, self.aims[rows]).t())
        sure = found.nonzero()[:, 0]
        self.outcome[rows[sure]] = FOUND
        trace = trace_of(logits[:, sure], self.aims[rows[sure]])
        self.events.append((rows[sure], self.steps[rows[sure]], far(self.space, self.place[rows[sure]]), trace))

    def _hopeless(self, live: Tensor) -> Tensor:
        """Starts to give up: still far after some steps, no longer gaining, or simply long."""
        along, best = self.along[live], self.best[live]
        far_off = ((along >= 5) & (best < -2.0)) | ((along >= 9) & (best < -1.0))
        return far_off | (self.since[live] >= 6) | (along >= 40)

    def _move(self, live: Tensor, slope: Tensor, worst: Tensor) -> None:
        """A step of Adam, shortened to what the slope (n, draws) promises to be enough."""
        manner, along = self.manner, self.along[live][:, None]
        self.slope[live] = manner.keep * self.slope[live] + (1 - manner.keep) * slope
        self.size[live] = manner.memory * self.size[live] + (1 - manner.memory) * slope.square()
        mean, square = self.slope[live] / (1 - manner.keep**along), self.size[live] / (1 - manner.memory**along)
        step = manner.rate * mean / (square.sqrt() + 1e-8)
        promised = (step * slope).sum(1)
        share = ((manner.beyond - worst) / promised.clamp(min=1e-6)).clamp(manner.shortest, 1.0)
        share = torch.where(promised > 0, share, 1.0)  # against the slope: momentum carries on in full
        self.place[live] = _on_grid((self.place[live] + share[:, None] * step).clamp(-1, 1))


def _on_grid(place: Tensor) -> Tensor:
    return (place * GRID).round() / GRID
