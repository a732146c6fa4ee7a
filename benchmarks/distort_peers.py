"""The peers of `benchmarks.distort`: scipy's L-BFGS-B, and short forms of DDN and ALMA for machines without toolkits.

All are methods as `foible.search.nearest` has them, or attacks `(model, x, y, targets=None) -> x_adv` for `wrap`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from foible.search.nearest import Model, Nearest, length, margin, reached
from foible.search.nearest.wrap import Method


def scipy_lbfgs(network: Model, *, rounds: int = 10, iterations: int = 200) -> Method:
    """Szegedy et al. (2013), Sec. 4.1 with scipy's L-BFGS-B, one image at a time: minimise c‖r‖² + cross-entropy in the
    box, and search the largest c that still succeeds: by tens until one succeeds and its neighbour fails, then `rounds`
    bisections of log c. Each begins at the last success. The smallest success is kept, of every point evaluated.

    network: float64, one image at a time, so that scipy pays for nothing of ours.
    """
    from scipy.optimize import minimize

    def one(image: Tensor, target: int) -> tuple[Tensor, bool, int]:
        origin, asked = image.double().flatten().numpy(), 0
        best, size = origin.copy(), math.inf

        def of(c: float) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
            def cost(point: np.ndarray) -> tuple[float, np.ndarray]:
                nonlocal asked, best, size
                asked += 1
                x = torch.from_numpy(point).view(1, *image.shape).requires_grad_()
                logits = network(x)
                loss = F.cross_entropy(logits, torch.tensor([target]))
                (slope,) = torch.autograd.grad(loss, x)
                r = point - origin
                now = float(np.linalg.norm(r))
                if now < size:
                    row = logits.detach()[0].tolist()
                    wanted = row.pop(target)
                    if wanted > max(row) + 1e-6:  # it must hold in float32 too
                        best, size = point.copy(), now
                return c * float(r @ r) + loss.item(), 2 * c * r + slope.flatten().numpy()

            return cost

        start = origin

        def succeeds(c: float) -> bool:
            nonlocal start
            end = minimize(of(c), start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(origin),
                           options={"maxiter": iterations})  # fmt: skip
            with torch.no_grad():
                row = network(torch.from_numpy(end.x).view(1, *image.shape))[0].tolist()
            wanted = row.pop(target)
            success = bool(wanted > max(row))
            start = end.x if success else start
            return success

        good, bad = 1.0, 1.0
        if succeeds(1.0):
            while bad < 1e6 and succeeds(bad := bad * 10):
                good = bad
        else:
            while good > 1e-9 and not succeeds(good := good / 10):
                bad = good
        for _ in range(rounds):
            middle = math.sqrt(good * bad)
            good, bad = (middle, bad) if succeeds(middle) else (good, middle)
        return torch.from_numpy(best).view(image.shape), math.isfinite(size), asked

    def method(_: Model, images: Tensor, __: Tensor, *, targets: Tensor | None = None, **___: Any) -> Nearest:
        assert targets is not None  # best_of gives them
        done = [one(image, target) for image, target in zip(images, targets.tolist(), strict=True)]
        spent = torch.tensor([asked for *_, asked in done])
        changed = torch.stack([image for image, *_ in done]).float()
        found = torch.tensor([ok for _, ok, _ in done])
        return Nearest(changed, found, torch.zeros_like(found), spent, spent.clone())

    return cast(Method, method)


def best_of(method: Method, classes: int = 10) -> Method:
    """Every label but the image's own as a target; the nearest result wins. Costs are the sum."""

    def all_targets(model: Model, images: Tensor, labels: Tensor, **options: Any) -> Nearest:
        n, k = len(images), classes - 1
        options.pop("targets", None)
        others = torch.arange(classes, device=labels.device).expand(n, -1)
        targets = others[others != labels[:, None]]
        result = method(model, images.repeat_interleave(k, 0), labels.repeat_interleave(k), targets=targets, **options)
        size = length(result.images - images.repeat_interleave(k, 0)).masked_fill(~result.found, torch.inf)
        pick = size.view(n, k).argmin(1) + k * torch.arange(n, device=labels.device)
        sums = [cost.view(n, k).sum(1) for cost in (result.forwards, result.backwards)]
        return Nearest(result.images[pick], result.found[pick], result.invalid[pick], sums[0], sums[1])

    return all_targets


def tuned(methods: list[Method]) -> Method:
    """Of several settings of one method, the one with the most found, then the smallest mean distance."""

    def best(model: Model, images: Tensor, labels: Tensor, **options: Any) -> Nearest:
        results = [method(model, images, labels, **options) for method in methods]

        def merit(result: Nearest) -> tuple[int, float]:
            return -int(result.found.sum()), float(length(result.images - images)[result.found].mean())

        return min(results, key=merit)

    return best


def ddn(model: Model, x: Tensor, y: Tensor, targets: Tensor | None = None, steps: int = 1000) -> Tensor:
    """Decoupled direction and norm (Rony et al., CVPR 2019), Algorithm 1: a normalised gradient step, then back onto
    the sphere of radius ε, which shrinks by γ = 5 % where the point succeeds and grows where it does not."""
    aim, sign = (y, 1.0) if targets is None else (targets, -1.0)
    radius = x.new_ones(len(x))
    widest = length(torch.maximum(x, 1 - x))
    r, best, least = torch.zeros_like(x), x.clone(), widest.clone()
    for k in range(steps):
        rate = 0.01 + 0.99 * (1 + math.cos(math.pi * k / steps)) / 2
        logits, slope = _slope(model, x + r, lambda z: sign * F.cross_entropy(z, aim, reduction="sum"))
        hit = reached(logits, y, targets)
        size = length(r)
        better = hit & (size < least)
        best, least = torch.where(_wide(better, x), x + r, best), torch.where(better, size, least)
        r = r + rate * slope / _wide(length(slope).clamp_min(1e-12), x)
        radius = torch.minimum(radius * torch.where(hit, 0.95, 1.05), widest)
        r = r * _wide(radius / length(r).clamp_min(1e-12), x)
        r = (x + r).clamp(0, 1) - x
    return best


def alma(
    model: Model, x: Tensor, y: Tensor, targets: Tensor | None = None, steps: int = 1000, first: float = 1.0
) -> Tensor:
    """Augmented Lagrangian method for adversarial attacks (Rony et al., ICCV 2021), Algorithm 1 for L2: penalty P2 on
    the difference of logits ratio, RMSProp with momentum, a first step of length `first`, α = 0.9."""
    n, keep, check, faster, enough = len(x), 0.9, 10, 1.2, 0.95
    mu, rho = x.new_ones(n), x.new_ones(n)
    square, speed, r = torch.ones_like(x), torch.zeros_like(x), torch.zeros_like(x)
    best, least = x.clone(), x.new_full((n,), torch.inf)
    since = x.new_full((n,), steps + 1.0)  # the step of the first success
    rate = x.new_ones(n)
    held = x.new_full((n,), torch.inf)

    def short(logits: Tensor) -> Tensor:
        top = logits.topk(min(4, logits.shape[1]), 1).values
        low = top[:, 2] if targets is None else top[:, 2:].mean(1)
        return (1e-4 - margin(logits, y, targets)) / (top[:, 0] - low + 1e-8)

    for k in range(steps):
        with torch.enable_grad():
            at = r.detach().requires_grad_()
            logits = model(x + at)
            gap = short(logits)
            if k:
                with torch.no_grad():
                    mu = (keep * mu + (1 - keep) * _p2_slope(gap, rho, mu)).clamp(1e-6, 1e12)
            loss = _p2(gap, rho, mu) + (length(at) if k else 0)
            (slope,) = torch.autograd.grad(loss.sum(), at)
        gap = gap.detach()
        if k == 0:
            held = gap
        elif (k + 1) % check == 0:
            stuck = (since > steps) & (gap >= enough * held)
            rho, held = torch.where(stuck, faster * rho, rho), gap
        hit, size = gap < 0, length(r)
        since = torch.where(hit & (since > steps), float(k), since)
        better = hit & (size < least)
        best, least = torch.where(_wide(better, x), x + r, best), torch.where(better, size, least)
        if k == 0:
            rate = _first_rate(x, slope, first)
        decay = 0.01 ** ((k - since).clamp_min(0) / (steps - since).clamp_min(1))
        square = keep * square + (1 - keep) * slope**2
        speed = keep * speed + slope / (square.sqrt() + 1e-8)
        r = (x + r - _wide(rate * decay, x) * speed).clamp(0, 1) - x
    return best


def _p2(y: Tensor, rho: Tensor, mu: Tensor) -> Tensor:
    above = mu * y + mu * rho * y**2 + rho**2 * y**3 / 6
    return torch.where(y >= 0, above, mu * y / (1 - rho * y.clamp_max(0)))


def _p2_slope(y: Tensor, rho: Tensor, mu: Tensor) -> Tensor:
    return torch.where(y >= 0, mu + 2 * mu * rho * y + rho**2 * y**2 / 2, mu / (1 - rho * y.clamp_max(0)) ** 2)


def _first_rate(x: Tensor, slope: Tensor, size: float) -> Tensor:
    """(n,): the step along -slope, clipped to the box, that has this length; by bisection of its logarithm."""
    low, high = x.new_full((len(x),), -20.0), x.new_full((len(x),), 20.0)
    for _ in range(40):
        middle = (low + high) / 2
        far = length((x - _wide(middle.exp(), x) * slope).clamp(0, 1) - x) > size
        low, high = torch.where(far, low, middle), torch.where(far, middle, high)
    return low.exp()


def _slope(model: Model, points: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        at = points.detach().requires_grad_()
        logits = model(at)
        return logits.detach(), torch.autograd.grad(loss(logits), at)[0]


def _wide(values: Tensor, x: Tensor) -> Tensor:
    return values.view(-1, *[1] * (x.ndim - 1))
