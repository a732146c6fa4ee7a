"""A first form of `closest`: to be replaced."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from foible.basket import Budget
from foible.search.nearest import Model, Nearest, margin, reached


def closest(
    model: Model,
    images: Tensor,
    labels: Tensor,
    *,
    targets: Tensor | None = None,
    norm: str = "l2",
    low: float = 0.0,
    high: float = 1.0,
    budget: Budget | None = None,
    tick: Callable[[int], None] | None = None,
) -> Nearest:
    steps = 60
    shape = (-1,) + (1,) * (images.ndim - 1)
    radius = torch.ones(len(images), device=images.device)
    point, best = images.clone(), images.clone()
    least = torch.full_like(radius, torch.inf)
    ok = torch.zeros_like(radius, dtype=torch.bool)
    for _ in range(steps):
        with torch.enable_grad():
            at = point.detach().requires_grad_()
            logits = model(at)
            slope = torch.autograd.grad(margin(logits, labels, targets).sum(), at)[0]
        hit = reached(logits.detach(), labels, targets)
        size = (point - images).flatten(1).norm(dim=1)
        better = hit & (size < least)
        best = torch.where(better.view(shape), point, best)
        least = torch.where(better, size, least)
        ok |= hit
        radius = torch.where(hit, size * 0.95, radius * 1.05)
        step = point + slope / slope.flatten(1).norm(dim=1).clamp_min(1e-12).view(shape)
        away = step - images
        away = away / away.flatten(1).norm(dim=1).clamp_min(1e-12).view(shape) * radius.view(shape)
        point = (images + away).clamp(low, high)
    cost = torch.full((len(images),), steps, dtype=torch.int64, device=images.device)
    if tick:
        tick(len(images))
    return Nearest(torch.where(ok.view(shape), best, point), ok, torch.zeros_like(ok), cost, cost.clone())
