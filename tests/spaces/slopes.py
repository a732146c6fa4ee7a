"""Slopes of rendered pixels along each draw, by autograd and by central differences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from foible.spaces import at


def check_slopes(space: Any, images: Tensor, step: float = 2e-3) -> None:
    """One image for each draw: row i is tried along draw i, from a place near the middle of the box."""
    count = space.draws
    weights = torch.rand(images.shape[1:], generator=torch.Generator().manual_seed(0))
    places = 0.05 + 0.2 * torch.rand(count, count, generator=torch.Generator().manual_seed(1))

    def value(where: Tensor) -> Tensor:
        return (space.render(at(space, where, images)) * weights).sum((1, 2, 3))

    asked = places.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(value(asked).sum(), asked)
    aside = step * torch.eye(count)
    differences = (value(places + aside) - value(places - aside)) / (2 * step)
    assert differences.abs().min() > 0.01  # there is a slope to see
    assert torch.allclose(slopes.diagonal(), differences, rtol=0.03, atol=0.02), (slopes.diagonal(), differences)
