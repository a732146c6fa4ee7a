"""Many small box-constrained problems at once: a projected L-BFGS whose rows never touch.

Minimise f_i(x_i) subject to low ≤ x_i ≤ high for n rows i, each with its own history, line search and end. A row tries
one point per step, and all rows that are still under way try theirs in one call of the function: a row that accepts
its point goes on to the next direction, one that does not comes back nearer. Variables at a bound that the slope holds
there are left out of the direction (L-BFGS of the free ones, Byrd et al. 1995 in spirit); the way is bent into the box.

The two-loop recursion runs on inner products: S and Y, the last moves and changes of slope, are read twice a step, and
the loops themselves handle numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

Function = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # points (k, d), rows (k,) -> values (k,), slopes (k, d)

ENOUGH = 1e-4  # of the decrease that the slope promises (Armijo)
LEAST_CURVE = 1e-8  # of a pair that is stored: the cosine between move and change of slope
TRIES = 10  # points in a row that bring nothing, before the history is forgotten; after twice that a row ends


@dataclass(frozen=True)
class Minimum:
    """Where n rows ended. A row that is neither converged nor invalid ran out of steps, or floats could not tell any
    further point from its last."""

    points: Tensor  # (n, d) in the box
    values: Tensor  # (n,)
    converged: Tensor  # (n,) bool: the projected slope, or the last decrease, was within the tolerance
    invalid: Tensor  # (n,) bool: the function gave NaN or infinity; the point is the last one before that
    evaluations: Tensor  # (n,) int64: values and slopes asked for


def minimise(
    function: Function,
    start: Tensor,
    low: float | Tensor,
    high: float | Tensor,
    *,
    history: int = 10,
    steps: int | Tensor = 200,
    tolerance: float = 1e-5,
    decrease: float = 0.0,
    scale: Tensor | None = None,
) -> Minimum:
    """Minimise every row of `start` (n, d) within [low, high] (numbers, or tensors that broadcast to every row).

    function(points, rows): values (k,) and slopes (k, d) at points (k, d) of these rows (k,), those still under way.
    steps: the most evaluations of a row; (n,) where each has its own. tolerance: a row ends when its projected slope
    is nowhere above this; or, where `decrease` is above 0, when an accepted step gained no more than that part of
    max(1, |value|). scale: (n,) how far to go along −slope while nothing is known of the curvature, for instance one
    over the least that it can be; without it the first step has length 1.
    """
    n, device = len(start), start.device
    low, high = (torch.as_tensor(bound, dtype=start.dtype, device=device) for bound in (low, high))
    most = torch.as_tensor(steps, device=device).expand(n)
    points, values = start.clamp(low, high), torch.full((n,), torch.nan, dtype=start.dtype, device=device)
    converged, invalid = (torch.zeros(n, dtype=torch.bool, device=device) for _ in range(2))
    evaluations = torch.zeros(n, dtype=torch.int64, device=device)
    live = (most > 0).nonzero()[:, 0]
    if not live.numel():
        return Minimum(points, values, converged, invalid, evaluations)
    held = _Held.at(points[live], live, history, points.new_zeros(n) if scale is None else scale)
    while True:
        going = (~held.over).nonzero()[:, 0]
        if len(going) < 0.85 * len(held.rows):  # dropping a row copies all histories, so some gather first
            held = held.kept(going)
            going = torch.arange(len(held.rows), device=device)
        if not going.numel():
            return Minimum(points, values, converged, invalid, evaluations)
        rows = held.rows[going]
        tried = (held.point + held.stride[:, None] * held.way).clamp(low, high)
        whole = len(going) == len(held.rows)
        value, slope = function(tried if whole else tried[going], rows)
        if not whole:
            value = held.value.index_copy(0, going, value)
            slope = held.slope.index_copy(0, going, slope)
        evaluations[rows] += 1
        ended, broken = held.step(tried, value, slope, low, high, tolerance, decrease)
        over = ended | broken | (held.idle > 2 * TRIES) | (evaluations[held.rows] >= most[held.rows])
        left = (over & ~held.over).nonzero()[:, 0]
        held.over |= over
        rows = held.rows[left]
        points[rows], values[rows] = held.point[left], held.value[left]
        converged[rows], invalid[rows] = ended[left], broken[left]


@dataclass
class _Held:
    """The state of the rows that are held: k of n."""

    rows: Tensor  # (k,) int64
    over: Tensor  # (k,) bool: done, but not dropped yet
    point: Tensor  # (k, d)
    value: Tensor  # (k,): infinite before the first evaluation
    slope: Tensor  # (k, d)
    way: Tensor  # (k, d): the direction
    stride: Tensor  # (k,): how far along it to try next
    lowest: Tensor  # (k,): the least value so far
    idle: Tensor  # (k,) int64: points since that fell by more than floats blur
    moves: Tensor  # (k, history, d): S, in slots that are used in turn
    turns: Tensor  # (k, history, d): Y
    moves_turns: Tensor  # (k, history, history): S Yᵀ
    turns_turns: Tensor  # (k, history, history): Y Yᵀ
    scale: Tensor  # (k,): along −slope, where there are no pairs; 0: a step of length 1
    pairs: Tensor  # (k,) int64: pairs stored since the history was last forgotten

    @staticmethod
    def at(points: Tensor, rows: Tensor, history: int, scale: Tensor) -> _Held:
        (k, d), m = points.shape, history
        zeros, count = points.new_zeros, torch.zeros_like(rows)
        never = points.new_full((k,), torch.inf)
        return _Held(
            rows, count.bool(), points, never, zeros(k, d), zeros(k, d), zeros(k), never.clone(), count,
            zeros(k, m, d), zeros(k, m, d), zeros(k, m, m), zeros(k, m, m), scale[rows], count.clone(),
        )  # fmt: skip

    def kept(self, index: Tensor) -> _Held:
        return _Held(*(getattr(self, field.name).index_select(0, index) for field in fields(self)))

    def step(
        self, tried: Tensor, value: Tensor, slope: Tensor, low: Tensor, high: Tensor, tolerance: float, decrease: float
    ) -> tuple[Tensor, Tensor]:
        """Take or refuse the points tried, and say where to try next; (k,) bool each: who converged, who broke."""
        begins, going = self.value.isinf(), ~self.over
        broken = going & ~(value.isfinite() & slope.isfinite().all(1))
        move, turn = tried - self.point, slope - self.slope
        promise, gain = (self.slope * move).sum(1), self.value - value
        blur = torch.finfo(value.dtype).eps * value.abs()
        taken = begins | ((promise <= 0) & (gain >= -ENOUGH * promise - blur))
        taken &= going & ~broken
        self.stride = self._shorter(value, promise)
        self.idle = torch.where(taken & (value < self.lowest - blur), 0, self.idle + 1)
        self.lowest = torch.where(taken, self.lowest.minimum(value), self.lowest)
        self.value = torch.where(taken, value, self.value)
        self.point = torch.where(taken[:, None], tried, self.point)
        self.slope = torch.where(taken[:, None], slope, self.slope)
        free = ~(((self.point <= low) & (self.slope > 0)) | ((self.point >= high) & (self.slope < 0)))
        useless = (self.idle == TRIES) & (self.pairs > 0)  # then once more, straight down
        self.pairs = self.pairs.where(~useless, 0)
        turns = taken | useless
        if bool(turns.any()):
            way = self._way(taken & ~begins, move * free, turn * free, self.slope * free) * free
            self.way = torch.where(turns[:, None], way, self.way)
            unit = 1 / self.way.norm(dim=1).clamp_min(torch.finfo(value.dtype).tiny)
            straight = torch.where(self.scale > 0, self.scale, unit)
            self.stride = torch.where(turns, torch.where(self.pairs > 0, 1.0, straight), self.stride)
        ended = ((self.point - self.slope).clamp(low, high) - self.point).abs().amax(1) <= tolerance
        if decrease > 0:
            ended |= ~begins & (gain <= decrease * value.abs().clamp_min(1.0))
        return taken & ended, broken

    def _shorter(self, value: Tensor, promise: Tensor) -> Tensor:
        """(k,): the stride after a refusal: where a parabola through both points is least, within 0.1 to 0.5 of it."""
        least = -promise / (2 * (value - self.value - promise))
        return self.stride * torch.where(promise < 0, least, 0.5).nan_to_num(0.5).clamp(0.1, 0.5)

    def _way(self, which: Tensor, move: Tensor, turn: Tensor, slope: Tensor) -> Tensor:
        """(k, d): −H slope, after `which` rows stored their pair (over their oldest) where it curves upwards; −slope
        where there are no pairs."""
        size = self.moves.shape[1]
        curve, sizes = (move * turn).sum(1), move.norm(dim=1) * turn.norm(dim=1)
        rows = (which & (curve > LEAST_CURVE * sizes)).nonzero()[:, 0]
        slot = self.pairs[rows] % size
        self.moves[rows, slot], self.turns[rows, slot] = move[rows], turn[rows]
        self.pairs[rows] += 1
        deepest = int(self.pairs.max())
        if not deepest:
            return -slope
        m = min(size, max(2, deepest))  # slots that matter (with one alone, bmm adds in another order)
        now = torch.stack([move, turn, slope], 1).transpose(1, 2)
        by_moves, by_turns = (now.new_zeros(len(now), size, 3) for _ in range(2))
        by_moves[:, :m], by_turns[:, :m] = torch.bmm(self.moves[:, :m], now), torch.bmm(self.turns[:, :m], now)
        self.moves_turns[rows, :, slot] = by_moves[rows, :, 1]
        self.moves_turns[rows, slot, :] = by_turns[rows, :, 0]
        self.turns_turns[rows, :, slot] = by_turns[rows, :, 1]
        self.turns_turns[rows, slot, :] = by_turns[rows, :, 1]
        slots = (self.pairs[:, None] - 1 - torch.arange(size, device=rows.device)) % size
        alpha, weight, scale = _two_loops(
            by_moves[..., 2], by_turns[..., 2], self.moves_turns, self.turns_turns, slots[:, : min(size, deepest)],
            self.pairs,
        )  # fmt: skip
        back = scale[:, None] * (torch.bmm(alpha[:, None, :m], self.turns[:, :m])[:, 0] - slope)
        return back - torch.bmm(weight[:, None, :m], self.moves[:, :m])[:, 0]


def _two_loops(
    along: Tensor, across: Tensor, moves_turns: Tensor, turns_turns: Tensor, slots: Tensor, pairs: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """H g = scale (g − Σ alpha y) + Σ weight s, by the two-loop recursion on inner products alone.

    along, across: (k, m) s·g and y·g. moves_turns, turns_turns: (k, m, m) s·y and y·y. slots: (k, deepest row's),
    newest pair first. pairs: (k,), how many there are. Gives alpha and weight (k, m), and scale (k,).
    """
    every, curves = torch.arange(len(along), device=along.device), moves_turns.diagonal(dim1=1, dim2=2)
    alpha, weight = torch.zeros_like(along), torch.zeros_like(along)
    for age in range(slots.shape[1]):
        at, here = slots[:, age], age < pairs
        left = along[every, at] - (alpha * moves_turns[every, at]).sum(1)
        alpha[every, at] = torch.where(here, left / curves[every, at], alpha[every, at])
    newest = slots[:, 0]
    scale = torch.where(pairs > 0, curves[every, newest] / turns_turns[every, newest, newest], 1.0)
    for age in reversed(range(slots.shape[1])):
        at, here = slots[:, age], age < pairs
        back = scale * (across[every, at] - (alpha * turns_turns[every, at]).sum(1))
        back = back + (weight * moves_turns[every, :, at]).sum(1)
        weight[every, at] = torch.where(here, alpha[every, at] - back / curves[every, at], weight[every, at])
    return alpha, weight, scale
