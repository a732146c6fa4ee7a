"""APGD: F. Croce, M. Hein: Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free
attacks (ICML 2020), Sec. 4, for l2 and linf: a change within a fixed ε; and the nearest image, by halving over ε.

Steps of η up the slope of a loss, with momentum, each brought back into the ball and the box. η begins at 2ε and is
halved, and the search goes on from the best point so far, at checkpoints where the loss rose in too few of the steps
since the last one, or where neither η nor the best loss has changed. Rows never touch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.randomness import normals, uniforms
from foible.search.nearest import Model, Nearest, margin
from foible.search.nearest.first_order import Aim, Loss, aim, check_counts, gradients
from foible.search.nearest.ledger import Ledger
from foible.search.nearest.projection import within
from foible.text import did_you_mean

MOMENTUM, RISING = 0.75, 0.75  # α and ρ of the paper
SURE = 2e-6  # by how much, as a share of the largest logit and of 1, a margin must be above 0
GUESS = 1.5  # times how far the tangent plane is: where halving over ε begins


def apgd(
    model: Model,
    images: Tensor,
    labels: Tensor,
    eps: float | Tensor,
    *,
    norm: str = "linf",
    targets: Tensor | None = None,
    low: float = 0.0,
    high: float = 1.0,
    steps: int = 100,
    restarts: int = 1,
    loss: str = "dlr",
    seed: int = 0,
) -> Nearest:
    """Images (n, *shape) within eps of the given ones that `model` gives the targets to; without targets, that it no
    longer gives the labels to. Of those that the search comes across, the nearest.

    eps: one for all, or (n,). norm: "l2" or "linf". steps: of each restart, a gradient each. restarts: the first begins
    at the image; those after it at points drawn within eps, for rows where nothing was found yet. loss: "dlr" (the
    difference of logits ratio), "ce" (cross-entropy) or "margin". seed: of the draws, which depend on it and on the
    pixels of an image alone.
    """
    check_counts(steps=steps, restarts=restarts)
    asked = aim(model, images, labels, targets, norm, low, high, SURE)
    radius = torch.as_tensor(eps, dtype=asked.x.dtype, device=asked.x.device).expand(len(asked.x))
    if len(asked.x) and not bool((radius > 0).all()):
        raise UserError(f"eps is {float(radius.min()):g}: expected numbers above 0")
    climb, whole = _read_loss(loss), asked.ledger
    rows = torch.arange(len(asked.x), device=asked.x.device)
    for restart in range(restarts):
        if not len(rows):
            break
        x, book = asked.x[rows], Ledger(asked.x[rows])
        aims = None if targets is None else targets[rows]
        part = replace(asked, x=x, labels=labels[rows], targets=aims, ledger=book)
        _climb(part, x if restart == 0 else _drawn(part, radius[rows], seed, restart), radius[rows], steps, climb)
        whole.offer(
            rows, book.best, by=book.nearly, hit=book.found, size=book.least, sound=book.found | ~book.invalid
        )  # fmt: skip
        whole.forwards[rows] += book.forwards
        whole.backwards[rows] += book.backwards
        rows = (~whole.found & ~whole.invalid).nonzero()[:, 0]
    return whole.close(asked.shape)


def nearest_by_apgd(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    norm: str = "l2",
    low: float = 0.0,
    high: float = 1.0,
    steps: int = 40,
    rounds: int = 10,
    loss: str = "dlr",
    first: float | None = None,
    budget: Budget | None = None,
    tick: Callable[[int], None] | None = None,
) -> Nearest:
    """The nearest images (n, *shape) that `model` gives the targets to (without targets: anything but the labels), by
    `apgd` within one ε after another: twice as large while nothing is found, then halfway between what failed and the
    nearest success. Each begins at the image.

    steps: gradients for one ε. rounds: values of ε. first: the first ε; by default each image has its own, half more
    than the tangent plane of the margin asks for. budget: for each image. tick(k) hears of k further images.
    """
    check_counts(steps=steps, rounds=rounds)
    if first is not None and not 0 < first < math.inf:
        raise UserError(f"first is {first}: expected a number above 0")
    asked, climb = aim(model, images, labels, targets, norm, low, high, SURE), _read_loss(loss)
    ledger, spare = asked.ledger, gradients(1 + rounds * (steps + 1), budget)
    if len(asked.x) and spare:
        live = torch.ones_like(labels, dtype=torch.bool)
        by, slope, _ = asked.slope(asked.x, live=live)
        farthest, failed = asked.farthest, torch.zeros_like(by)
        eps = (GUESS * asked.tangent(by, slope) if first is None else torch.full_like(by, first)).minimum(farthest)
        there = ledger.found.clone()  # nothing is nearer than no change
        for number in range(rounds):
            left = min(steps, spare - 1 - number * (steps + 1) - 1)  # the last point is judged too
            if left < 1:
                break
            before = ledger.least.clone()
            _climb(asked, asked.x, eps.clamp_min(1e-9), left, climb, there)
            failed = torch.where(ledger.least < before, failed, eps)
            half = (failed + ledger.least.to(eps)) / 2
            eps = torch.where(ledger.found, half, 2 * eps).minimum(farthest)
    if tick is not None:
        tick(len(asked.x))
    return ledger.close(asked.shape)


@dataclass
class _State:
    """Where each row is, and what it remembers; (n, d) or (n,)."""

    z: Tensor
    before: Tensor  # the point before z
    best: Tensor  # where the loss was highest
    best_slope: Tensor
    top: Tensor  # that loss
    stride: Tensor  # η
    rose: Tensor  # steps since the last checkpoint after which the loss was higher than before
    old_top: Tensor  # at the last checkpoint
    halved: Tensor  # whether η was, there


def _climb(asked: Aim, begin: Tensor, eps: Tensor, steps: int, climb: Loss, there: Tensor | None = None) -> None:
    """`steps` steps from points (n, d) within eps (n,) of x; what they come across goes to the ledger. there: rows that
    only ride along."""
    still = torch.zeros_like(asked.labels, dtype=torch.bool) if there is None else there
    value, slope, _ = asked.slope(begin, climb, ~still & ~asked.ledger.invalid)
    s = _State(begin, begin, begin, slope, value, 2 * eps, torch.zeros_like(value), value, torch.ones_like(still))
    last, ends = 0, _checkpoints(steps)
    for number in range(1, steps + 1):
        live = ~still & ~asked.ledger.invalid
        up = _inside(asked, s.z + s.stride[:, None] * _direction(slope, asked.norm), eps)
        share = 1.0 if number == 1 else MOMENTUM
        new = _inside(asked, s.z + share * (up - s.z) + (1 - share) * (s.z - s.before), eps)
        s.before, s.z = s.z, torch.where(live[:, None], new, s.z)
        if number == steps:
            asked.look(s.z, live)
            break
        fresh, slope, _ = asked.slope(s.z, climb, live)
        s.rose = s.rose + (fresh > value)
        value = fresh
        higher = value > s.top
        s.best = torch.where(higher[:, None], s.z, s.best)
        s.best_slope = torch.where(higher[:, None], slope, s.best_slope)
        s.top = torch.where(higher, value, s.top)
        if number in ends:
            stuck = ~s.halved & (s.old_top >= s.top)
            s.halved = (s.rose < RISING * (number - last)) | stuck
            s.stride = torch.where(s.halved, s.stride / 2, s.stride)
            back = s.halved[:, None]
            s.z, slope = torch.where(back, s.best, s.z), torch.where(back, s.best_slope, slope)
            value = torch.where(s.halved, s.top, value)
            s.old_top, s.rose, last = s.top, torch.zeros_like(s.rose), number


def _checkpoints(steps: int) -> set[int]:
    """The paper's w: after 22 % of the steps, then ever sooner, at least 6 % apart."""
    places, before, place = set(), 0.0, 0.22
    while place < 1:
        places.add(math.ceil(place * steps))
        before, place = place, place + max(place - before - 0.03, 0.06)
    return places


def _inside(asked: Aim, points: Tensor, eps: Tensor) -> Tensor:
    """Points (n, d), brought into the ball and then into the box."""
    return within(asked.x + asked.shortened(points - asked.x, eps), asked.low, asked.high)


def _direction(slope: Tensor, norm: str) -> Tensor:
    return slope.sign() if norm == "linf" else slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-30)


def _drawn(asked: Aim, eps: Tensor, seed: int, restart: int) -> Tensor:
    """Points (n, d) within eps (n,), drawn by the seed and by what an image is."""
    x, lane = asked.x, _numbers(asked.x)
    if asked.norm == "linf":
        some = 2 * uniforms(seed, lane, restart, stream="apgd.start", count=x.shape[1]).to(x) - 1
    else:
        some = _direction(normals(seed, lane, restart, stream="apgd.start", count=x.shape[1]).to(x), "l2")
    return within(x + eps[:, None] * some, asked.low, asked.high)


def _numbers(x: Tensor) -> Tensor:
    """(n,): a number of 32 bits for each row, from its bits alone: the same in every batch, on every device."""
    bits = x.float().contiguous().view(torch.int32).to(torch.int64)
    odd = 2 * torch.arange(x.shape[1], device=x.device) + 1
    return ((bits * (odd * 0x9E3779B1)).sum(1) >> 16) & 0xFFFFFFFF  # whole numbers that wrap: in any order the same


def _read_loss(name: str) -> Loss:
    losses: dict[str, Loss] = {"dlr": _dlr, "ce": _cross_entropy, "margin": margin}
    if name not in losses:
        raise UserError(f"loss is {name!r}{did_you_mean(name, losses)}: expected {', '.join(losses)}")
    return losses[name]


def _dlr(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """(n,): the margin over a difference of large logits, which no scale of the logits changes. Of two classes the
    margin itself: over their difference it is 1 or -1."""
    by, count = margin(logits, labels, targets), logits.shape[1]
    if count < 3:
        return by
    ranked = logits.topk(min(4, count), 1).values
    third = ranked[:, 2] if targets is None else (ranked[:, 2] + ranked[:, -1]) / 2
    return by / (ranked[:, 0] - third + 1e-12)


def _cross_entropy(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    aims = labels if targets is None else targets
    sure = logits.log_softmax(1).gather(1, aims[:, None])[:, 0]
    return -sure if targets is None else sure
