"""Singular values of a convolution with circular boundaries, by Fourier (paper 3, Sec. 4.3).

On a torus of N pixels with stride Δ the convolution falls apart into one small matrix for each of the N/Δ output
frequencies ν: the paper's A(ν), of F rows and C·Δ columns (in two dimensions C·Δ²), with the transfer functions
ŵ(ν + 2πl/Δ) of every input channel at the frequencies that striding folds onto ν. Its singular values over √Δ (in two
dimensions over Δ) are those of the layer: exact to float64 rounding, as a dense SVD shows.

The paper prints shifts of πl/Δ and no division; `papers_norm` is that form. Without stride both are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

ROOM = 2**22  # complex numbers held at a time: 64 MiB


def circular_bounds(
    weight: Tensor, torus: Sequence[int], *, stride: Sequence[int], dilation: Sequence[int], groups: int = 1
) -> tuple[float, float]:
    """The smallest of the min(m, n) singular values, and the largest, of a convolution on a torus.

    weight: (F, C / groups, *kernel). torus: pixels along each axis, multiples of `stride`.
    """
    fewer = [side // step for side, step in zip(torus, stride, strict=True)]
    if any(side % step for side, step in zip(torus, stride, strict=True)):
        raise ValueError(f"a torus of {tuple(torus)} is no multiple of the stride {tuple(stride)}")
    half = [*fewer[:-1], fewer[-1] // 2 + 1]  # kernels are real: −ν has the singular values of ν
    shifts = _grid(stride, weight.device) * torch.tensor(fewer, device=weight.device)  # (Δ², axes)
    turn = [(2 * math.pi / side, side) for side in torus]
    found = _extremes(weight, _grid(half, weight.device), shifts, turn, dilation, groups)
    scale = math.sqrt(math.prod(stride))
    return found[0] / scale, found[1] / scale


def papers_norm(
    weight: Tensor, torus: Sequence[int], *, stride: Sequence[int], dilation: Sequence[int], groups: int = 1
) -> float:
    """sup ‖A(ω)‖ as the paper prints it: rows (ŵ(ω + lπ/Δ); c, l), ω over the frequencies of the torus."""
    # Frequencies in units of π / (N Δ), so that both 2πj/N and πl/Δ are whole numbers of them.
    steps = torch.tensor([2 * step for step in stride], device=weight.device)
    sides = torch.tensor(list(torus), device=weight.device)
    turn = [(math.pi / (side * step), 2 * side * step) for side, step in zip(torus, stride, strict=True)]
    frequencies = _grid(torus, weight.device) * steps
    return _extremes(weight, frequencies, _grid(stride, weight.device) * sides, turn, dilation, groups)[1]


def enclosing_torus(
    sides: Sequence[int], padding: Sequence[int], stride: Sequence[int], outputs: Sequence[int]
) -> list[int]:
    """The smallest torus on which a zero-padded layer is part of the circular one: what wraps around meets zeros.

    So the circular upper bound there is a true upper bound of the real layer. padding: the wider side of each axis.
    """
    return [
        step * max(-(-(side + pad) // step), out)
        for side, pad, step, out in zip(sides, padding, stride, outputs, strict=True)
    ]


def _grid(sides: Sequence[int], device: torch.device) -> Tensor:
    """Every place of a grid, (Πsides, axes) int64."""
    return torch.cartesian_prod(*(torch.arange(side, device=device) for side in sides)).view(-1, len(sides))


def _extremes(
    weight: Tensor,
    frequencies: Tensor,
    shifts: Tensor,
    turn: Sequence[tuple[float, int]],
    dilation: Sequence[int],
    groups: int,
) -> tuple[float, float]:
    """Over all A(ν): the least smallest and the greatest largest singular value."""
    low, high = math.inf, 0.0
    for matrices in _matrices(weight, frequencies, shifts, turn, dilation, groups):
        values = torch.linalg.svdvals(matrices)
        low, high = min(low, float(values[..., -1].min())), max(high, float(values[..., 0].max()))
    return low, high


def _matrices(
    weight: Tensor,
    frequencies: Tensor,
    shifts: Tensor,
    turn: Sequence[tuple[float, int]],
    dilation: Sequence[int],
    groups: int,
) -> Iterator[Tensor]:
    """A(ν) of a few frequencies at a time: complex128 (frequencies, groups, F / groups, C / groups · shifts)."""
    outputs, inputs, *kernel = weight.shape
    taps = _grid(kernel, weight.device) * torch.tensor(list(dilation), device=weight.device)  # (K, axes)
    flat = weight.detach().to(torch.float64).reshape(outputs * inputs, -1).t().to(torch.complex128)
    for part in frequencies.split(max(1, ROOM // (len(shifts) * (outputs * inputs + 3 * len(taps))))):
        places = part[:, None] + shifts  # (n, l, axes)
        angle = torch.zeros(*places.shape[:2], len(taps), dtype=torch.float64, device=weight.device)
        for axis, (unit, period) in enumerate(turn):  # whole turns are taken off while numbers are still exact
            angle += unit * (places[..., axis, None] * taps[:, axis] % period).to(torch.float64)
        transfer = torch.polar(torch.ones_like(angle), angle) @ flat  # (n, l, F · C / groups)
        split = transfer.view(*places.shape[:2], groups, outputs // groups, inputs)
        yield split.permute(0, 2, 3, 4, 1).flatten(3)
