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
    start: Tensor | None = None,
    most: Tensor | None = None,
    steps: int = 30,
) -> tuple[Tensor, Tensor]:
    """The projections z (n, d) of x (n, d) in the Euclidean norm, and the multipliers (n, m).

    normals: (n, m, d), the rows of A. offsets: (n, m), b; -inf where a row has fewer constraints. start: multipliers to
    begin with. most: (n,) what ½‖z − x‖² can be at most; a row whose dual is larger has no answer, and ends there.
    Where no point satisfies all constraints, z is as far along as the steps go.

    The dual has one variable λ ≥ 0 a constraint, z = clip(x + Aᵀλ), and is concave and piecewise quadratic: projected
    Newton steps with a line search find its maximum, usually exactly, in a handful of steps.
    """
    scale = normals.norm(dim=2)
    asked = offsets.isfinite() & (scale > 1e-6 * scale.amax(1, keepdim=True))  # a slope of 0 can change nothing
    scale = torch.where(asked, scale, 1.0)
    tiny = 2e-6 if x.dtype == torch.float32 else 1e-13
    weight = torch.zeros_like(scale) if start is None else start * scale * asked
    eye = torch.eye(normals.shape[1], dtype=x.dtype, device=x.device)
    out, multipliers = x.clone(), torch.zeros_like(scale)
    rows = torch.arange(len(x), device=x.device)
    live = _Dual(x, normals / scale[:, :, None] * asked[:, :, None], offsets / scale, asked, low, high)
    most = torch.full_like(scale[:, 0], torch.inf) if most is None else most
    now, stuck = live.at(weight), torch.zeros(len(x), dtype=torch.bool, device=x.device)
    for step in range(steps + 1):
        moving = live.asked & ((weight > 0) | (now.lacking > 0))
        going = torch.where(moving, now.lacking.abs(), 0.0).amax(1) > tiny * (1 + (now.z - live.x).norm(dim=1))
        going &= ~stuck & (now.value <= most) & (step < steps)
        if not bool(going.all()):  # set down what is done, and go on with the rest
            done = (~going).nonzero()[:, 0]
            out[rows[done]], multipliers[rows[done]] = now.z[done], weight[done]
            left = going.nonzero()[:, 0]
            if not len(left):
                break
            rows, weight, moving, most, live = rows[left], weight[left], moving[left], most[left], live.rows(left)
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


def project_steadily(
    x: Tensor,
    normals: Tensor,
    offsets: Tensor,
    low: Bound,
    high: Bound,
    *,
    start: Tensor | None = None,
    sweeps: int = 8,
) -> tuple[Tensor, Tensor]:
    """`project` for a GPU: the same steps for every row, one multiplier after another, and nothing that waits for what
    was computed. Not as exact: what is left over is less with the multipliers of the last time as a start."""
    squares = normals.square()
    size = squares.sum(2)
    asked = offsets.isfinite() & (size > 1e-12 * size.amax(1, keepdim=True))
    weight = torch.zeros_like(offsets) if start is None else torch.where(asked, start, 0.0)
    weights, free = list(weight.unbind(1)), torch.baddbmm(x[:, None], weight[:, None], normals)[:, 0]
    for _ in range(sweeps):
        for j, own in enumerate(weights):
            z = within(free, low, high)
            lacking = offsets[:, j] - (normals[:, j] * z).sum(1)
            room = (squares[:, j] * (z == free)).sum(1).clamp_min(1e-20)
            new = torch.where(asked[:, j], (own + lacking / room).clamp_min(0), 0.0)
            free = torch.addcmul(free, (new - own)[:, None], normals[:, j])
            weights[j] = new
    return within(free, low, high), torch.stack(weights, 1)


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


def project_linf(
    x: Tensor, normals: Tensor, offsets: Tensor, low: Bound, high: Bound, *, halvings: int = 8
) -> tuple[Tensor, Tensor]:
    """The same in the maximum norm: z (n, d), and the multipliers (n, m) of ½‖z − x‖∞².

    The least ε for which the box within ε of x holds a point of the polyhedron, by halving; the point is the one of
    these that is nearest to x in the Euclidean norm.
    """
    scale = normals.norm(dim=2)
    asked = offsets.isfinite() & (scale > 1e-6 * scale.amax(1, keepdim=True))
    lacking = torch.where(asked, offsets - torch.bmm(normals, x[:, :, None])[:, :, 0], 0.0)
    reach = torch.where(asked, normals.abs().sum(2), 1.0)
    short = (lacking / reach).amax(1).clamp_min(0)  # without the box, and one constraint at a time: at least this
    enough = 1e-5 * (1e-6 + lacking.abs().amax(1))
    best, weight = x.clone(), torch.zeros_like(lacking)
    far = torch.full_like(short, torch.inf)
    near, tried = short, 1.02 * short + 1e-7
    for _ in range(halvings):
        inner, outer = within(x - tried[:, None], low, high), within(x + tried[:, None], low, high)
        widest = 0.5 * torch.maximum(x - inner, outer - x).square().sum(1)
        z, multipliers = project(x, normals, offsets, inner, outer, start=weight, most=1.01 * widest, steps=20)
        left = torch.where(asked, offsets - torch.bmm(normals, z[:, :, None])[:, :, 0], 0.0).amax(1)
        fits = left <= enough
        better = fits | far.isinf()  # until one fits, the widest try is the best there is
        best, weight = torch.where(better[:, None], z, best), torch.where(better[:, None], multipliers, weight)
        near, far = torch.where(fits, near, tried), torch.where(fits, tried, far)
        tried = torch.where(far.isinf(), 1.25 * tried, (near + far) / 2)
    size = (best - x).abs().amax(1, keepdim=True)
    gaining = (best - x).abs() >= 0.99 * size  # these would give more with a larger ε; the others are at the box
    joined = (torch.bmm(weight[:, None, :], normals)[:, 0].abs() * gaining).sum(1, keepdim=True)
    return best, weight * size / joined.clamp_min(torch.finfo(x.dtype).tiny)
