"""The smallest change on the 8-bit lattice against all lattice points there are, on images of one and three pixels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from foible.search.nearest import Model, Nearest, reached
from foible.search.nearest.lattice import on_lattice

LOW, HIGH, CLASSES = 100, 120, 3  # levels: a box of 21³ points
SEEDS = range(5)  # of networks
ROWS = 40


def grid(step: float) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(LOW, HIGH + 1e-3, step)] * 3)


def network(kind: str, seed: int) -> Model:
    """Three classes within the box, divided by planes or by something bent (8 tanh units)."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(shape, generator=generator) for shape in ((3, 8), (8, CLASSES)))
    plane, shift, bias = (torch.randn(n, generator=generator) for n in ((3, CLASSES), (8,), (CLASSES,)))

    def logits(images: Tensor) -> Tensor:
        inputs = (images.flatten(1) * 255 - (LOW + HIGH) / 2) / 10
        return inputs @ plane + bias / 2 if kind == "linear" else (inputs @ first * 1.5 + shift).tanh() @ second

    return logits


def nearest_of(points: Tensor, model: Model, origins: Tensor, aims: Tensor, targeted: bool, norm: str) -> Tensor:
    """The nearest of all points (levels) that will do, for each of the origins; NaN where none does."""
    logits = model((points / 255).view(-1, 1, 1, 3))
    every = [torch.full((len(points),), c) for c in range(CLASSES)]
    fits = torch.stack([reached(logits, c, c if targeted else None) for c in every])
    change = origins[:, None] - points
    far = change.square().sum(2) if norm == "l2" else change.abs().amax(2)
    far = torch.where(fits[aims], far, torch.inf)
    return torch.where(far.amin(1).isfinite()[:, None], points[far.argmin(1)], torch.nan)


def size(change: Tensor, norm: str) -> Tensor:
    return change.round().square().sum(1) if norm == "l2" else change.round().abs().amax(1)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize(("kind", "share", "worst"), [("linear", 0.99, 1.25), ("bent", 0.96, 1.25)])
def test_the_best_of_all_lattice_points(kind: str, share: float, worst: float, targeted: bool, norm: str) -> None:
    """Exact in at least 99 % (linear) and 96 % (bent) of the rows; found in all; elsewhere not much longer.

    Measured over 12 networks each: 99.8 to 100 % and 97.5 to 99.1 %, and 0.2 % longer at most in the mean."""
    ratios = []
    for seed in SEEDS:
        model = network(kind, seed)
        origins = torch.randint(LOW, HIGH + 1, (ROWS, 3), generator=torch.Generator().manual_seed(seed + 99)).float()
        images = (origins / 255).view(-1, 1, 1, 3)
        labels = model(images).argmax(1)
        targets = (labels + 1) % CLASSES if targeted else None
        aims = labels if targets is None else targets
        exact = size(nearest_of(grid(1), model, origins, aims, targeted, norm) - origins, norm)
        between = nearest_of(grid(1 / 2), model, origins, aims, targeted, norm)
        none = torch.zeros(ROWS, dtype=torch.int64)
        near = Nearest((between / 255).view_as(images), exact.isfinite(), none > 0, none, none)
        low, high = LOW / 255, HIGH / 255
        ours = on_lattice(model, images, near, labels, targets=targets, norm=norm, low=low, high=high)
        there = exact.isfinite()
        assert torch.equal(ours.found, there)
        got = size(ours.images.flatten(1) * 255 - origins, norm)
        ratios.append((got / exact)[there])
    ratio = torch.cat(ratios) ** (0.5 if norm == "l2" else 1)
    assert len(ratio) > 150
    assert ratio.min() == 1  # never better than the best: the box is kept
    assert float((ratio == 1).double().mean()) >= share
    assert ratio.max() <= worst


def test_one_pixel_by_one_level() -> None:
    """The boundary lies 0.9 levels away along the steepest pixel; continuous, the change is spread and rounds to 0."""
    slope = torch.tensor([0.5, -1.0, 0.7, 0.4, -0.6])
    origin = torch.tensor([10, 20, 30, 40, 50.0]) / 255

    def model(images: Tensor) -> Tensor:
        score = (images.flatten(1) - origin) @ slope * 255 - 0.9
        return torch.stack([-score, score], 1)

    images = origin.view(1, 1, 1, 5)
    spread = images + slope.view_as(images) / slope.square().sum() * 0.91 / 255
    assert torch.equal((spread * 255).round(), (images * 255).round())
    zero = torch.zeros(1, dtype=torch.int64)
    near = Nearest(spread, zero == 0, zero > 0, zero, zero)
    for norm in ("l2", "linf"):
        ours = on_lattice(model, images, near, zero, norm=norm)
        assert bool(ours.found)
        change = (ours.images * 255).round().flatten() - torch.tensor([10, 20, 30, 40, 50])
        assert change.abs().max() == 1
        assert norm == "linf" or change.tolist() == [0, -1, 0, 0, 0]


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_an_image_of_one_pixel(norm: str) -> None:
    """Light from level 137 on: every origin below goes exactly there, every lighter one stays."""

    def model(images: Tensor) -> Tensor:
        light = images.flatten(1) * 255 - 136.5
        return torch.cat([-light, light], 1)

    levels = torch.tensor([0, 60, 136, 137, 200, 255])
    images, one = (levels / 255).view(-1, 1, 1, 1), torch.ones(6, dtype=torch.int64)
    near = Nearest(images.clamp_min(136.6 / 255), one > 0, one < 0, one, one)
    ours = on_lattice(model, images, near, 0 * one, targets=one, norm=norm)
    assert ours.found.all()
    assert (ours.images.flatten() * 255).round().tolist() == [137, 137, 137, 137, 200, 255]
    assert torch.equal(ours.images, (ours.images * 255).round() / 255)
