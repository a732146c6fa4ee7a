"""L-BFGS on all images at once: where it stops, and that parts add up."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from foible.networks.lbfgs import converge, linear

SCALE = torch.tensor([1.0, 10.0])


def test_converge_stops_where_nothing_changes() -> None:
    point = torch.tensor([5.0, -3.0], requires_grad=True)
    notes: list[str] = []
    steps = converge([point], lambda: [(SCALE * (point - 1).square()).sum()], 500, notes.append)
    assert torch.allclose(point.detach(), torch.ones(2), atol=1e-4)
    assert len(notes) < 10  # of fifty that it might have taken
    assert 0 < steps < 100


def test_no_more_iterations_than_were_given() -> None:
    point = torch.tensor([5.0, -3.0], requires_grad=True)
    assert converge([point], lambda: [(SCALE * (point - 1).square()).sum()], 0) == 0
    assert point.tolist() == [5, -3]
    assert converge([point], lambda: [(SCALE * (point - 1).pow(4)).sum()], 4, chunk=2) == 4


def test_parts_are_one_loss() -> None:
    """And each is differentiated before the next one is asked for: no two of their graphs are held at a time."""
    whole, parted = (torch.tensor([5.0, -3.0], requires_grad=True) for _ in range(2))
    slopes = list[float]()

    def parts() -> Iterator[Tensor]:
        yield SCALE[0] * (parted[0] - 1).square()
        assert parted.grad is not None
        slopes.append(float(parted.grad[0]) - 2 * float(SCALE[0] * (parted.detach()[0] - 1)))
        yield SCALE[1] * (parted[1] - 1).square()

    converge([whole], lambda: [(SCALE * (whole - 1).square()).sum()], 20)
    converge([parted], parts, 20)
    assert torch.allclose(whole.detach(), parted.detach(), atol=1e-5)
    assert slopes == [0.0] * len(slopes)
    assert slopes


def test_a_line_through_points_is_found() -> None:
    """Squares: the answer is that of least squares, whatever the inputs' scale and middle."""
    inputs = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.1, 1.0, 20.0]) + 5
    weight, bias = torch.tensor([[1.0, -2.0, 0.3]]), torch.tensor([0.7])
    wanted = inputs @ weight.T + bias
    found = linear(inputs, 1, lambda logits: (logits - wanted).square().mean(), 0.0, 200, lambda _: None)
    assert torch.allclose(found[0], weight, atol=1e-3)
    assert torch.allclose(found[1], bias, atol=2e-2)
