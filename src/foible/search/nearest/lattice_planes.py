"""The least change on the lattice where every margin is a plane: one multiplier a rival, no model asked."""

from __future__ import annotations

import torch
from torch import Tensor

from foible.search.nearest.lattice_points import Span, whole

SWEEPS, SETTLED = 20, 1e-3  # over all multipliers, at most; the share by which a settled one may still change
HALVINGS, OCTAVES = 14, 8  # of a multiplier's bracket; and its width, each way from a guess


def needs(levels: Tensor, margins: Tensor, slopes: Tensor) -> Tensor:
    """(n, rivals): what slopes · q must come to for the margins, as they are at levels, to be 0 at q."""
    return (slopes * levels[:, None]).sum(2) - margins


def way_to(origin: Tensor, slopes: Tensor, need: Tensor, span: Span) -> Tensor:
    """The change (n, pixels), Σ λ_j slope_j, that rounded and within the span is the least whose levels q have
    slope_j · q >= need_j for every j. slopes: (n, rivals, pixels). Solved one multiplier at a time."""
    sizes = slopes.norm(dim=2).clamp_min(1e-30)
    slopes, need = slopes / sizes[:, :, None], need / sizes
    gap = need - (slopes * origin[:, None]).sum(2)
    guess = torch.maximum(gap, 0.5 / slopes.abs().amax(2).clamp_min(1e-30))  # one pixel at least must get a level
    parts = torch.zeros_like(need)
    moving = torch.arange(len(need), device=need.device)  # rows whose multipliers still change
    for _ in range(SWEEPS):
        before, own = parts[moving], slopes[moving]
        swept = _sweep(before.clone(), origin[moving], own, need[moving], guess[moving], _rows(span, moving))
        parts[moving] = swept
        moving = moving[((swept - before).abs() > SETTLED * swept.amax(1, keepdim=True)).any(1)]
        if need.shape[1] == 1 or not len(moving):
            break
    return (parts[:, :, None] * slopes).sum(1)


def _rows(span: Span, rows: Tensor) -> Span:
    low, high = ((end[rows] if isinstance(end, Tensor) else end) for end in span)
    return low, high


def _sweep(parts: Tensor, origin: Tensor, slopes: Tensor, need: Tensor, guess: Tensor, span: Span) -> Tensor:
    """Every multiplier once, with the others as they are."""
    for j, slope in enumerate(slopes.unbind(1)):
        parts[:, j] = 0
        rest = origin + (parts[:, :, None] * slopes).sum(1)
        parts[:, j] = _part(rest, slope, need[:, j], guess[:, j], span)
    return parts


def _part(rest: Tensor, slope: Tensor, need: Tensor, guess: Tensor, span: Span) -> Tensor:
    """(n,): how much of slope (n, pixels) to add to rest, so that the levels have slope · q >= need; often 0."""

    def holds(part: Tensor) -> Tensor:
        return (slope * whole(rest + part[:, None] * slope, span)).sum(1) >= need

    under, over = guess * 2.0**-OCTAVES, guess * 2.0**OCTAVES
    for _ in range(HALVINGS):
        middle = (under * over).sqrt()
        enough = holds(middle)
        under, over = torch.where(enough, under, middle), torch.where(enough, middle, over)
    return torch.where(holds(torch.zeros_like(over)), 0.0, over)
