"""The steps of `closest`: margins replaced by their tangents, and an exact projection onto these and the box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from foible.errors import UserError
from foible.search.nearest import length
from foible.search.nearest.first_order import Aim, loudness
from foible.search.nearest.projection import project, project_linf, project_steadily

SLOTS = 9  # most rivals whose slopes are kept
MEMORY = 4  # steps that a new one must not be worse than


@dataclass
class State:
    """The images that are still going; every field has one row each."""

    row: Tensor  # in the ledger
    x: Tensor  # (n, d) where it began
    z: Tensor  # (n, d) where it is
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
    loud: Tensor  # see `loudness`
    bent: Tensor  # what the planes were wrong by lately, as a share of what they could say

    def keep(self, index: Tensor) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name).index_select(0, index))


def slopes_at(
    aim: Aim, rows: Tensor, points: Tensor, aims: Tensor, choose: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Margins of the aims over some classes (n, k), which `choose` names when the logits are known; their slopes
    (n, k, d); and the logits (n, classes)."""
    with torch.enable_grad():
        at = points.detach().requires_grad_()
        logits = aim.logits(at, rows)
        if not logits.requires_grad:
            raise UserError("the model gives no gradient: minimal distortions need a differentiable network")
        classes = choose(logits.detach())
        gaps = logits.gather(1, aims[:, None]) - logits.gather(1, classes)
        last = classes.shape[1] - 1
        slopes = [torch.autograd.grad(gaps[:, k].sum(), at, retain_graph=k < last)[0] for k in range(last + 1)]
    aim.ledger.backwards[rows] += last + 1
    stacked = torch.stack(slopes, 1)
    aim.ledger.invalid[rows] |= ~stacked.flatten(1).isfinite().all(1)
    return gaps.detach(), stacked, logits.detach()


def start(aim: Aim, rows: Tensor, targets: Tensor, begin: Tensor, metric: str) -> State:
    """All slopes at the points `begin` (n, d)."""
    picked = targets.new_empty(0)

    def strongest(logits: Tensor) -> Tensor:
        nonlocal picked
        others = logits.scatter(1, targets[:, None], -torch.inf)
        picked = others.topk(min(SLOTS, logits.shape[1] - 1), 1).indices
        return picked

    x = aim.x[rows]
    gaps, slopes, logits = slopes_at(aim, rows, begin, targets, strongest)
    one = torch.ones_like(x[:, 0])
    return State(
        row=rows, x=x, z=begin.clone(), target=targets, slot=picked, gap=gaps, slope=slopes, age=torch.zeros_like(gaps),
        weight=torch.zeros_like(gaps), curve=one, damp=one.clone(),
        half=(0.5 * length(begin - x, metric).square())[:, None].repeat(1, MEMORY),
        lack=(-gaps).amax(1).clamp_min(0)[:, None].repeat(1, MEMORY), still=torch.zeros_like(rows),
        loud=loudness(logits), bent=torch.zeros_like(one),
    )  # fmt: skip


def step(aim: Aim, s: State, metric: str, refresh: int) -> None:
    """One step of every row of `s`, which is brought up to date."""
    goal, weight = _goal(aim, s, metric)
    new = s.z + s.damp[:, None] * (goal - s.z)
    slot = places = s.slot

    def choose(logits: Tensor) -> Tensor:
        nonlocal slot, places
        slot, places = _stalest(s, logits, weight, refresh)
        return slot.gather(1, places)

    _, slopes, logits = slopes_at(aim, s.row, new, s.target, choose)
    hit = aim.note(s.row, new, logits)
    gap = logits.gather(1, s.target[:, None]) - logits.gather(1, slot)
    half, lack = 0.5 * length(new - s.x, metric).square(), (-gap).amax(1).clamp_min(0)
    price = 1.5 * weight.sum(1, keepdim=True)
    taken = half + price[:, 0] * lack <= (s.half + price * s.lack).amax(1) * (1 + 1e-6)
    wide = places[:, :, None].expand(-1, -1, new.shape[1])
    moved = new - s.z
    if metric == "l2":
        turned = torch.bmm(weight.gather(1, places)[:, None, :], slopes - s.slope.gather(1, wide))[:, 0]
        squared = moved.square().sum(1)
        bend = ((moved - turned) * moved).sum(1) / squared.clamp_min(1e-20)
        s.curve = torch.where(squared > 1e-10, 0.5 * s.curve + 0.5 * bend.clamp(0.5, 20.0), s.curve)
    s.bent = _bent(s, moved, gap, slot)
    small = moved.norm(dim=1) <= 2e-4 * (new - s.x).norm(dim=1)
    s.loud = loudness(logits)
    s.still = torch.where(small & (hit | (s.damp < 1e-3)), s.still + 1, 0)
    t = taken[:, None]
    s.z, s.gap, s.slot = torch.where(t, new, s.z), torch.where(t, gap, s.gap), torch.where(t, slot, s.slot)
    s.weight = weight
    s.slope = torch.where(t[:, :, None], s.slope.scatter(1, wide, slopes), s.slope)
    s.age = torch.where(t, (s.age + 1).scatter(1, places, 0.0), s.age)
    s.damp = torch.where(taken, (2 * s.damp).clamp_max(1.0), 0.5 * s.damp)
    s.half = torch.where(t, torch.cat([s.half[:, 1:], half[:, None]], 1), s.half)
    s.lack = torch.where(t, torch.cat([s.lack[:, 1:], lack[:, None]], 1), s.lack)


def _goal(aim: Aim, s: State, metric: str) -> tuple[Tensor, Tensor]:
    """Where a whole step leads (n, d), a little beyond the tangents, and the multipliers (n, k)."""
    beyond = (1e-6 + 2e-5 * length(s.z - s.x, metric))[:, None] * s.slope.norm(dim=2)
    beyond = torch.maximum(beyond, 2 * aim.sure * s.loud[:, None])
    offsets = beyond - s.gap + torch.bmm(s.slope, s.z[:, :, None])[:, :, 0]
    if metric == "linf":
        return project_linf(s.x, s.slope, offsets, aim.low, aim.high)
    bend = s.curve[:, None]
    centre = (s.x + (bend - 1) * s.z) / bend
    onto = project_steadily if s.x.is_cuda else project
    goal, weight = onto(centre, s.slope, offsets, aim.low, aim.high, start=s.weight / bend)
    return goal, weight * bend


def _bent(s: State, moved: Tensor, gap: Tensor, slot: Tensor) -> Tensor:
    """(n,): by how much the margins (n, k) differ from what their planes foretold, where they were to be least."""
    foretold = s.gap + torch.bmm(s.slope, moved[:, :, None])[:, :, 0]
    foretold = torch.where(slot == s.slot, foretold, torch.inf)
    least = foretold.argmin(1, keepdim=True)
    steep = s.slope.norm(dim=2).gather(1, least)[:, 0] * moved.norm(dim=1)
    wrong = (gap - foretold).gather(1, least)[:, 0].abs() / steep.clamp_min(1e-20)
    return torch.where(steep > 0, 0.5 * s.bent + 0.5 * wrong, s.bent)


def _stalest(s: State, logits: Tensor, weight: Tensor, refresh: int) -> tuple[Tensor, Tensor]:
    """The rivals (n, k), and which of them (n, refresh) get new slopes: the worst, then those that matter with the
    oldest slopes. A worst rival that has no slot takes the place of an idle one, which holds if this step is taken."""
    slot = s.slot
    worst = logits.scatter(1, s.target[:, None], -torch.inf).argmax(1, keepdim=True)
    missing = ~(slot == worst).any(1, keepdim=True)
    idle = torch.where(weight > 0, torch.inf, logits.gather(1, slot)).argmin(1, keepdim=True)
    slot = torch.where(missing & (torch.arange(slot.shape[1], device=slot.device) == idle), worst, slot)
    share = weight / weight.sum(1, keepdim=True).clamp_min(1e-20)
    need = share * (1 + s.age) + 1e-4 * s.age / (1 + s.age)
    need = torch.where(slot == worst, torch.inf, need)
    return slot, need.topk(min(refresh, need.shape[1]), 1).indices
