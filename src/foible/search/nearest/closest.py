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

import torch
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import Model, Nearest, join
from foible.search.nearest.ledger import Ledger
from foible.search.nearest.projection import Bound, within
from foible.search.nearest.tangents import SLOTS, Problem, slopes_at, start, step

RESCUE, LEAD = 20, 60  # steps after which a row that has found nothing is led there by its gradient; steps of that
AGAIN = (1.5, 0.5, 3.0, 0.75, 2.0)  # where further starts begin, in units of the distance found


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
    logit and of 1, a margin must be above 0, since another batch may round otherwise. width: rows in a batch. budget:
    for each image, over all of its tries. tick(k) hears of k further images.
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
    width = width or _width(images)
    parts = []
    for rows in torch.arange(len(images), device=images.device).split(width):
        x = images[rows].flatten(1)
        problem = Problem(
            model, images.shape[1:], x, labels[rows], any_class=targets is None, norm=norm, low=low, high=high,
            sure=sure, ledger=Ledger(x, budget),
        )  # fmt: skip
        search = _Search(problem, steps, refresh, starts)
        search.run(None if targets is None else targets[rows], tries)
        parts.append(problem.ledger.close(problem.shape))
        if tick is not None:
            tick(len(rows))
    return join(parts)


def _width(images: Tensor) -> int:
    """Rows in a batch: the slopes are SLOTS times an image."""
    each = 4 * SLOTS * 4 * max(1, images[0].numel()) if len(images) else 1
    if images.is_cuda:
        free, _ = torch.cuda.mem_get_info(images.device)
        return int(max(16, min(16_384, free // 8 // each)))
    return int(max(16, min(512, 2**29 // each)))


class _Search:
    """The whole search for the images of one problem."""

    def __init__(self, problem: Problem, steps: int, refresh: int, starts: int) -> None:
        self.problem, self.ledger = problem, problem.ledger
        self.steps, self.refresh, self.starts = steps, refresh, starts
        self.metric = problem.norm  # of the projections

    def run(self, targets: Tensor | None, tries: int) -> None:
        problem, ledger, x = self.problem, self.ledger, self.problem.x
        rows = torch.arange(len(x), device=x.device)
        with torch.no_grad():
            logits = problem.logits(x, rows).detach()
        self.slots = min(SLOTS, logits.shape[1] - 1)
        hit = problem.note(rows, x, logits, rows if targets is None else targets)
        rows = (~hit & ledger.able(rows, self.slots)).nonzero()[:, 0]
        if not len(rows):
            return
        if targets is not None:
            self._tour(rows, targets[rows])
            return
        for chosen in self._likely(rows, logits[rows], tries).unbind(1):
            self._tour(rows, chosen)

    def _likely(self, rows: Tensor, logits: Tensor, tries: int) -> Tensor:
        """(n, tries): the rivals that look nearest from x, by their tangents there."""
        problem, labels = self.problem, self.problem.labels[rows]
        classes = logits.scatter(1, labels[:, None], -torch.inf).topk(self.slots, 1).indices
        gaps, slopes, _ = slopes_at(problem, rows, problem.x[rows], labels, lambda _: classes)
        guess = gaps / slopes.norm(dim=2, p=1 if problem.norm == "linf" else 2).clamp_min(1e-12)
        return classes.gather(1, guess.argsort(dim=1)[:, :tries])

    def _tour(self, rows: Tensor, targets: Tensor) -> None:
        """From x; where that finds nothing, from where a gradient leads; then from other points on the line through
        what was found."""
        problem, ledger, steps = self.problem, self.ledger, self.steps
        self._go(rows, targets, problem.x[rows], steps, RESCUE if problem.norm == "l2" else steps)
        lost = (~ledger.found[rows]).nonzero()[:, 0]
        if len(lost):
            there = self._lead(rows[lost], targets[lost])
            led = ledger.found[rows[lost]].nonzero()[:, 0]
            rest = max(1, (steps - RESCUE) // 2)
            self.metric = "l2"  # surer than the maximum norm, which may have been the trouble
            self._go(rows[lost[led]], targets[lost[led]], there[led], rest, rest)
            self.metric = problem.norm
        for factor in AGAIN[: self.starts - 1]:
            again = ledger.found[rows].nonzero()[:, 0]
            rows, targets = rows[again], targets[again]
            x = problem.x[rows]
            begin = within(x + factor * (ledger.best[rows] - x), problem.low, problem.high)
            self._go(rows, targets, begin, steps, steps)

    def _go(self, rows: Tensor, targets: Tensor, begin: Tensor, steps: int, patience: int) -> None:
        """Steps from `begin`; a row that has found nothing after `patience` of them ends."""
        problem, ledger = self.problem, self.ledger
        able = ledger.able(rows, self.slots).nonzero()[:, 0]
        if not len(able):
            return
        state = start(problem, rows[able], targets[able], begin[able], self.metric)
        ended: list[tuple[Tensor, ...]] = []
        for number in range(steps):
            going = ledger.able(state.row, self.refresh) & (state.still < 2)
            if number == patience:
                going &= ledger.found[state.row]
            if not bool(going.all()):
                done = (~going).nonzero()[:, 0]
                ended.append((state.row[done], state.z[done], state.target[done]))
                state.keep(going.nonzero()[:, 0])
            if not len(state.row):
                break
            step(problem, state, self.metric, self.refresh)
        ended.append((state.row, state.z, state.target))
        self._reach(*(torch.cat(parts) for parts in zip(*ended, strict=True)))

    @torch.no_grad()
    def _reach(self, rows: Tensor, z: Tensor, targets: Tensor) -> None:
        """Along the segment from x through where each row ended: the first point beyond the boundary, by halving. Then
        once more, finely, along the segment to the nearest point known."""
        problem, ledger = self.problem, self.ledger
        known = ledger.found[rows]
        for fine, halvings in ((False, 9), (True, 12)):
            x = problem.x[rows]
            direction = ledger.best[rows] - x if fine else z - x
            near, far = (torch.where(known, 0.999, 0.99), 1.0) if fine else (0.97, torch.where(known, 1.1, 4.0))
            short, long = near * torch.ones_like(x[:, 0]), far * torch.ones_like(x[:, 0])
            for _ in range(halvings):
                able = ledger.able(rows, 0).nonzero()[:, 0]
                if len(able) < len(rows):
                    rows, z, targets, x, known = (part[able] for part in (rows, z, targets, x, known))
                    direction, short, long = direction[able], short[able], long[able]
                if not len(rows):
                    return
                middle = (short + long) / 2
                points = within(x + middle[:, None] * direction, problem.low, problem.high)
                hit = problem.note(rows, points, problem.logits(points, rows).detach(), targets)
                short, long = torch.where(hit, short, middle), torch.where(hit, middle, long)

    def _lead(self, rows: Tensor, targets: Tensor) -> Tensor:
        """Points (n, d) where the target is given, from the best there is up the slope of its log-probability; strides
        grow while it rises and shrink when it falls. Where that leads nowhere, how far it came."""
        problem, ledger, x = self.problem, self.ledger, self.problem.x[rows]
        z, live = ledger.best[rows].clone(), torch.arange(len(x), device=x.device)
        endless = math.isinf(float(torch.as_tensor(problem.high).max()))
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
                logits = problem.logits(at, here)
                gain = logits.log_softmax(1).gather(1, targets[live][:, None])[:, 0]
                slope = torch.autograd.grad(gain.sum(), at)[0]
            ledger.backwards[here] += 1
            ledger.invalid[here] |= ~slope.isfinite().all(1)
            hit = problem.note(here, z[live], logits.detach(), targets[live])
            stride[live] *= torch.where(gain.detach() > before[live], 1.1, 0.6)
            before[live] = gain.detach()
            ahead = stride[live][:, None] * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-30)
            z[live] = torch.where(hit[:, None], z[live], within(z[live] + ahead, problem.low, problem.high))
            live = live[~hit]
        return z
