"""The nearest point of a polyhedron in a box, for many points at once.

    minimise ‖z − x‖  subject to  A z ≥ b,  low ≤ z ≤ high

with few constraints a row and many coordinates.
"""

from __future__ import annotations

import torch
from torch import Tensor

Bound = Tensor | float


def within(points: Tensor, low: Bound, high: Bound) -> Tensor:
    """points, where they leave the box brought back to its sides."""
    return points.clamp(low, high)  # type: ignore[arg-type]


def project(
    x: Tensor,
    normals: Tensor,
    offsets: Tensor,
    low: Bound,
    high: Bound,
    *,
    steps: int = 30,
) -> tuple[Tensor, Tensor]:
    """The projections z (n, d) of x (n, d) in the Euclidean norm, and the multipliers (n, m).

    normals: (n, m, d), the rows of A. offsets: (n, m), b; -inf where a row has fewer constraints. Where no point
    satisfies all constraints, z is as far along as the steps go.

    The dual has one variable λ ≥ 0 a constraint, z = clip(x + Aᵀλ), and is concave and piecewise quadratic: projected
    Newton steps with a line search find its maximum, usually exactly, in a handful of steps.
    """
    scale = normals.norm(dim=2)
    asked = offsets.isfinite() & (scale > 1e-6 * scale.amax(1, keepdim=True))  # a slope of 0 can change nothing
    scale = torch.where(asked, scale, 1.0)
    tiny = 2e-6 if x.dtype == torch.float32 else 1e-13
    weight = torch.zeros_like(scale)
    eye = torch.eye(normals.shape[1], dtype=x.dtype, device=x.device)
    out, multipliers = x.clone(), torch.zeros_like(scale)
    rows = torch.arange(len(x), device=x.device)
    live = _Dual(x, normals / scale[:, :, None] * asked[:, :, None], offsets / scale, asked, low, high)
    now, stuck = live.at(weight), torch.zeros(len(x), dtype=torch.bool, device=x.device)
    for step in range(steps + 1):
        moving = live.asked & ((weight > 0) | (now.lacking > 0))
        going = torch.where(moving, now.lacking.abs(), 0.0).amax(1) > tiny * (1 + (now.z - live.x).norm(dim=1))
        going &= ~stuck & (step < steps)
        if not bool(going.all()):  # set down what is done, and go on with the rest
            done = (~going).nonzero()[:, 0]
            out[rows[done]], multipliers[rows[done]] = now.z[done], weight[done]
            left = going.nonzero()[:, 0]
            if not len(left):
                break
            rows, weight, moving, live = rows[left], weight[left], moving[left], live.rows(left)
            now = _At(*(field[left] for field in (now.z, now.lacking, now.value, now.inside)))
        gram = torch.bmm(live.normals * now.inside[:, None, :], live.normals.transpose(1, 2))
        both = moving[:, :, None] & moving[:, None, :]
        gram = torch.where(both, gram, 0.0) + eye * torch.where(moving, 10 * tiny, 1.0)[:, None, :]
        newton = torch.linalg.solve(gram, torch.where(moving, now.lacking, 0.0)[:, :, None])[:, :, 0]
        size = torch.ones(len(rows), dtype=x.dtype, device=x.device)
        for _ in range(10):
            tried = (weight + size[:, None] * newton).clamp_min(0)
            new = live.at(tried)
            worse = new.value < now.value - tiny * now.value.abs()
            if not bool(worse.any()):
                break
            size = torch.where(worse, size * 0.4, size)
        else:  # clipping at 0 can spoil any Newton step; a short one along the gradient never fails
            tried = torch.where(worse[:, None], (weight + now.lacking / live.normals.shape[1]).clamp_min(0), tried)
            new = live.at(tried)
        stuck = (tried - weight).abs().amax(1) <= 1e-3 * tiny * (1e-3 + weight.amax(1))
        weight, now = tried, new
    return out, multipliers / scale * asked


class _At:
    """The dual at some multipliers."""

    def __init__(self, z: Tensor, lacking: Tensor, value: Tensor, inside: Tensor) -> None:
        self.z, self.lacking, self.value, self.inside = z, lacking, value, inside


class _Dual:
    def __init__(self, x: Tensor, normals: Tensor, offsets: Tensor, asked: Tensor, low: Bound, high: Bound) -> None:
        self.x, self.normals, self.offsets, self.asked = x, normals, offsets, asked
        self.low, self.high = low, high

    def rows(self, index: Tensor) -> _Dual:
        bounds = [
            bound[index] if isinstance(bound, Tensor) and bound.ndim > 1 else bound for bound in (self.low, self.high)
        ]
        return _Dual(self.x[index], self.normals[index], self.offsets[index], self.asked[index], *bounds)

    def at(self, weight: Tensor) -> _At:
        free = torch.baddbmm(self.x[:, None, :], weight[:, None, :], self.normals)[:, 0]
        z = within(free, self.low, self.high)
        lacking = self.offsets - torch.bmm(self.normals, z[:, :, None])[:, :, 0]
        lacking = torch.where(self.asked, lacking, 0.0)
        value = 0.5 * (z - self.x).square().sum(1) + (weight * lacking).sum(1)
        return _At(z, lacking, value, (free == z).to(z.dtype))
