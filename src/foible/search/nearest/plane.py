"""One margin, replaced by its tangent plane in every step, and a projection of the image onto the plane and the box.

Where the margins' planes tell the truth, a few steps are the answer; on a deep network they do not quite, and what they
are wrong by (`bent`) says whether it is worth going on otherwise (ball.py). A step is one forward and one backward.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from foible.search.nearest import length, margin
from foible.search.nearest.first_order import Aim, Loss
from foible.search.nearest.projection import Bound, within
from foible.search.nearest.recorded import repeat

NEWTON, HALVINGS = 6, 14  # to find how far along the slope the plane lies
MEMORY = 4  # points that a new one must not be worse than
BEYOND, MOST_BEYOND, LEAST_BEYOND = 1e-2, 5e-2, 1e-5  # of the distance: by how much a step goes beyond its plane
REACH, SHRINKING = (
    0.5,
    0.028,
)  # linf: how far a pixel may go in a step, of the distance; and what is left of that at last
ROUGH = 0.05  # what the planes are wrong by, from which on a network is not smooth


@dataclass(frozen=True)
class Walk:
    """n rows on their way."""

    new: Tensor  # (n, d) the point to be asked about next
    z: Tensor  # (n, d) the last point that was kept
    slope: Tensor  # (n, d) and (n,) of the margin there
    gap: Tensor
    weight: Tensor  # (n,) the multiplier of the plane
    curve: Tensor  # (n,) by how much the margin bends
    damp: Tensor  # (n,) share of a step that is taken
    beyond: Tensor  # (n,) of the distance
    half: Tensor  # (n, MEMORY) half the squared distance of the last points that were kept
    lack: Tensor  # (n, MEMORY) and what their margins lacked
    bent: Tensor  # (n,) what the planes were wrong by lately, as a share of what they could say
    part: Tensor  # () how much of the walk is done, 0 to 1


def over_label(rivals: Tensor) -> Loss:
    """The margin of these classes (n,) over the labels."""

    def loss(logits: Tensor, labels: Tensor, _: Tensor | None) -> Tensor:
        return (logits.gather(1, rivals[:, None]) - logits.gather(1, labels[:, None]))[:, 0]

    return loss


def walk(aim: Aim, begin: Tensor, steps: int, rivals: Tensor | None = None) -> Tensor:
    """Steps from points (n, d); what they find is in the ledger. rivals: without targets, the class (n,) to go to; else
    the strongest at each point. (n,): how wrong the planes were at the end."""
    x, zero = aim.x, torch.zeros_like(aim.x[:, 0])
    endless = torch.full((len(x), MEMORY), 1e30, dtype=x.dtype, device=x.device)

    loss = margin if rivals is None else over_label(rivals)

    def step(now: Walk) -> Walk:
        return _step(aim, now, loss, steps)

    start = Walk(
        begin.clone(), begin.clone(), torch.zeros_like(x), zero.clone(), zero.clone(), zero + 1, zero + 1,
        zero + BEYOND, endless, torch.zeros_like(endless), zero.clone(), zero[:1].sum(),
    )  # fmt: skip
    return repeat(step, start, steps).bent


def _step(aim: Aim, s: Walk, loss: Loss, steps: int) -> Walk:
    """Ask about the new point, keep it if it is no worse than the last few, and say where to go next."""
    x = aim.x
    gap, slope, hit = aim.slope(s.new, loss)
    moved = s.new - s.z
    far, squared = length(s.new - x, aim.norm), moved.square().sum(1)
    half, lack = 0.5 * far.square(), (-gap).clamp_min(0)
    price = 1.5 * s.weight
    kept = half + price * lack <= (s.half + price[:, None] * s.lack).amax(1) * (1 + 1e-6)
    if aim.norm == "linf":
        kept = torch.ones_like(kept)  # a corner of the ball is soon as far as another: there is nothing to compare
    went = squared > 1e-10
    foretold = s.gap + (s.slope * moved).sum(1)
    wrong = (gap - foretold).abs() / (s.slope.norm(dim=1) * squared.sqrt()).clamp_min(1e-20)
    bend = ((moved - s.weight[:, None] * (slope - s.slope)) * moved).sum(1) / squared.clamp_min(1e-20)
    first = s.part == 0
    curve = torch.where(went & ~first, 0.5 * s.curve + 0.5 * bend.clamp(0.5, 20.0), s.curve)
    bent = torch.where(went & ~first, 0.5 * s.bent + 0.5 * wrong, s.bent)
    beyond = torch.where(hit, (0.5 * s.beyond).clamp_min(LEAST_BEYOND), (1.5 * s.beyond).clamp_max(MOST_BEYOND))
    wide = kept[:, None]
    z, slope, gap = torch.where(wide, s.new, s.z), torch.where(wide, slope, s.slope), torch.where(kept, gap, s.gap)
    damp = torch.where(kept, (2 * s.damp).clamp_max(1.0), 0.5 * s.damp)
    far = length(z - x, aim.norm)
    steep = slope.abs().sum(1) if aim.norm == "linf" else slope.norm(dim=1)
    asked = (slope * z).sum(1) - gap + (1e-6 + beyond * far) * steep
    if aim.norm == "linf":
        reach = torch.where(first & (far == 0), 1.0, REACH * far.clamp_min(1e-4) * SHRINKING**s.part)
        goal, weight = least_ball(aim, z, slope, asked, reach), s.weight
    else:
        goal, weight = onto_plane((x + (curve - 1)[:, None] * z) / curve[:, None], slope, asked, aim.low, aim.high)
        weight = weight * curve
    return Walk(
        z + damp[:, None] * (goal - z), z, slope, gap, weight, curve, damp, beyond,
        torch.where(wide, torch.cat([s.half[:, 1:], half[:, None]], 1), s.half),
        torch.where(wide, torch.cat([s.lack[:, 1:], lack[:, None]], 1), s.lack),
        bent, s.part + 1 / steps,
    )  # fmt: skip


def onto_plane(x: Tensor, slope: Tensor, asked: Tensor, low: Bound, high: Bound) -> tuple[Tensor, Tensor]:
    """The points z (n, d) of the box nearest to x (n, d) with slope · z >= asked (n,), and the multipliers (n,): z is
    x + λ slope, clipped, and λ is found by Newton's method, from below, since what is gained falls with λ."""
    weight, squared = torch.zeros_like(asked), slope.square()
    for _ in range(NEWTON):
        free = x + weight[:, None] * slope
        z = within(free, low, high)
        lacking = asked - (slope * z).sum(1)
        weight = (weight + lacking / (squared * (free == z)).sum(1).clamp_min(1e-20)).clamp_min(0)
    return within(x + weight[:, None] * slope, low, high), weight


def least_ball(aim: Aim, z: Tensor, slope: Tensor, asked: Tensor, reach: Tensor) -> Tensor:
    """The point of the smallest ball around x (in the maximum norm, in the box) that has slope · z >= asked (n,), with
    no pixel further than reach (n,) from z (n, d); where there is none, as far as that goes."""
    x = aim.x
    goal = within(z + reach[:, None] * slope.sign(), aim.low, aim.high)
    short, long = torch.zeros_like(asked), length(goal - x, "linf")
    for _ in range(HALVINGS):
        middle = (short + long) / 2
        enough = (slope * goal.clamp(x - middle[:, None], x + middle[:, None])).sum(1) >= asked
        short, long = torch.where(enough, short, middle), torch.where(enough, middle, long)
    return goal.clamp(x - long[:, None], x + long[:, None])
