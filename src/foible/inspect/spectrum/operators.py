"""A layer as the linear map that it really is, zero padding and all: applied, never written out where it is large.

Checks the Fourier formula, whose boundaries are circular: the largest singular value by Lanczos' iteration (the power
iteration that keeps every vector it met), the smallest from the whole matrix where that is small enough, and otherwise
by inverse iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.randomness import normals

Map = Callable[[Tensor], Tensor]
DENSE = 2048  # least dimension up to which the whole matrix is made
ENTRIES = 40_000_000  # and most numbers in it
WHOLE = 1500  # least dimension up to which an SVD is affordable
STREAM = "spectrum.lanczos"


@dataclass(frozen=True)
class Operator:
    """forward: (b, *inputs) -> (b, *outputs), linear. adjoint: the other way."""

    forward: Map
    adjoint: Map
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @property
    def small(self) -> int:
        """min(m, n)."""
        return min(math.prod(self.inputs), math.prod(self.outputs))

    def gram(self) -> tuple[Map, tuple[int, ...]]:
        """AᵀA or AAᵀ, whichever is smaller, on rows (b, *shape); and that shape."""
        if math.prod(self.inputs) <= math.prod(self.outputs):
            return lambda rows: self.adjoint(self.forward(rows)), self.inputs
        return lambda rows: self.forward(self.adjoint(rows)), self.outputs


@dataclass(frozen=True)
class Estimate:
    """A singular value. `settled` says whether the iteration came to rest; `steps` is 0 for a dense SVD."""

    value: float
    settled: bool
    steps: int


def operator(
    forward: Map, inputs: Sequence[int], *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Operator:
    """The operator of a linear function of (b, *inputs); its adjoint is the function's derivative."""
    device = torch.device(device)
    shape = tuple(inputs)
    with torch.no_grad():
        outputs = tuple(forward(torch.zeros(1, *shape, dtype=dtype, device=device)).shape[1:])

    graphs: dict[int, tuple[Tensor, Tensor]] = {}  # a linear function has one derivative everywhere: made once

    def adjoint(rows: Tensor) -> Tensor:
        if len(rows) not in graphs:
            with torch.enable_grad():
                at = torch.zeros(len(rows), *shape, dtype=dtype, device=device, requires_grad=True)
                graphs[len(rows)] = at, forward(at)
        at, image = graphs[len(rows)]
        return torch.autograd.grad(image, at, rows, retain_graph=True)[0]

    def plain(rows: Tensor) -> Tensor:
        with torch.no_grad():
            return forward(rows)

    return Operator(plain, adjoint, shape, outputs, dtype, device)


def largest(made: Operator, *, steps: int = 100, tolerance: float = 1e-4, seed: int = 0) -> Estimate:
    """The largest singular value, from below. It rests when its square's residual is `tolerance` of it; the value
    itself is then far closer than that (the error goes with the residual's square).

    Lanczos with every earlier vector projected out again, so at most `steps` vectors of the smaller side are held.
    """
    apply, shape = made.gram()
    vector = _start(made, shape, seed)
    count = min(steps, made.small)
    basis = torch.zeros(count + 1, len(vector), dtype=made.dtype, device=made.device)
    basis[0] = vector / vector.norm()
    diagonal: list[float] = []
    beside: list[float] = []
    top = 0.0
    for step in range(1, count + 1):
        image = apply(basis[step - 1].view(1, *shape)).flatten()
        diagonal.append(float(image @ basis[step - 1]))
        for _ in range(2):  # once is not enough in floating point
            image = image - basis[:step].t() @ (basis[:step] @ image)
        left = float(image.norm())
        squares, vectors = torch.linalg.eigh(_tridiagonal(diagonal, beside))
        top = max(0.0, float(squares[-1]))
        if left * abs(float(vectors[-1, -1])) <= tolerance * top or left <= 1e-12 * top:
            return Estimate(math.sqrt(top), True, step)
        beside.append(left)
        basis[step] = image / left
    return Estimate(math.sqrt(top), made.small <= steps, count)


def smallest(made: Operator, *, applications: int = 0, seed: int = 0) -> Estimate | None:
    """The smallest of the min(m, n) singular values; None where there is no way to it.

    By a dense SVD where min(m, n) is at most `DENSE`; else by inverse iteration within that many `applications` of
    the layer and its adjoint. An estimate that is not settled is too large.
    """
    if made.small <= DENSE and math.prod(made.inputs) * math.prod(made.outputs) <= ENTRIES:
        return Estimate(extremes(dense(made))[0], True, 0)
    return _inverse_iteration(made, applications, seed) if applications > 0 else None


def extremes(matrix: Tensor) -> tuple[float, float]:
    """Smallest and largest of the min(m, n) singular values of (m, n), in float64.

    A large or narrow matrix goes through its Gram matrix, which halves the digits of small values: where the smallest
    is lost in that, and an SVD can be afforded, it is made again. Otherwise a smallest one below about 1e-7 of the
    largest is not to be told from 0.
    """
    tall = matrix.double() if matrix.shape[0] >= matrix.shape[1] else matrix.double().t()
    wide = tall.shape[1]
    if wide > WHOLE or tall.shape[0] > 2 * wide:
        squares = torch.linalg.eigvalsh(tall.t() @ tall)
        low, high = (math.sqrt(max(0.0, float(squares[place]))) for place in (0, -1))
        if low > 1e-5 * high or wide > WHOLE:
            return low, high
    values = torch.linalg.svdvals(tall)
    return float(values[-1]), float(values[0])


def dense(made: Operator, *, rows: int = 64) -> Tensor:
    """The whole matrix, (min(m, n), max(m, n)), made from images of unit vectors, `rows` at a time."""
    wide = math.prod(made.outputs) < math.prod(made.inputs)
    apply, shape = (made.adjoint, made.outputs) if wide else (made.forward, made.inputs)
    count = math.prod(shape)
    parts = []
    for first in range(0, count, rows):
        here = min(rows, count - first)
        unit = torch.zeros(here, count, dtype=made.dtype, device=made.device)
        unit[torch.arange(here), first + torch.arange(here)] = 1
        parts.append(apply(unit.view(here, *shape)).flatten(1))
    return torch.cat(parts)


def _inverse_iteration(made: Operator, applications: int, seed: int, tolerance: float = 1e-4) -> Estimate:
    """Solve G y = x by conjugate gradients, x ← y/‖y‖, until √(xᵀGx) changes by less than `tolerance`."""
    apply, shape = made.gram()
    vector = _start(made, shape, seed)
    vector, value, spent = vector / vector.norm(), math.inf, 0
    while spent < applications:
        solution, residual = torch.zeros_like(vector), vector.clone()
        direction, size = residual.clone(), float(residual @ residual)
        for _ in range(max(1, applications - spent)):
            image = apply(direction.view(1, *shape)).flatten()
            spent += 1
            curve = float(direction @ image)
            if curve <= 0:
                break
            solution += size / curve * direction
            residual -= size / curve * image
            before, size = size, float(residual @ residual)
            if size <= 1e-6 or spent >= applications:
                break
            direction = residual + size / before * direction
        if not float(solution.norm()):
            break
        vector = solution / solution.norm()
        latest = math.sqrt(max(0.0, float(vector @ apply(vector.view(1, *shape)).flatten())))
        spent += 1
        if abs(latest - value) <= tolerance * latest:
            return Estimate(latest, True, spent)
        value = latest
    return Estimate(value, False, spent)


def _start(made: Operator, shape: tuple[int, ...], seed: int) -> Tensor:
    drawn = normals(seed, torch.zeros(1, dtype=torch.int64), stream=STREAM, count=math.prod(shape))[0]
    return drawn.to(made.device, made.dtype)


def _tridiagonal(diagonal: list[float], beside: list[float]) -> Tensor:
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        off = torch.tensor(beside, dtype=torch.float64)
        matrix += torch.diag(off, 1) + torch.diag(off, -1)
    return matrix
