"""The nearest image that a network calls something else: our own method, and the default of `distort`.

For a target t and rivals j the problem is: minimise ½‖z − x‖² where the margins gⱼ(z) = f_t(z) − fⱼ(z) are at least 0
and z stays in the box. Each step replaces the margins by their tangents at z and projects onto these and the box
exactly (projection.py); for a linear network one step is the answer. What makes it quick elsewhere:

- the margins are known at every step, their slopes are refreshed two at a time, the most violated and the oldest that
  matters; the others are a few steps old;
- `curve` estimates by how much the margins bend along the last step (as Barzilai and Borwein do), and moves the point
  that is projected between x and z accordingly;
- a step that makes distance and violation together worse than all of the last few is taken back and halved.

At the end a line search on the segment from x brings every image just beyond the boundary. Rows never touch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import Model, Nearest, length, margin
from foible.search.projection import Bound, project, project_linf, within

SLOTS = 9  # most rivals whose slopes are kept
MEMORY = 4  # steps that a new one must not be worse than
AGAIN = (1.5, 0.5, 3.0, 0.75, 2.0)  # where further starts begin, in units of the distance found
RESCUE, LEAD = 20, 60  # steps after which a row that has found nothing is led there by its gradient; steps of that


@dataclass
class _State:
    """The rows that are still going; every field has one row each."""

    row: Tensor
    x: Tensor  # (n, d) where it began
    z: Tensor  # (n, d) where it is
    label: Tensor
    target: Tensor
    slot: Tensor  # (n, k) the rivals' classes
    gap: Tensor  # (n, k) margins over them at z
    slope: Tensor  # (n, k, d) of these margins, some from earlier steps
    age: Tensor  # (n, k) in steps
    weight: Tensor  # (n, k) multipliers
    curve: Tensor
    damp: Tensor  # share of a step that is taken
    half: Tensor  # (n, MEMORY) half the squared distance at the last points
    lack: Tensor  # (n, MEMORY) and by how much the worst margin was violated there
    still: Tensor  # small steps in a row

    def keep(self, index: Tensor) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name).index_select(0, index))


def closest(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    norm: str = "l2",
    low: Bound = 0.0,
    high: Bound = 1.0,
    steps: int = 60,
    refresh: int = 2,
    starts: int = 1,
    tries: int = 3,
    sure: float = 2e-6,
    width: int | None = None,
    budget: Budget | None = None,
    tick: Callable[[int], None] | None = None,
) -> Nearest:
    """The nearest images (n, *shape) that `model` gives the targets to; without targets, that it no longer gives the
    labels to.

    norm: "l2" or "linf". steps: at most, each a forward and `refresh` backwards. starts: how often to begin, 1 to 6:
    again from other points on the line through what was found; deep networks have many nearby answers. tries: without
    targets, how many of the rivals that look nearest are each tried. sure: by how much, as a share of the largest
    logit, a margin must be above 0, since another batch may round otherwise. width: rows in a batch. budget: for each
    image, over all of its tries. tick(k) hears of k further images.
    """
    if norm not in ("l2", "linf"):
        raise UserError(f"norm is {norm!r}: expected l2 or linf")
    for name, value in (("steps", steps), ("refresh", refresh), ("starts", starts), ("tries", tries)):
        if value < 1:
            raise UserError(f"{name} is {value}: expected at least 1")
    if starts > 1 + len(AGAIN):
        raise UserError(f"starts is {starts}: expected at most {1 + len(AGAIN)}")
    if len(images) and not bool(((images >= low) & (images <= high)).all()):
        raise UserError(
            f"pixels from {float(images.min()):.4g} to {float(images.max()):.4g}: expected all within {low} and {high}"
        )
    search = _Search(model, norm, low, high, steps, refresh, starts, sure, budget or Budget())
    width = width or _width(images)
    parts = []
    for rows in torch.arange(len(images), device=images.device).split(width):
        if targets is None:
            parts.append(search.untargeted(images[rows], labels[rows], tries))
        else:
            parts.append(search.targeted(images[rows], labels[rows], targets[rows]))
        if tick is not None:
            tick(len(rows))
    if not parts:
        none = torch.zeros(0, dtype=torch.int64, device=images.device)
        return Nearest(images.clone(), none.bool(), none.bool(), none, none.clone())
    joined = (torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Nearest))
    return Nearest(*joined)


def _width(images: Tensor) -> int:
    """Rows in a batch: the slopes are SLOTS times an image."""
    each = 4 * SLOTS * 4 * max(1, images[0].numel()) if len(images) else 1
    if images.is_cuda:
        free, _ = torch.cuda.mem_get_info(images.device)
        return int(max(16, min(16_384, free // 8 // each)))
    return int(max(16, min(512, 2**29 // each)))


class _Search:
    def __init__(
        self,
        model: Model,
        norm: str,
        low: Bound,
        high: Bound,
        steps: int,
        refresh: int,
        starts: int,
        sure: float,
        budget: Budget,
    ) -> None:
        self.model, self.norm, self.low, self.high = model, norm, low, high
        self.metric = norm  # of the projections
        self.steps, self.refresh, self.starts, self.sure, self.budget = steps, refresh, starts, sure, budget

    def _logits(self, points: Tensor) -> Tensor:
        return self.model(points.view(-1, *self.shape))

    def _begin(self, images: Tensor) -> tuple[Tensor, Tensor]:
        self.shape = images.shape[1:]
        x = images.flatten(1)
        with torch.no_grad():
            logits = self._logits(x).detach()
        count = len(x)
        self.best, self.least = x.clone(), torch.full((count,), torch.inf, dtype=x.dtype, device=x.device)
        self.nearly = torch.full_like(self.least, -torch.inf)  # the best margin where nothing is found
        self.invalid = torch.zeros(count, dtype=torch.bool, device=x.device)
        self.forwards = torch.ones(count, dtype=torch.int64, device=x.device)
        self.backwards = torch.zeros_like(self.forwards)
        return x, logits

    def _end(self) -> Nearest:
        found = self.least < torch.inf
        return Nearest(
            self.best.view(-1, *self.shape), found, self.invalid & ~found, self.forwards, self.backwards
        )  # fmt: skip

    def _note(self, rows: Tensor, x: Tensor, points: Tensor, logits: Tensor, labels: Tensor, targets: Tensor) -> Tensor:
        """Remember points (n, d) that are nearer than any before; which of them say what is wanted."""
        by = margin(logits, labels, targets)
        sure = self.sure * logits.abs().amax(1)
        hit = (by > sure) & logits.isfinite().all(1)
        size = length(points - x, self.norm)
        better = hit & (size < self.least[rows])
        nearer = (self.least[rows] == torch.inf) & ~hit & (by > self.nearly[rows])
        index = (better | nearer).nonzero()[:, 0]
        self.best[rows[index]] = points[index]
        self.nearly[rows] = torch.where(nearer, by, self.nearly[rows])
        self.least[rows] = torch.where(better, size, self.least[rows])
        return hit

    def targeted(self, images: Tensor, labels: Tensor, targets: Tensor) -> Nearest:
        x, logits = self._begin(images)
        rows = torch.arange(len(x), device=x.device)
        hit = self._note(rows, x, x, logits, labels, targets)
        broken = ~logits.isfinite().all(1)
        self.invalid |= broken
        rows = (~hit & ~broken).nonzero()[:, 0]
        if len(rows) and not self._spent(rows, min(SLOTS, logits.shape[1] - 1)).all():
            self._tour(x[rows], labels[rows], targets[rows], rows)
        return self._end()

    def _tour(self, x: Tensor, labels: Tensor, targets: Tensor, rows: Tensor) -> None:
        """From x, and then from other points on the line through what was found."""
        self._run(x, labels, targets, rows, x, self.steps, RESCUE if self.norm == "l2" else self.steps)
        lost = ((self.least[rows] == torch.inf) & ~self.invalid[rows]).nonzero()[:, 0]
        if len(lost):
            there = self._lead(x[lost], labels[lost], targets[lost], rows[lost])
            led = (self.least[rows[lost]] < torch.inf).nonzero()[:, 0]
            if len(led):
                part = lost[led]
                self.metric = "l2"  # surer than the maximum norm, which may have been the trouble
                rest = max(1, (self.steps - RESCUE) // 2)
                self._run(x[part], labels[part], targets[part], rows[part], there[led], rest, rest)
                self.metric = self.norm
        for factor in AGAIN[: self.starts - 1]:
            again = ((self.least[rows] < torch.inf) & ~self.invalid[rows]).nonzero()[:, 0]
            if not len(again):
                return
            x, labels, targets, rows = x[again], labels[again], targets[again], rows[again]
            begin = within(x + factor * (self.best[rows] - x), self.low, self.high)
            self._run(x, labels, targets, rows, begin, self.steps, self.steps)

    def _spent(self, rows: Tensor, backwards: int) -> Tensor:
        over = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        if self.budget.forwards is not None:
            over |= self.forwards[rows] + 1 > self.budget.forwards
        if self.budget.backwards is not None:
            over |= self.backwards[rows] + backwards > self.budget.backwards
        return over

    def untargeted(self, images: Tensor, labels: Tensor, tries: int) -> Nearest:
        """Each of the `tries` rivals that look nearest from x is a target; the nearest found wins."""
        x, logits = self._begin(images)
        everything = torch.arange(len(x), device=x.device)
        said = logits.argmax(1)
        self.invalid |= ~logits.isfinite().all(1)
        self._note(everything, x, x, logits, labels, torch.where(said == labels, (labels + 1) % logits.shape[1], said))
        todo = ((self.least == torch.inf) & ~self.invalid).nonzero()[:, 0]
        if not len(todo):
            return self._end()
        rivals = logits[todo].scatter(1, labels[todo][:, None], -torch.inf)
        classes = rivals.topk(min(SLOTS, logits.shape[1] - 1), 1).indices
        gaps, slopes, _ = self._slopes(x[todo], labels[todo], lambda _: classes)
        self.forwards[todo] += 1
        self.backwards[todo] += classes.shape[1]
        guess = gaps / slopes.norm(dim=2, p=1 if self.norm == "linf" else 2).clamp_min(1e-12)
        order = guess.argsort(dim=1)[:, :tries]
        for k in range(order.shape[1]):
            rows = todo[~self.invalid[todo]]
            if not len(rows):
                break
            chosen = classes.gather(1, order[:, k : k + 1])[:, 0][~self.invalid[todo]]
            self._tour(x[rows], labels[rows], chosen, rows)
        return self._end()

    def _slopes(
        self, points: Tensor, aims: Tensor, choose: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Margins of the aims over some classes (n, k), which `choose` names when the logits are known; their slopes
        (n, k, d); and the logits."""
        with torch.enable_grad():
            at = points.detach().requires_grad_()
            logits = self._logits(at)
            if not logits.requires_grad:
                raise UserError("the model gives no gradient: minimal distortions need a differentiable network")
            classes = choose(logits.detach())
            gaps = logits.gather(1, aims[:, None]) - logits.gather(1, classes)
            last = classes.shape[1] - 1
            slopes = [
                torch.autograd.grad(gaps[:, k].sum(), at, retain_graph=k < last)[0] for k in range(last + 1)
            ]  # fmt: skip
        return gaps.detach(), torch.stack(slopes, 1), logits.detach()

    def _run(
        self, x: Tensor, labels: Tensor, targets: Tensor, rows: Tensor, begin: Tensor, steps: int, patience: int
    ) -> None:
        """Steps from `begin`; a row that has found nothing after `patience` of them ends."""
        state = self._start(x, labels, targets, rows, begin)
        finished: list[tuple[Tensor, ...]] = []
        for step in range(steps):
            going = ~self._spent(state.row, self.refresh) & (state.still < 2) & ~self.invalid[state.row]
            if step == patience:
                going &= self.least[state.row] < torch.inf
            if not bool(going.all()):
                done = (~going).nonzero()[:, 0]
                finished.append(tuple(part[done] for part in (state.row, state.x, state.z, state.label, state.target)))
                state.keep(going.nonzero()[:, 0])
            if not len(state.row):
                break
            self._step(state)
        finished.append((state.row, state.x, state.z, state.label, state.target))
        self._reach(*(torch.cat(parts) for parts in zip(*finished, strict=True)))

    def _start(self, x: Tensor, labels: Tensor, targets: Tensor, rows: Tensor, begin: Tensor) -> _State:
        count, slots = len(x), 0

        def strongest(logits: Tensor) -> Tensor:
            nonlocal slots
            slots = min(SLOTS, logits.shape[1] - 1)
            return logits.scatter(1, targets[:, None], -torch.inf).topk(slots, 1).indices

        picked: list[Tensor] = []
        gaps, slopes, _ = self._slopes(begin, targets, lambda logits: picked.append(strongest(logits)) or picked[0])  # type: ignore[func-returns-value]
        self.forwards[rows] += 1
        self.backwards[rows] += slots
        one = torch.ones(count, dtype=x.dtype, device=x.device)
        state = _State(
            row=rows, x=x, z=begin.clone(), label=labels, target=targets, slot=picked[0], gap=gaps, slope=slopes,
            age=torch.zeros_like(gaps), weight=torch.zeros_like(gaps), curve=one, damp=one.clone(),
            half=(0.5 * length(begin - x, self.metric).square())[:, None].repeat(1, MEMORY),
            lack=(-gaps).amax(1).clamp_min(0)[:, None].repeat(1, MEMORY),
            still=torch.zeros(count, dtype=torch.int64, device=x.device),
        )  # fmt: skip
        self.invalid[rows] |= ~slopes.flatten(1).isfinite().all(1)
        return state

    def _step(self, s: _State) -> None:
        lengths = s.slope.norm(dim=2)
        away = length(s.z - s.x, self.metric)
        beyond = (1e-6 + 2e-5 * away)[:, None] * lengths
        offsets = beyond - s.gap + torch.bmm(s.slope, s.z[:, :, None])[:, :, 0]
        if self.metric == "l2":
            bend = s.curve[:, None]
            goal, weight = project(
                (s.x + (bend - 1) * s.z) / bend, s.slope, offsets, self.low, self.high, start=s.weight / bend
            )
            weight = weight * bend
        else:
            goal, weight = project_linf(s.x, s.slope, offsets, self.low, self.high)
        new = s.z + s.damp[:, None] * (goal - s.z)
        step = new - s.z
        picked: list[Tensor] = []

        def choose(logits: Tensor) -> Tensor:
            """The worst margin, and those that matter with the oldest slopes; a rival without a slot takes one."""
            worst = logits.scatter(1, s.target[:, None], -torch.inf).argmax(1, keepdim=True)
            missing = ~(s.slot == worst).any(1)
            if bool(missing.any()):
                idle = torch.where(weight > 0, torch.inf, logits.gather(1, s.slot)).argmin(1)
                lanes = missing.nonzero()[:, 0]
                s.slot[lanes, idle[lanes]] = worst[lanes, 0]
            share = weight / weight.sum(1, keepdim=True).clamp_min(1e-20)
            need = share * (1 + s.age) + 1e-4 * s.age / (1 + s.age)
            need = torch.where(s.slot == worst, torch.inf, need)
            places = need.topk(min(self.refresh, need.shape[1]), 1).indices
            picked.append(places)
            return s.slot.gather(1, places)

        _, slopes, logits = self._slopes(new, s.target, choose)
        places = picked[0]
        self.forwards[s.row] += 1
        self.backwards[s.row] += places.shape[1]
        broken = ~(logits.isfinite().all(1) & slopes.flatten(1).isfinite().all(1))
        self.invalid[s.row] |= broken
        hit = self._note(s.row, s.x, new, logits, s.label, s.target)
        gap = logits.gather(1, s.target[:, None]) - logits.gather(1, s.slot)
        half, lack = 0.5 * length(new - s.x, self.metric).square(), (-gap).amax(1).clamp_min(0)
        price = 1.5 * weight.sum(1, keepdim=True)
        taken = half + price[:, 0] * lack <= (s.half + price * s.lack).amax(1) * (1 + 1e-6)
        wide = places[:, :, None].expand(-1, -1, new.shape[1])
        if self.metric == "l2":
            turned = torch.bmm(weight.gather(1, places)[:, None, :], slopes - s.slope.gather(1, wide))[:, 0]
            moved = step.square().sum(1)
            bend = ((step - turned) * step).sum(1) / moved.clamp_min(1e-20)
            s.curve = torch.where(moved > 1e-10, 0.5 * s.curve + 0.5 * bend.clamp(0.5, 20.0), s.curve)
        small = step.norm(dim=1) <= 2e-4 * (new - s.x).norm(dim=1)
        s.still = torch.where(small & (hit | (s.damp < 1e-3)), s.still + 1, 0)
        t = taken[:, None]
        s.z, s.gap = torch.where(t, new, s.z), torch.where(t, gap, s.gap)
        s.slope = torch.where(t[:, :, None], s.slope.scatter(1, wide, slopes), s.slope)
        s.age = torch.where(t, (s.age + 1).scatter(1, places, 0.0), s.age)
        s.weight = weight
        s.damp = torch.where(taken, (2 * s.damp).clamp_max(1.0), 0.5 * s.damp)
        s.half = torch.where(t, torch.cat([s.half[:, 1:], half[:, None]], 1), s.half)
        s.lack = torch.where(t, torch.cat([s.lack[:, 1:], lack[:, None]], 1), s.lack)

    @torch.no_grad()
    def _reach(self, rows: Tensor, x: Tensor, z: Tensor, labels: Tensor, targets: Tensor) -> None:
        """Along the segment from x through where each row ended: the first point beyond the boundary, by halving. Then
        once more, finely, along the segment to the nearest point known."""
        for near, far, halvings in ((0.97, 1.1, 9), (0.999, 1.0, 10)):
            known = self.least[rows] < torch.inf
            direction = (self.best[rows] - x) if far == 1.0 else z - x
            short = torch.full((len(rows),), near, dtype=x.dtype, device=x.device)
            long = torch.where(known, far, 4.0).to(x.dtype)
            for _ in range(halvings):
                able = (~self._spent(rows, 0) & ~self.invalid[rows]).nonzero()[:, 0]
                if not len(able):
                    return
                if len(able) < len(rows):
                    rows, x, z, labels, targets = (part[able] for part in (rows, x, z, labels, targets))
                    direction, short, long = direction[able], short[able], long[able]
                middle = (short + long) / 2
                points = within(x + middle[:, None] * direction, self.low, self.high)
                logits = self._logits(points).detach()
                self.forwards[rows] += 1
                hit = self._note(rows, x, points, logits, labels, targets)
                short, long = torch.where(hit, short, middle), torch.where(hit, middle, long)

    def _lead(self, x: Tensor, labels: Tensor, targets: Tensor, rows: Tensor) -> Tensor:
        """Points (n, d) where the target is given, from the best there is up the slope of its log-probability; steps
        grow while it rises and shrink when it falls. Where that leads nowhere, how far it came."""
        z, live = self.best[rows].clone(), torch.arange(len(x), device=x.device)
        room = x.abs().mean(1) if math.isinf(float(torch.as_tensor(self.high).max())) else torch.ones_like(x[:, 0])
        stride = 0.002 * math.sqrt(x.shape[1]) * room.clamp_min(1e-6)
        before = torch.full_like(stride, -torch.inf)
        for _ in range(LEAD):
            live = live[~self._spent(rows[live], 1) & ~self.invalid[rows[live]]]
            if not len(live):
                break
            with torch.enable_grad():
                at = z[live].detach().requires_grad_()
                logits = self._logits(at)
                gain = logits.log_softmax(1).gather(1, targets[live][:, None])[:, 0]
                slope = torch.autograd.grad(gain.sum(), at)[0]
            self.forwards[rows[live]] += 1
            self.backwards[rows[live]] += 1
            hit = self._note(rows[live], x[live], z[live], logits.detach(), labels[live], targets[live])
            self.invalid[rows[live]] |= ~(slope.isfinite().all(1) & logits.detach().isfinite().all(1))
            stride[live] *= torch.where(gain.detach() > before[live], 1.1, 0.6)
            before[live] = gain.detach()
            step = stride[live][:, None] * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-30)
            z[live] = torch.where(hit[:, None], z[live], within(z[live] + step, self.low, self.high))
            live = live[~hit]
        return z
