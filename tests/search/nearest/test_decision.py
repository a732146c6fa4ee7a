"""`decision`: the nearest image by answers alone, against methods that know more."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import Model, Nearest, length, reached
from foible.search.nearest.closest import closest
from foible.search.nearest.decision import Pool, decision
from foible.testing import SHAPE, Counting, linear_basket, linear_network, linear_trials

Task = tuple[Model, Tensor, Tensor]


@pytest.fixture(scope="module")
def task() -> Task:
    """A linear network and 8 images that it gets right."""
    trials = linear_trials(linear_basket(), 8)
    network = linear_network(0).requires_grad_(False)
    images = trials.seeds.float() / 255
    return network, images, network(images).argmax(1)


@pytest.fixture(scope="module")
def bent() -> Task:
    """A network of one hidden layer with weights as they were drawn, and smooth images."""
    generator = torch.Generator().manual_seed(5)
    network = nn.Sequential(nn.Flatten(), nn.Linear(784, 60), nn.ReLU(), nn.Linear(60, 10)).requires_grad_(False)
    for part in network.parameters():
        part.copy_(torch.randn(part.shape, generator=generator) * 3 / part.shape[-1] ** 0.5)
    images = nn.functional.interpolate(torch.rand(6, 1, 5, 5, generator=generator), (28, 28), mode="bilinear")
    return network, images, network(images).argmax(1)


def pool_of(task: Task) -> Pool:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(64, *task[1].shape[1:], generator=generator)
    return images, task[0](images).argmax(1)


@pytest.mark.parametrize(("norm", "times"), [("l2", 1.35), ("linf", 1.6)])
@pytest.mark.parametrize("aimed", [False, True])
def test_hardly_farther_than_the_planes_of_a_linear_network(task: Task, norm: str, times: float, aimed: bool) -> None:
    model, images, labels = task
    targets = (labels + 1) % 3 if aimed else None
    found = decision(model, images, labels, targets=targets, norm=norm, queries=1000, pool=pool_of(task))
    assert bool(found.found.all())
    assert bool(reached(model(found.images), labels, targets).all())
    assert bool(((found.images >= 0) & (found.images <= 1)).all())
    # Without the box a plane is as far as its gap over the length of its normal, in the dual norm.
    weight, logits = model[1].weight, model(images)  # type: ignore[index]
    gaps = logits.gather(1, labels[:, None]) - logits
    planes = gaps / (weight[labels][:, None] - weight).norm(dim=2, p=1 if norm == "linf" else 2)
    least = planes.gather(1, ((labels + 1) % 3)[:, None])[:, 0] if aimed else planes.nan_to_num(torch.inf).amin(1)
    ratio = length(found.images - images, norm) / least
    assert bool((ratio > 0.999).all())
    assert float(ratio.mean()) < times
    assert bool((found.backwards == 0).all())


def test_not_much_farther_than_slopes_lead_in_a_bent_one(bent: Task) -> None:
    """Its weights are noise, so that low frequencies do not help."""
    model, images, labels = bent
    found, known = decision(model, images, labels, pool=pool_of(bent)), closest(model, images, labels)
    assert bool(found.found.all())
    assert float((length(found.images - images) / length(known.images - images)).mean()) < 2


def test_nothing_but_answers_is_asked_for(task: Task) -> None:
    model, images, labels = task

    def said(pixels: Tensor) -> Tensor:
        return nn.functional.one_hot(model(pixels).argmax(1), 3).float()

    pool = pool_of(task)
    one, other = (decision(asked, images, labels, queries=500, pool=pool) for asked in (model, said))
    assert torch.equal(one.images, other.images)


def test_rows_never_touch(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    model, images, labels = task
    whole = decision(model, images, labels, queries=300)
    part = decision(model, images[3:5], labels[3:5], queries=300)
    assert torch.allclose(part.images, whole.images[3:5], atol=1e-5)
    monkeypatch.setattr(importlib.import_module("foible.search.nearest.decision"), "_at_once", lambda _: 70 * 144)
    small = decision(model, images, labels, queries=300)
    assert torch.allclose(small.images, whole.images, atol=1e-5), "nor does it matter how many are asked at once"
    assert torch.equal(small.forwards, whole.forwards)
    other = decision(model, images, labels, queries=300, seed=1)
    assert not torch.allclose(other.images, whole.images, atol=1e-5)


def test_more_queries_come_nearer(bent: Task) -> None:
    model, images, labels = bent
    sizes = [length(decision(model, images, labels, queries=most).images - images).mean() for most in (200, 500, 1500)]
    assert sizes[0] > sizes[1] > sizes[2]


def test_costs_and_budgets(task: Task) -> None:
    _, images, labels = task
    counting = Counting(linear_network(0).requires_grad_(False))
    found = decision(counting, images, labels, queries=600)
    assert int(found.forwards.sum()) == sum(counting.calls)
    assert bool((found.forwards <= 600).all())
    spent = torch.tensor([0, 300, 0, 0, 0, 0, 0, 0])
    less = decision(counting, images, labels, budget=Budget(forwards=400), spent=spent)
    assert int(less.forwards[0]) > int(less.forwards[1])
    assert not bool(less.found[1]), "a hundred are too few to begin with"
    assert bool((less.forwards + spent <= 400).all())


def test_what_cannot_be_found(task: Task) -> None:
    _, images, labels = task

    def constant(pixels: Tensor) -> Tensor:
        return nn.functional.one_hot(torch.zeros(len(pixels), dtype=torch.int64), 3).float()

    none: Nearest = decision(constant, images, labels * 0)
    assert not bool(none.found.any() | none.invalid.any())
    assert torch.equal(none.images, images)
    broken: Nearest = decision(lambda pixels: constant(pixels) * torch.nan, images, labels)
    assert bool(broken.invalid.all())
    empty = decision(constant, images[:0], labels[:0])
    assert empty.images.shape == (0, *SHAPE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "l1"}, "norm is 'l1': expected l2 or linf"),
        ({"queries": 0}, "queries is 0: expected at least 1"),
        ({"high": float("inf")}, "values from 0.0 to inf: decision needs a box"),
    ],
)
def test_wrong_options_are_named(task: Task, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        decision(*task, **options)
