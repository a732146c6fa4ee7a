"""Projections onto a polyhedron in a box, against scipy and against their own conditions."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from foible.search.nearest.projection import project


def _problems(count: int, constraints: int, size: int, dtype: torch.dtype = torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, size, generator=generator, dtype=dtype)
    normals = torch.randn(count, constraints, size, generator=generator, dtype=dtype)
    inside = torch.rand(count, size, generator=generator, dtype=dtype)
    return x, normals, torch.einsum("nmd,nd->nm", normals, inside)  # some point of the box satisfies them


def _slsqp(x: np.ndarray, normals: np.ndarray, offsets: np.ndarray) -> float:
    found = minimize(
        lambda z: 0.5 * ((z - x) ** 2).sum(), x, jac=lambda z: z - x, method="SLSQP", bounds=[(0, 1)] * len(x),
        constraints=[{"type": "ineq", "fun": lambda z: normals @ z - offsets, "jac": lambda _: normals}],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    return float(np.sqrt(2 * found.fun))


@pytest.mark.parametrize("constraints", [1, 3, 9])
def test_as_near_as_scipy_finds(constraints):
    x, normals, offsets = _problems(6, constraints, 40)
    z, _ = project(x, normals, offsets, 0.0, 1.0)
    for k in range(len(x)):
        wanted = _slsqp(x[k].numpy(), normals[k].numpy(), offsets[k].numpy())
        assert float((z[k] - x[k]).norm()) == pytest.approx(wanted, rel=1e-7)


def test_conditions_of_the_optimum_hold():
    x, normals, offsets = _problems(300, 9, 60)
    z, weight = project(x, normals, offsets, 0.0, 1.0)
    slack = torch.einsum("nmd,nd->nm", normals, z) - offsets
    assert slack.min() > -1e-9
    assert weight.min() >= 0
    assert (slack * weight).abs().max() < 1e-9
    assert torch.allclose(z, (x + torch.einsum("nm,nmd->nd", weight, normals)).clamp(0, 1), atol=1e-12)


def test_satisfied_already_stays_and_missing_constraints_are_ignored():
    x = torch.full((2, 3), 0.5)
    normals = torch.ones(2, 2, 3)
    offsets = torch.tensor([[1.0, -torch.inf], [-torch.inf, -torch.inf]])
    z, weight = project(x, normals, offsets, 0.0, 1.0)
    assert torch.equal(z, x)
    assert not weight.any()


def test_no_such_point_ends_at_the_side_of_the_box():
    z, _ = project(torch.full((1, 4), 0.5), torch.ones(1, 1, 4), torch.tensor([[9.0]]), 0.0, 1.0)
    assert torch.allclose(z, torch.ones(1, 4))
