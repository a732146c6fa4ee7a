"""`fmn` and `apgd`: what they promise for any network, and the known answers of linear ones."""

import math

import pytest
import torch
from test_closest import Counting
from torch import nn

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import length
from foible.search.nearest.apgd import apgd, nearest_by_apgd
from foible.search.nearest.closest import closest
from foible.search.nearest.fmn import fmn

METHODS = [fmn, nearest_by_apgd]
NORMS = ["l2", "linf"]


@pytest.fixture
def task():
    network = Counting()
    images = torch.rand(16, 1, 6, 6, generator=torch.Generator().manual_seed(3))
    return network, images, network.body(images).argmax(1)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("method", METHODS)
def test_two_classes_without_a_box_is_the_distance_to_a_plane(method, norm):
    torch.manual_seed(0)
    network = nn.Linear(12, 2).requires_grad_(False)
    images = torch.rand(20, 12, generator=torch.Generator().manual_seed(2))
    logits = network(images)
    labels, normal = logits.argmax(1), network.weight[1] - network.weight[0]
    known = (logits[:, 1] - logits[:, 0]).abs() / normal.norm(p=1 if norm == "linf" else 2)
    steps = 60 if method is fmn else 12
    found = method(network, images, labels, norm=norm, low=-math.inf, high=math.inf, steps=steps)
    assert found.found.all()
    assert (network(found.images).argmax(1) != labels).all()
    ratio = length(found.images - images, norm) / known
    assert ratio.min() > 1 - 1e-5
    assert ratio.max() < 1.01


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shift", [None, 1])
def test_found_is_found_in_the_box_and_both_are_about_as_near(task, norm, shift):
    network, images, labels = task
    targets = None if shift is None else (labels + shift) % 6
    sizes = []
    for method, more in ((fmn, {}), (nearest_by_apgd, {"steps": 20, "rounds": 8})):
        result = method(network, images, labels, targets=targets, norm=norm, **more)
        assert result.found.all()
        said = network.body(result.images).argmax(1)
        assert (said != labels if targets is None else said == targets).all()
        assert result.images.min() >= 0
        assert result.images.max() <= 1
        sizes.append(float(length(result.images - images, norm).mean()))
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    if norm == "l2":
        ours = closest(network, images, labels, targets=targets)
        assert sizes[0] < 1.01 * length(ours.images - images).mean()


@pytest.mark.parametrize("method", METHODS)
def test_costs_are_what_the_network_saw(task, method):
    network, images, labels = task
    result = method(network, images, labels, steps=6)
    assert int(result.forwards.sum()) == network.rows
    assert int(result.backwards.sum()) == network.gradients


@pytest.mark.parametrize("method", METHODS)
def test_the_budget_is_kept(task, method):
    network, images, labels = task
    for most in (0, 1, 2, 30):
        result = method(network, images, labels, budget=Budget(forwards=most, backwards=most + 1), steps=20)
        assert result.forwards.max() <= most
        assert result.images.isfinite().all()
    assert result.found.any()


@pytest.mark.parametrize("method", METHODS)
def test_batch_mates_do_not_matter(task, method):
    network, images, labels = task
    whole = method(network, images, labels, norm="linf", steps=5)
    parts = [method(network, images[k], labels[k], norm="linf", steps=5) for k in torch.arange(len(images)).split(7)]
    assert torch.allclose(whole.images, torch.cat([part.images for part in parts]), atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_already_there_is_no_change(task, method):
    network, images, labels = task
    result = method(network, images, (labels + 1) % 6, steps=5)
    assert result.found.all()
    assert torch.equal(result.images, images)
    assert (result.forwards == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_class_that_is_never_given_ends_with_the_best_effort(task, method):
    network, images, labels = task

    def never(x):
        logits = network(x)
        return torch.cat([logits, logits.amin(1, keepdim=True) - 1], 1)

    result = method(never, images, labels, targets=torch.full_like(labels, 6), steps=5)
    assert not result.found.any()
    assert not result.invalid.any()
    assert result.images.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_nan_is_invalid_and_stays_with_its_row(task, method):
    network, images, labels = task
    images = images.clone()
    images[:, 0, 0, 0] = 0.5
    images[3, 0, 0, 0] = 0.95
    labels = network.body(images).argmax(1)

    def broken(x):
        return torch.where((x[:, 0, 0, 0] > 0.9)[:, None], torch.nan, network(x))

    result = method(broken, images, labels, steps=40 if method is fmn else 10)
    assert bool(result.invalid[3])
    assert not bool(result.found[3])
    assert result.found.sum() == len(images) - 1
    assert result.images.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_wrong_options_are_named(task, method):
    network, images, labels = task
    for given, said in (({"norm": "l1"}, "l2 or linf"), ({"steps": 0}, "steps is 0"), ({"first": -1.0}, "first is")):
        with pytest.raises(UserError, match=said):
            method(network, images, labels, **given)
    with pytest.raises(UserError, match="differentiable"):
        method(lambda x: network(x).detach(), images, labels)
    assert len(method(lambda x: x.flatten(1), torch.zeros(0, 1, 2, 2), torch.zeros(0, dtype=torch.int64)).images) == 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["dlr", "ce", "margin"])
def test_apgd_stays_within_eps(task, norm, loss):
    network, images, labels = task
    known = length(fmn(network, images, labels, norm=norm).images - images, norm)
    eps = 1.15 * known
    network.rows = network.gradients = 0
    found = apgd(network, images, labels, eps, norm=norm, loss=loss, steps=30, restarts=2)
    assert (int(found.forwards.sum()), int(found.backwards.sum())) == (network.rows, network.gradients)
    assert (length(found.images - images, norm) <= eps * (1 + 1e-5)).all()
    assert found.found.float().mean() >= (0.5 if loss == "ce" else 1)
    none = apgd(network, images, labels, 0.9 * known, norm=norm, loss=loss, steps=20)
    assert none.found.sum() == 0, "nothing is nearer than the nearest"


def test_restarts_draw_by_the_seed_and_the_pixels_alone(task):
    """A valley around the image, from which no slope leads out: only a draw does."""
    _, images, labels = task
    labels = torch.zeros_like(labels)

    def hidden(x):
        away = (x - images[: len(x)]).flatten(1) if len(x) == len(images) else (x - images[5:9]).flatten(1)
        far = away.abs().amax(1)
        other = torch.where(far > 0.05, 1.0, -1.0) + 0.0 * away.sum(1)
        return torch.stack([torch.zeros_like(other), other, other - 2], 1)

    once = apgd(hidden, images, labels, 0.1, steps=3, restarts=1, seed=1)
    assert not once.found.any()
    again = apgd(hidden, images, labels, 0.1, steps=3, restarts=2, seed=1)
    assert again.found.all()
    part = apgd(hidden, images[5:9], labels[5:9], 0.1, steps=3, restarts=2, seed=1)
    assert torch.equal(part.images, again.images[5:9]), "the same in every batch"
    other = apgd(hidden, images, labels, 0.1, steps=3, restarts=2, seed=2)
    assert not torch.equal(other.images, again.images)
    with pytest.raises(UserError, match="did you mean 'dlr'"):
        apgd(hidden, images, labels, 0.1, loss="drl")
    with pytest.raises(UserError, match="eps is 0"):
        apgd(hidden, images, labels, 0.0)
