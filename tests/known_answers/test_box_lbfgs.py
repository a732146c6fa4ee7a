"""The batched box-constrained L-BFGS against answers that are known, and against scipy's L-BFGS-B."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, rosen, rosen_der
from torch import Tensor

from foible.randomness import normals, uniforms
from foible.search.nearest.box_lbfgs import Function, minimise


def quadratics(n: int, d: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Function]:
    """½ (x − c)ᵀ A (x − c): matrices (n, d, d), centres (n, d), many of them outside [0, 1], and the function."""
    lanes = torch.arange(n)
    root = normals(0, lanes, 0, stream="test.matrix", count=d * d).view(n, d, d).double()
    matrix = (root @ root.transpose(1, 2) / d + 0.05 * torch.eye(d)).to(dtype)
    centre = (3 * uniforms(0, lanes, 0, stream="test.centre", count=d) - 1).to(dtype)

    def function(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        away = points - centre[rows]
        slope = (matrix[rows] * away[:, None]).sum(2)
        return (away * slope).sum(1) / 2, slope

    return matrix, centre, function


def rosenbrock(points: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
    at = points.detach().requires_grad_()
    value = (100 * (at[:, 1:] - at[:, :-1] ** 2) ** 2 + (1 - at[:, :-1]) ** 2).sum(1)
    return value.detach(), torch.autograd.grad(value.sum(), at)[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_quadratics_in_a_box_as_scipy_solves_them(dtype: torch.dtype) -> None:
    matrix, centre, function = quadratics(24, 20, dtype)
    found = minimise(function, torch.full((24, 20), 0.5, dtype=dtype), 0.0, 1.0)
    assert bool(found.converged.all())
    for a, c, point in zip(matrix.double().numpy(), centre.double().numpy(), found.points.numpy(), strict=True):
        peer = minimize(
            lambda x, a=a, c=c: ((x - c) @ a @ (x - c) / 2, a @ (x - c)),
            np.full(20, 0.5),
            jac=True,
            bounds=[(0, 1)] * 20,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000},
        )
        np.testing.assert_allclose(point, peer.x, atol=1e-4)


def test_a_separable_quadratic_ends_at_its_centre_clipped_to_the_box() -> None:
    centre = 4 * uniforms(1, torch.arange(9), 0, stream="test.centre", count=7).double() - 2
    weight = 10 ** (2 * uniforms(2, torch.arange(9), 0, stream="test.weight", count=7).double())
    low, high = torch.linspace(-1, 0, 7).double(), torch.linspace(0.1, 1.5, 7).double()  # each variable its own

    def function(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        away = points - centre[rows]
        return (weight[rows] * away**2).sum(1), 2 * weight[rows] * away

    found = minimise(function, torch.zeros(9, 7, dtype=torch.float64), low, high, tolerance=1e-8)
    torch.testing.assert_close(found.points, centre.clamp(low, high), atol=1e-7, rtol=0)
    assert bool(found.converged.all())


@pytest.mark.parametrize("high", [2.0, 0.8])
def test_rosenbrock_in_a_box_as_scipy_solves_it(high: float) -> None:
    start = 1.5 * uniforms(3, torch.arange(6), 0, stream="test.start", count=6).double() - 0.5
    found = minimise(rosenbrock, start, -0.5, high, steps=500, tolerance=1e-8)
    for begin, point in zip(start.clamp(-0.5, high).numpy(), found.points.numpy(), strict=True):
        options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000}
        bounds = [(-0.5, high)] * 6
        peer = minimize(rosen, begin, jac=rosen_der, bounds=bounds, method="L-BFGS-B", options=options)
        np.testing.assert_allclose(point, peer.x, atol=1e-4)


def test_rows_do_not_depend_on_their_batch_mates() -> None:
    """Bit for bit in float64, as this function does not depend on the batch either."""
    start = 3 * uniforms(4, torch.arange(40), 0, stream="test.start", count=5).double() - 1.5
    whole = minimise(rosenbrock, start, -1.2, 1.1, steps=120, history=4)
    order = torch.arange(40).flip(0)
    for rows in (order, *order.split(7), torch.tensor([13])):
        part = minimise(rosenbrock, start[rows], -1.2, 1.1, steps=120, history=4)
        torch.testing.assert_close(part.points, whole.points[rows], atol=1e-12, rtol=0)
        assert part.evaluations.tolist() == whole.evaluations[rows].tolist()


def test_done_rows_are_dropped_and_every_evaluation_is_counted() -> None:
    _, _, function = quadratics(30, 10, torch.float64)
    seen = torch.zeros(30, dtype=torch.int64)
    sizes = []

    def counting(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        seen[rows] += 1
        sizes.append(len(rows))
        return function(points, rows)

    limits = torch.arange(30)  # the first row may do nothing at all
    found = minimise(counting, torch.full((30, 10), 0.5).double(), 0.0, 1.0, steps=limits)
    assert found.evaluations.tolist() == seen.tolist()
    assert bool((seen <= limits).all())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 15
    assert found.values[0].isnan()
    assert found.points[0].tolist() == [0.5] * 10
    assert bool(found.converged.any())
    assert not bool(found.converged[:3].any())


def test_nan_ends_its_own_row_where_it_last_was_well() -> None:
    _, _, function = quadratics(6, 8, torch.float64)

    def breaking(points: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        values, slopes = function(points, rows)
        values = values.where((rows != 2) | (points == 0.5).all(1), torch.nan)  # after its first point
        return values, slopes.where((rows != 4)[:, None], torch.nan)  # at once

    start = torch.full((6, 8), 0.5).double()
    found, well = minimise(breaking, start, 0.0, 1.0), minimise(function, start, 0.0, 1.0)
    assert found.invalid.tolist() == [False, False, True, False, True, False]
    assert found.evaluations[[2, 4]].tolist() == [2, 1]
    assert found.points[[2, 4]].tolist() == start[[2, 4]].tolist()
    rest = [0, 1, 3, 5]
    torch.testing.assert_close(found.points[rest], well.points[rest], atol=1e-12, rtol=0)


def test_what_floats_cannot_tell_apart_ends_a_row() -> None:
    _, _, function = quadratics(20, 30, torch.float32)
    found = minimise(function, torch.full((20, 30), 0.5), 0.0, 1.0, tolerance=0.0, steps=2000)
    assert int(found.evaluations.max()) < 300
    assert not bool(found.invalid.any())


def test_no_rows_one_variable_and_a_start_outside() -> None:
    def function(points: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        return points[:, 0].square(), 2 * points

    assert minimise(function, torch.zeros(0, 3), 0.0, 1.0).points.shape == (0, 3)
    found = minimise(function, torch.tensor([[5.0], [-5.0]]), -2.0, 1.0)
    assert found.points.abs().max() < 1e-5
    assert minimise(function, torch.tensor([[5.0]]), 0.25, 1.0).points.tolist() == [[0.25]]
