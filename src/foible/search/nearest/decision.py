"""The nearest image of another label where only answers can be had: no gradients, no scores.

What is known of a point is whether the network says what is asked for there. In the manner of HopSkipJump (Chen, Jordan
and Wainwright, 2020), with the path of CGBA (Reza et al., 2023) and the low frequencies of QEBA (Li et al., 2020):

1. Begin with any image z that is called as asked (other images, flat colours, patterns), and halve the way from x to it
   until it lies on the boundary; of several the nearest.
2. Ask about many small changes of z. Those that are called as asked lie, on the whole, beyond the boundary: their mean
   is its normal. Changes are sums of the lowest frequencies, of which there are few; more and fewer in turn.
3. Were the boundary a plane, the point of it nearest to x would lie on the circle through x and z that is spanned by
   the normal (Thales); halve the arc from z to x. For linf, go where the normal's signs lead, within the distance
   reached, and halve the distance.

Draws are a function of the seed and of an image's own pixels. Rows never touch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.basket import Budget
from foible.errors import UserError
from foible.randomness import words
from foible.search.nearest import Model, Nearest, join, length, reached
from foible.search.nearest.ledger import Ledger

TRIED = 16  # images that a row may begin with, half of them of those that were given
HALVINGS = 9  # of a way to the boundary; of the ways to the images begun with, two fewer
SIDES = (8, 16, 32)  # frequencies in each direction that changes are made of, in turn
SIZE = 0.1  # of a change, as a share of the distance reached; larger while all are answered alike
KEPT = 0.8  # of what is known of the normal from one step to the next
WAYS = [(turn, share) for turn in (1.0, 0.6, 0.35, 0.2, 0.1) for share in (0.98, 0.9, 0.75)]
# for linf: how far the way is turned to where the normal leads, and which share of the distance reached is tried

Pool = tuple[Tensor, Tensor]  # images (m, *shape) to begin with, and what they are (m,)


def decision(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    norm: str = "l2",
    low: float = 0.0,
    high: float = 1.0,
    pool: Pool | None = None,
    queries: int = 2000,
    batch: int = 100,
    seed: int = 0,
    spent: Tensor | None = None,
    budget: Budget | None = None,
    tick: Callable[[int], None] | None = None,
) -> Nearest:
    """The nearest images (n, *shape) that `model` gives the targets to; without targets, that it no longer gives the
    labels to. `model` is asked for answers alone, and need not be differentiable.

    norm: "l2" or "linf". pool: images that may be begun with, and what they are; without these a label is hard to
    reach. queries: for each image, at most. batch: changes asked about in the first step; later more. spent: (n,)
    forwards of the budget that other methods have spent on these rows. tick(k) hears of k further images.
    """
    if norm not in ("l2", "linf"):
        raise UserError(f"norm is {norm!r}: expected l2 or linf")
    for name, value in (("queries", queries), ("batch", batch)):
        if value < 1:
            raise UserError(f"{name} is {value}: expected at least 1")
    if not math.isfinite(high - low):
        raise UserError(f"values from {low} to {high}: decision needs a box, since it begins at its corners")
    allowed = torch.full_like(labels, queries)
    if budget is not None and budget.forwards is not None:
        allowed = allowed.clamp_max(budget.forwards) if spent is None else allowed.minimum(budget.forwards - spent)
    values = max(1, images[:1].numel())
    parts = [Ledger(images[:0].flatten(1)).close(images.shape[1:])]
    for rows in torch.arange(len(images), device=images.device).split(max(1, _at_once(images) // (batch * values))):
        x = images[rows].flatten(1)
        search = _Search(
            model, images.shape[1:], x, labels[rows], None if targets is None else targets[rows], norm, low, high, seed,
            allowed[rows], Ledger(x),
        )  # fmt: skip
        search.run(pool, queries, batch)
        parts.append(search.ledger.close(search.shape))
        if tick is not None:
            tick(len(rows))
    return join(parts)


def _at_once(images: Tensor) -> int:
    """Numbers of the images asked about in one batch."""
    return 2**26 if images.is_cuda else 2**22


@dataclass(frozen=True)
class _Search:
    """The whole search for n images, as rows of d numbers."""

    model: Model
    shape: tuple[int, ...]
    x: Tensor  # (n, d)
    labels: Tensor  # (n,)
    targets: Tensor | None
    norm: str
    low: float
    high: float
    seed: int
    allowed: Tensor  # (n,) forwards
    ledger: Ledger

    @torch.no_grad()
    def run(self, pool: Pool | None, queries: int, batch: int) -> None:
        lanes, used = _lanes(self.x), TRIED * (HALVINGS - 1)
        rows = (self.allowed >= used).nonzero()[:, 0]
        if len(rows):
            self.begin(rows, lanes[rows], pool)
        rows = rows[self.ledger.found[rows]]
        normal, size = torch.zeros_like(self.x[rows]), torch.full_like(self.x[rows, 0], SIZE)
        step, after = 0, HALVINGS + (len(WAYS) if self.norm == "linf" else 0)
        while (many := min(round(batch * math.sqrt(1 + step / 2)), queries - used - after)) >= min(batch, 50):
            used += many + after
            able = (self.ledger.forwards[rows] + many + after <= self.allowed[rows]).nonzero()[:, 0]
            rows, normal, size = rows[able], normal[able], size[able]
            if not len(rows):
                break
            told, alike = self.normal(rows, lanes[rows], step, many, size)
            normal = KEPT * normal + told
            size = torch.where(alike > 0.9, 2 * size, (0.8 * size).clamp_min(SIZE))
            (self.around if self.norm == "l2" else self.within)(rows, normal)
            step += 1

    def ask(self, rows: Tensor, points: Tensor) -> Tensor:
        """(m, k) bool: which points (m, k, d) of these rows are called as asked."""
        shape = points.shape[:2]
        every = rows.repeat_interleave(shape[1])
        logits = self.model(points.reshape(-1, *self.shape))
        self.ledger.spend(rows, shape[1])
        self.ledger.invalid[rows] |= ~logits.isfinite().all(1).view(shape).all(1)
        return reached(logits, self.labels[every], None if self.targets is None else self.targets[every]).view(shape)

    def tried(self, rows: Tensor, points: Tensor) -> Tensor:
        """(m,) bool: which points (m, d) are called as asked; those are kept, where they are the nearest so far."""
        hit = self.ask(rows, points[:, None])[:, 0]
        self.keep(rows, points, hit)
        return hit

    def keep(self, rows: Tensor, points: Tensor, hit: Tensor) -> None:
        size = length(points - self.x[rows], self.norm)
        every = torch.ones_like(hit)
        self.ledger.offer(rows, points, by=torch.zeros_like(size), hit=every, size=size, sound=every, counts=hit)

    def boxed(self, points: Tensor) -> Tensor:
        return points.clamp(self.low, self.high)

    def begin(self, rows: Tensor, lanes: Tensor, pool: Pool | None) -> None:
        """The way to each candidate that is called as asked, halved; the nearest end is kept."""
        x, far = self.x[rows][:, None], self.candidates(rows, lanes, pool)
        good = self.ask(rows, far)
        short, long = torch.zeros_like(far[..., :1]), torch.ones_like(far[..., :1])
        for _ in range(HALVINGS - 2):
            middle = (short + long) / 2
            hit = self.ask(rows, x + middle * (far - x))[..., None]
            short, long = torch.where(hit, short, middle), torch.where(hit, middle, long)
        ends = x + long * (far - x)
        away = length((ends - x).flatten(0, 1), self.norm).view_as(good)
        each, best = torch.arange(len(rows), device=rows.device), torch.where(good, away, torch.inf).argmin(1)
        self.keep(rows, ends[each, best], good[each, best])

    def candidates(self, rows: Tensor, lanes: Tensor, pool: Pool | None) -> Tensor:
        """(m, TRIED, d): the nearest of the images given, of those that are something else (of the target); and corners
        of the box, from one colour all over to fine patterns."""
        waves = [_waves(self.seed, lanes, number, 0, 1, self.shape, 1 + number // 2) for number in range(TRIED)]
        made = torch.where(torch.cat(waves, 1) > 0, self.high, self.low)
        if pool is None or not len(pool[0]):
            return made
        images, aims = pool[0].flatten(1), self.labels if self.targets is None else self.targets
        fits = (pool[1] == aims[rows][:, None]) ^ (self.targets is None)
        # Not by a matrix product, whose last bits would hang on the other rows.
        away = torch.cdist(self.x[rows], images, compute_mode="donot_use_mm_for_euclid_dist")
        away, order = torch.where(fits, away, torch.inf).topk(min(TRIED // 2, len(images)), 1, largest=False)
        some = slice(0, order.shape[1])
        made[:, some] = torch.where(away.isfinite()[..., None], images[order], made[:, some])
        return made

    def normal(self, rows: Tensor, lanes: Tensor, step: int, many: int, size: Tensor) -> tuple[Tensor, Tensor]:
        """(m, d): the boundary's normal at the best points, towards where they are called as asked, the longer the
        surer; and (m,) from 0 to 1, how much alike the changes were answered."""
        z = self.ledger.best[rows][:, None]
        far = (size * length(z[:, 0] - self.x[rows]))[:, None, None].clamp_min(1e-12)
        signed, summed = torch.zeros_like(self.x[rows]), torch.zeros_like(self.x[rows])
        total, side = torch.zeros_like(size), SIDES[step % len(SIDES)]
        some = max(1, _at_once(self.x) // self.x[rows].numel())
        for first in range(0, many, some):
            waves = _waves(self.seed, lanes, TRIED + step, first, min(first + some, many), self.shape, side)
            points = self.boxed(z + far * waves)
            told = 2.0 * self.ask(rows, points) - 1
            moved = (points - z) / far
            signed += torch.bmm(told[:, None], moved)[:, 0]
            summed += moved.sum(1)
            total += told.sum(1)
        mean = total / many
        return signed - mean[:, None] * summed, mean.abs()  # less the mean: z may lie a little beyond the boundary

    def around(self, rows: Tensor, normal: Tensor) -> None:
        """l2: the arc from the best point to x, halved."""
        x, z = self.x[rows], self.ledger.best[rows]
        outward = ((x <= self.low) & (normal < 0)) | ((x >= self.high) & (normal > 0))
        normal, reach = normal.masked_fill(outward, 0.0), length(z - x)[:, None]
        ahead = (z - x) / reach.clamp_min(1e-12)
        aside = normal - (normal * ahead).sum(1, keepdim=True) * ahead
        aside = aside / aside.norm(dim=1, keepdim=True).clamp_min(1e-12)
        short, long = torch.zeros_like(reach), torch.full_like(reach, math.pi / 2)
        for _ in range(HALVINGS):
            angle = (short + long) / 2
            way = reach * angle.cos() * (angle.cos() * ahead + angle.sin() * aside)
            hit = self.tried(rows, self.boxed(x + way))[:, None]
            short, long = torch.where(hit, angle, short), torch.where(hit, long, angle)

    def within(self, rows: Tensor, normal: Tensor) -> None:
        """linf: ways that are turned to the normal's signs, within the distance reached; the one that may be shortest,
        halved."""
        x, z = self.x[rows], self.ledger.best[rows]
        reach = length(z - x, "linf")[:, None]
        ahead = (z - x) / reach.clamp_min(1e-12)
        turn, share = torch.tensor(WAYS, device=x.device, dtype=x.dtype).t()[:, :, None]
        ways = ahead[:, None] + turn * (normal.sign() - ahead)[:, None]
        hits = self.ask(rows, self.boxed(x[:, None] + share * reach[:, None] * ways))
        best, hit = torch.where(hits, share[:, 0], torch.inf).argmin(1), hits.any(1)[:, None]
        way = torch.where(hit, ways[torch.arange(len(rows), device=x.device), best], ahead)
        long = torch.where(hit, share[best], 1.0)
        short = long - 0.25
        for _ in range(HALVINGS):
            middle = (short + long) / 2
            good = self.tried(rows, self.boxed(x + middle * reach * way))[:, None]
            short, long = torch.where(good, short, middle), torch.where(good, middle, long)


def _lanes(x: Tensor) -> Tensor:
    """(n,): a number for each row of x (n, d), by its values alone."""
    weights = words(0, torch.zeros(1, device=x.device), stream="decision.lanes", count=x.shape[1])
    return ((x.double() * 4095).round().to(torch.int64) * weights).sum(1) & 0xFFFFFFFF


def _waves(seed: int, lanes: Tensor, step: int, first: int, last: int, shape: tuple[int, ...], side: int) -> Tensor:
    """(n, last - first, d), numbers first to last of a step's changes, of length 1: sums of the `side` lowest
    frequencies in each direction of an image, with random signs. As many of them as there are frequencies stand at
    right angles to each other. Where rows are no images, of all their numbers."""
    channels, *sides = shape if len(shape) == 3 else (1, 1, math.prod(shape))
    device, lowest = lanes.device, [min(side, one) if len(shape) == 3 else one for one in sides]
    count = channels * lowest[0] * lowest[1]
    place, rounds = torch.arange(first, last, device=device), torch.arange(first // count, (last - 1) // count + 1)
    bits = words(seed, lanes[:, None], step, member=rounds.to(device), stream="decision.signs", count=-(-count // 32))
    signs = ((bits[..., None] >> torch.arange(32, device=device)) & 1).flatten(-2)[..., :count].float() * 2 - 1
    mixed = _cosines(count, place % count) * signs[:, place // count - first // count]
    if len(shape) != 3:
        return mixed
    down, across = (_cosines(one, torch.arange(few, device=device)) for one, few in zip(sides, lowest, strict=True))
    return (down.t() @ mixed.view(len(lanes), last - first, channels, *lowest) @ across).flatten(2)


def _cosines(count: int, which: Tensor) -> Tensor:
    """(m, count): these of the `count` waves of the cosine transform, each of length 1."""
    places = (torch.arange(count, device=which.device) + 0.5) * (math.pi / count)
    waves = torch.cos(which[:, None] * places) * math.sqrt(2 / count)
    return torch.where(which[:, None] == 0, math.sqrt(1 / count), waves)
