"""Smallest changes on the 8-bit lattice: certified through a PNG, near the bound, row by row, within the budget."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from foible.basket import Budget
from foible.errors import UserError
from foible.images import decode_png, encode_pngs, settle, to_bytes, to_floats
from foible.search.nearest import Model, Nearest, length, reached
from foible.search.nearest.lattice import on_lattice

ROWS, SHAPE, CLASSES = 40, (1, 12, 12), 5


def bent() -> Model:
    """Two layers, (n, *SHAPE) -> (n, CLASSES), the same every time."""
    generator = torch.Generator().manual_seed(7)
    first, second = (torch.randn(n, generator=generator) for n in ((144, 24), (24, CLASSES)))
    return lambda images: ((images.flatten(1) - 0.5) @ first / 2).tanh() @ second


def nearly(model: Model, images: Tensor, labels: Tensor, targets: Tensor | None) -> Nearest:
    """A continuous distortion that ends a hair beyond the boundary: gradient steps until it is crossed, then bisection
    back towards the origin."""
    aim = labels if targets is None else targets
    sign = 1.0 if targets is None else -1.0
    point = images.clone()
    for _ in range(60):
        at = point.detach().requires_grad_()
        loss = nn.functional.cross_entropy(model(at), aim, reduction="sum") * sign
        slope = torch.autograd.grad(loss, at)[0]
        on = (point + 0.2 * slope / slope.flatten(1).norm(dim=1)[:, None, None, None]).clamp(0, 1)
        point = torch.where(reached(model(point), labels, targets)[:, None, None, None], point, on)
    low, high = torch.zeros(len(images)), torch.ones(len(images))
    for _ in range(30):
        middle = (low + high) / 2
        hit = reached(model(images + middle[:, None, None, None] * (point - images)), labels, targets)
        low, high = torch.where(hit, low, middle), torch.where(hit, middle, high)
    ends = images + high[:, None, None, None] * (point - images)
    none = torch.zeros(len(images), dtype=torch.int64)
    return Nearest(ends, reached(model(ends), labels, targets), none > 0, none, none)


@pytest.fixture(scope="module", params=["untargeted", "targeted"])
def task(request: pytest.FixtureRequest) -> tuple[Model, Tensor, Tensor, Tensor | None, Nearest]:
    model = bent()
    images = settle(torch.rand(ROWS, *SHAPE, generator=torch.Generator().manual_seed(3)))
    labels = model(images).argmax(1)
    targets = (labels + 1) % CLASSES if request.param == "targeted" else None
    near = nearly(model, images, labels, targets)
    assert near.found.all()
    return model, images, labels, targets, near


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_what_is_found_is_found_in_the_png(
    task: tuple[Model, Tensor, Tensor, Tensor | None, Nearest], norm: str
) -> None:
    model, images, labels, targets, near = task
    assert (~reached(model(settle(near.images)), labels, targets)).float().mean() > 0.3  # plain rounding undoes these
    ours = on_lattice(model, images, near, labels, targets=targets, norm=norm)
    assert ours.found.all()
    files = encode_pngs(np.asarray(to_bytes(ours.images)))
    again = to_floats(torch.stack([decode_png(file) for file in files]))
    assert torch.equal(again, ours.images)
    assert reached(model(again), labels, targets).all()


def test_little_longer_than_the_continuous_and_shorter_than_scaled_up(
    task: tuple[Model, Tensor, Tensor, Tensor | None, Nearest],
) -> None:
    model, images, labels, targets, near = task
    ours = length(on_lattice(model, images, near, labels, targets=targets).images - images)
    scaled = torch.full((ROWS,), torch.inf)
    for step in range(200):
        grown = settle(images + 1.01**step * (near.images - images))
        hit = reached(model(grown), labels, targets)
        scaled = torch.where(hit, torch.minimum(scaled, length(grown - images)), scaled)
    # These origins lie about ten levels from a boundary: rounding alone adds a twelfth of a squared level a pixel.
    assert (ours <= scaled * 1.0001).all()
    assert (ours / scaled).mean() < 0.99


def test_near_the_bound_that_planes_give() -> None:
    """For a linear network, ‖q‖² + 2λ(b − a·q) at its least over q is below the least ‖q‖², for every λ."""
    generator = torch.Generator().manual_seed(5)
    slope = torch.randn(144, generator=generator)
    origins = torch.randint(0, 256, (ROWS, 144), generator=generator).float()
    need = torch.linspace(5, 400, ROWS) * slope.norm() / 12 + 0.1  # above the origin's score
    images = (origins / 255).view(-1, *SHAPE)

    def model(shown: Tensor) -> Tensor:
        score = (shown.flatten(1) * 255 - origins[: len(shown)]) @ slope - need[: len(shown)]
        return torch.stack([-score, score], 1)

    way = slope / slope.square().sum() * need[:, None]
    inside = (origins + 1.5 * way).clamp(0, 255) / 255
    zero = torch.zeros(ROWS, dtype=torch.int64)
    near = Nearest(inside.view_as(images), zero == 0, zero > 0, zero, zero)
    ours = on_lattice(model, images, near, zero)
    assert ours.found.all()
    least = torch.zeros(ROWS)
    for price in torch.logspace(-3, 3, 1500):
        change = (origins + price * slope).round().clamp(0, 255) - origins
        least = torch.maximum(least, change.square().sum(1) + 2 * price * (need - change @ slope))
    ratio = length(ours.images - images) * 255 / least.sqrt()
    assert ratio.min() > 0.999
    assert ratio.mean() < 1.01
    assert ratio.max() < 1.06


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_rows_do_not_touch(task: tuple[Model, Tensor, Tensor, Tensor | None, Nearest], norm: str) -> None:
    model, images, labels, targets, near = task
    whole = on_lattice(model, images, near, labels, targets=targets, norm=norm)
    for rows in (torch.arange(ROWS).flip(0), torch.arange(0, ROWS, 2), torch.arange(17)):
        part = Nearest(*(getattr(near, name)[rows] for name in near.__dataclass_fields__))
        aims = None if targets is None else targets[rows]
        ours = on_lattice(model, images[rows], part, labels[rows], targets=aims, norm=norm)
        for name in near.__dataclass_fields__:
            assert torch.equal(getattr(ours, name), getattr(whole, name)[rows]), name


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("most", [0, 1, 7, 30])
def test_costs_are_counted_and_kept_to(
    task: tuple[Model, Tensor, Tensor, Tensor | None, Nearest], most: int, norm: str
) -> None:
    model, images, labels, targets, near = task
    seen = 0

    def counting(shown: Tensor) -> Tensor:
        nonlocal seen
        seen += len(shown)
        return model(shown)

    ours = on_lattice(
        counting, images, near, labels, targets=targets, norm=norm, budget=Budget(forwards=most, backwards=4)
    )
    assert (ours.forwards <= most).all()
    assert (ours.backwards <= 4).all()
    assert int(ours.forwards.sum()) <= seen <= ROWS * most
    assert most < 7 or norm == "linf" or ours.found.float().mean() > 0.5
    assert torch.equal(ours.found, reached(model(ours.images), labels, targets))


def test_a_budget_is_not_reached_where_there_is_none(
    task: tuple[Model, Tensor, Tensor, Tensor | None, Nearest],
) -> None:
    model, images, labels, targets, near = task
    ours = on_lattice(model, images, near, labels, targets=targets)
    assert (ours.forwards == 50).all()  # as the docstring says; 5 classes leave 4 rivals
    assert (ours.backwards == (8 if targets is None else 32)).all()


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_origins_that_will_do_stay_and_what_was_not_found_stays_so(norm: str) -> None:
    model = bent()
    images = settle(torch.rand(6, *SHAPE, generator=torch.Generator().manual_seed(3)))
    said = model(images).argmax(1)
    labels = (said + 1) % CLASSES  # already called something else
    none = torch.zeros(6, dtype=torch.int64)
    near = Nearest(images + 0.001, torch.tensor([True] * 4 + [False] * 2), none > 0, none, none)
    ours = on_lattice(model, images, near, labels, norm=norm)
    assert torch.equal(ours.images, images)  # 0.001 is a quarter of a level
    assert ours.found.tolist() == near.found.tolist()
    assert ours.forwards.tolist() == [1] * 4 + [0] * 2
    nobody = on_lattice(model, images, replace(near, found=none > 0), labels, norm=norm)
    assert not nobody.found.any()


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_nan_is_never_found(norm: str) -> None:
    images = settle(torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(1)))
    none = torch.zeros(4, dtype=torch.int64)
    near = Nearest(images + 0.1, none == 0, none > 0, none, none)
    ours = on_lattice(lambda shown: shown.flatten(1)[:, :3] * torch.nan, images, near, none, norm=norm)
    assert not ours.found.any()
    assert ours.invalid.all()
    assert torch.equal(ours.images, settle(ours.images))
    bad = replace(near, images=near.images * torch.nan)
    model = bent()
    labels = model(images).argmax(1)
    assert on_lattice(model, images, bad, labels, norm=norm).found.all()  # slopes at the origin are a start too


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_class_that_is_never_given(norm: str) -> None:
    images = settle(torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(1)))
    none = torch.zeros(4, dtype=torch.int64)
    near = Nearest(images + 0.1, none == 0, none > 0, none, none)
    ours = on_lattice(lambda shown: shown.flatten(1)[:, :3] + torch.tensor([5.0, 0, 0]), images, near, none, norm=norm)
    assert not ours.found.any()
    assert not ours.invalid.any()


def test_mistakes_are_named() -> None:
    images, none = torch.zeros(1, *SHAPE), torch.zeros(1, dtype=torch.int64)
    near = Nearest(images, none == 0, none > 0, none, none)
    with pytest.raises(UserError, match="norm is 'l1'"):
        on_lattice(bent(), images, near, none, norm="l1")
    with pytest.raises(UserError, match="NaN"):
        on_lattice(bent(), images * torch.nan, near, none)
