"""Minimal distortions of linear networks, where the answer is known."""

import math

import pytest
import torch
from torch import nn

from foible.search.nearest import length
from foible.search.nearest.closest import closest
from foible.search.nearest.exact import exact


def _linear(pixels: int, classes: int, seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(pixels, classes).requires_grad_(False)


def _task(count: int = 60, pixels: int = 49, classes: int = 10):
    network = _linear(pixels, classes)
    images = torch.rand(count, 1, 7, 7, generator=torch.Generator().manual_seed(1))
    labels = network(images.flatten(1)).argmax(1)
    return network, lambda x: network(x.flatten(1)), images, labels


def test_two_classes_without_a_box_is_the_distance_to_a_plane():
    network = _linear(12, 2)
    images = torch.rand(20, 12, generator=torch.Generator().manual_seed(2))
    labels = network(images).argmax(1)
    normal = (network.weight[1] - network.weight[0]).double()
    gap = (network(images)[:, 1] - network(images)[:, 0]).double().abs() / normal.norm()
    found = closest(network, images, labels, targets=1 - labels, low=-math.inf, high=math.inf)
    assert found.found.all()
    assert torch.allclose(length(found.images - images).double(), gap, rtol=1e-3)
    known = exact(network.weight, network.bias, images, 1 - labels, low=-math.inf, high=math.inf)
    assert torch.allclose(length(known.images - images), gap, rtol=1e-6)


def test_one_pixel():
    """logits 0 and x − 0.7: the nearest image of class 1 to 0.2 is 0.7; class 1 cannot be had above 1."""

    def network(x):
        flat = x.flatten(1)
        return torch.cat([torch.zeros_like(flat), flat - 0.7], 1)

    image, label = torch.tensor([[[[0.2]]]]), torch.tensor([0])
    found = closest(network, image, label, targets=torch.tensor([1]))
    assert found.found.all()
    assert float(found.images) == pytest.approx(0.7, abs=1e-3)
    assert float(found.images) > 0.7
    never = closest(lambda x: network(x - 0.5), image, label, targets=torch.tensor([1]))
    assert not never.found.any()
    assert not never.invalid.any()
    assert float(never.images) == pytest.approx(1.0, abs=0.05)  # as near as the box allows


def test_fixed_targets_within_two_thousandths_of_the_optimum():
    network, model, images, labels = _task()
    targets = (labels + 1) % 10
    known = exact(network.weight, network.bias, images, targets)
    found = closest(model, images, labels, targets=targets)
    assert known.found.all()
    assert found.found.all()
    ratio = length(found.images - images).double() / length(known.images - images)
    assert ratio.min() > 1 - 1e-5
    assert ratio.mean() < 1.002


def test_untargeted_within_two_thousandths_of_the_best_target():
    network, model, images, labels = _task()
    sizes = []
    for shift in range(1, 10):
        known = exact(network.weight, network.bias, images, (labels + shift) % 10)
        sizes.append(torch.where(known.found, length(known.images - images.double()), torch.inf))
    found = closest(model, images, labels)
    assert found.found.all()
    assert (model(found.images).argmax(1) != labels).all()
    assert (length(found.images - images).double() / torch.stack(sizes).amin(0)).mean() < 1.002


def test_the_optimum_ties_and_nothing_nearer_does():
    network, _, images, labels = _task(20)
    targets = (labels + 3) % 10
    known = exact(network.weight, network.bias, images, targets)
    logits = known.images.flatten(1) @ network.weight.double().t() + network.bias.double()
    others = logits.scatter(1, targets[:, None], -torch.inf).amax(1)
    assert torch.allclose(logits.gather(1, targets[:, None])[:, 0], others, atol=1e-8)
    nearer = images.double() + 0.999 * (known.images - images)
    logits = nearer.flatten(1) @ network.weight.double().t() + network.bias.double()
    assert (logits.argmax(1) != targets).all()
