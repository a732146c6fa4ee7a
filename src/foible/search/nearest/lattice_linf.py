"""The least linf change on the 8-bit lattice: the smallest whole number of levels by which no pixel is off by more.

A radius is tried with the continuous distortion drawn out to it and rounded, then with the least change within it that
should do where the margins are planes, a few times over. The radii are bisected, from the continuous one on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from foible.search.nearest.lattice_finish import TRIES, combine
from foible.search.nearest.lattice_planes import needs, way_to
from foible.search.nearest.lattice_points import RIVALS, LatticeJudge, whole

RADII = 7
STEPS = 2  # within a radius: slopes and a judgement each


def evenly(judge: LatticeJudge, guess: Tensor) -> None:
    """The least linf change, from levels (n, pixels) of a continuous answer."""
    change = guess - judge.origin
    size = change.abs().amax(1)
    way = change / size.clamp_min(1e-12)[:, None]
    radius, stride = size.ceil().clamp(1, 255), 1
    under, over = torch.zeros_like(size), torch.full_like(size, torch.inf)  # the origins were judged: 0 is too little
    for _ in range(RADII):
        if not judge.affords(2 + 2 * STEPS + TRIES, (STEPS + 1) * RIVALS):
            return
        hit = _within(judge, guess, way, radius)
        judge.resting = torch.zeros_like(hit)
        under, over = torch.where(hit, under, radius), torch.where(hit, judge.ledger.least.float(), over)
        between = torch.where(under == 0, over - stride, ((under + over) / 2).floor())
        radius = torch.where(over.isinf(), under + stride, between).clamp(1, 255)
        judge.done = judge.done | (over - under <= 1) | (under >= 255)
        stride *= 2


def _within(judge: LatticeJudge, guess: Tensor, way: Tensor, radius: Tensor) -> Tensor:
    """(n,) bool: whether a point is known whose pixels are off by radius (n,) levels at most."""
    bound, (low, high) = radius[:, None], judge.span
    span = (judge.origin - bound).ceil().clamp_min(low), (judge.origin + bound).floor().clamp_max(high)
    judge.attempt(whole(judge.origin + bound * way, span))
    at = guess.clamp(*span)
    for _ in range(STEPS):
        judge.resting = judge.ledger.least <= radius
        if bool(judge.idle.all()):
            return judge.resting
        margins, slopes = judge.planes(at)
        onward = way_to(judge.origin, slopes, needs(at, margins, slopes), span)
        at = whole(judge.origin + onward, span)
        judge.attempt(at)
    judge.resting = judge.ledger.least <= radius
    at = whole(guess, span)
    margins, slopes = judge.planes(at)
    combine(judge, at, margins, slopes, at - judge.origin, span, torch.ones_like(judge.done))
    return judge.ledger.least <= radius
