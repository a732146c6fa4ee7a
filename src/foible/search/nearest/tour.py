"""To a target by the planes of all margins: it must be ahead of every rival at once (tangents.py)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.nearest.first_order import Aim
from foible.search.nearest.projection import within
from foible.search.nearest.recorded import repeat
from foible.search.nearest.tangents import SLOTS, State, start, step

STEPS, EARLY, REFRESH = 60, 10, 2  # at most; where planes turn out to mislead; and slopes that are refreshed in each
RESCUE, LEAD = 20, 60  # steps after which a row that has found nothing is led there by its gradient; steps of that
COSTS = SLOTS + EARLY * REFRESH  # gradients, where planes mislead
MISLEADING = 0.02  # what the planes are wrong by, from which on they mislead
AGAIN = (1.5, 0.5, 3.0, 0.75, 2.0)  # where further starts begin, in units of the distance found


class Tour:
    """What the ledger of an `Aim` comes to for some of its rows."""

    def __init__(self, aim: Aim, again: int, steps: int = STEPS, metric: str | None = None) -> None:
        """again: further starts, where planes are true. steps: at most. metric: of the projections; by default the norm
        that is asked for."""
        self.aim, self.ledger, self.again, self.steps = aim, aim.ledger, again, steps
        self.metric = aim.norm if metric is None else metric

    def go(self, rows: Tensor, targets: Tensor) -> Tensor:
        """From x; where that finds nothing, from where a gradient leads; then from other points on the line through
        what was found. (m,): how wrong the planes were, of these rows (m,)."""
        aim, ledger = self.aim, self.ledger
        bent = self._go(rows, targets, aim.x[rows], self.steps, RESCUE if aim.norm == "l2" else self.steps)
        lost = (~ledger.found[rows] & (bent < MISLEADING)).nonzero()[:, 0]
        if len(lost):
            there = self._lead(rows[lost], targets[lost])
            led = ledger.found[rows[lost]].nonzero()[:, 0]
            rest = max(1, (STEPS - RESCUE) // 2)
            before, self.metric = self.metric, "l2"  # surer than the maximum norm, which may have been the trouble
            self._go(rows[lost[led]], targets[lost[led]], there[led], rest, rest)
            self.metric = before
        for factor in AGAIN[: self.again]:
            index = (ledger.found[rows] & (bent < MISLEADING)).nonzero()[:, 0]
            some = rows[index]
            x = aim.x[some]
            begin = within(x + factor * (ledger.best[some] - x), aim.low, aim.high)
            self._go(some, targets[index], begin, STEPS, STEPS)
        return bent

    def _go(self, rows: Tensor, targets: Tensor, begin: Tensor, steps: int, patience: int) -> Tensor:
        """Steps from `begin`; a row that has found nothing after `patience` of them ends, and one whose planes mislead
        soon. (m,): how wrong they were."""
        aim, ledger = self.aim, self.ledger
        bent = torch.zeros_like(aim.x[:, 0])
        able = ledger.able(rows, SLOTS).nonzero()[:, 0]
        if not len(able):
            return bent[rows]
        state = start(aim, rows[able], targets[able], begin[able], self.metric)
        ended: list[tuple[Tensor, ...]] = []
        ahead = min(steps, EARLY) if state.x.is_cuda and self.metric == "l2" and ledger.budget == Budget() else 0
        state = repeat(self._once, state, ahead)
        for number in range(ahead, steps):
            going = ledger.able(state.row, REFRESH) & (state.still < 2)
            if number == EARLY:
                going &= state.bent < MISLEADING
            if number == patience:
                going &= ledger.found[state.row]
            if not bool(going.all()):
                done = (~going).nonzero()[:, 0]
                bent[state.row[done]] = state.bent[done]
                ended.append((state.row[done], state.z[done]))
                state.keep(going.nonzero()[:, 0])
            if not len(state.row):
                break
            step(aim, state, self.metric, REFRESH)
        bent[state.row] = state.bent
        ended.append((state.row, state.z))
        self._reach(*(torch.cat(parts) for parts in zip(*ended, strict=True)))
        return bent[rows]

    def _once(self, state: State) -> State:
        """One step of all rows."""
        new = replace(state)
        step(self.aim, new, self.metric, REFRESH)
        return new

    @torch.no_grad()
    def _reach(self, rows: Tensor, z: Tensor) -> None:
        """Along the segment from x through where each row ended: the first point beyond the boundary, by halving. Then
        once more, finely, along the segment to the nearest point known."""
        aim, ledger = self.aim, self.ledger
        known = ledger.found[rows]
        for fine, halvings in ((False, 9), (True, 12)):
            x = aim.x[rows]
            direction = ledger.best[rows] - x if fine else z - x
            near, far = (torch.where(known, 0.999, 0.99), 1.0) if fine else (0.97, torch.where(known, 1.1, 4.0))
            short, long = near * torch.ones_like(x[:, 0]), far * torch.ones_like(x[:, 0])
            for _ in range(halvings):
                able = ledger.able(rows, 0).nonzero()[:, 0]
                if len(able) < len(rows):
                    rows, z, x, known = (part[able] for part in (rows, z, x, known))
                    direction, short, long = direction[able], short[able], long[able]
                if not len(rows):
                    return
                middle = (short + long) / 2
                points = within(x + middle[:, None] * direction, aim.low, aim.high)
                hit = aim.note(rows, points, aim.logits(points, rows).detach())
                short, long = torch.where(hit, short, middle), torch.where(hit, middle, long)

    def _lead(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Points (n, d) where the target is given, from the best there is up the slope of its log-probability; strides
        grow while it rises and shrink when it falls. Where that leads nowhere, how far it came."""
        aim, ledger, x = self.aim, self.ledger, self.aim.x[rows]
        z, live = ledger.best[rows].clone(), torch.arange(len(x), device=x.device)
        endless = math.isinf(float(torch.as_tensor(aim.high).max()))
        room = x.abs().mean(1).clamp_min(1e-6) if endless else torch.ones_like(x[:, 0])
        stride = 0.002 * math.sqrt(x.shape[1]) * room
        before = torch.full_like(stride, -torch.inf)
        for _ in range(LEAD):
            live = live[ledger.able(rows[live], 1)]
            if not len(live):
                break
            here = rows[live]
            with torch.enable_grad():
                at = z[live].detach().requires_grad_()
                logits = aim.logits(at, here)
                gain = logits.log_softmax(1).gather(1, targets[live][:, None])[:, 0]
                slope = torch.autograd.grad(gain.sum(), at)[0]
            ledger.backwards[here] += 1
            ledger.invalid[here] |= ~slope.isfinite().all(1)
            hit = aim.note(here, z[live], logits.detach())
            stride[live] *= torch.where(gain.detach() > before[live], 1.1, 0.6)
            before[live] = gain.detach()
            ahead = stride[live][:, None] * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-30)
            z[live] = torch.where(hit[:, None], z[live], within(z[live] + ahead, aim.low, aim.high))
            live = live[~hit]
        return z
