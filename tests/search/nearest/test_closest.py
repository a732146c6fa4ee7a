"""`closest`: what it promises for any network."""

import sys
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from foible.basket import Budget
from foible.errors import UserError
from foible.search.nearest import ball, length
from foible.search.nearest.closest import closest, surely
from foible.search.nearest.fmn import fmn

closest_module = sys.modules["foible.search.nearest.closest"]


class Counting(nn.Module):
    """A small sigmoid network that counts what passes through it, image by image."""

    def __init__(self, classes: int = 6, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.Sigmoid(), nn.Linear(24, classes)).requires_grad_(
            False
        )
        with torch.no_grad():
            for part in self.body:
                if isinstance(part, nn.Linear):
                    part.weight *= 3
        self.rows, self.gradients = 0, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.rows += len(images)
        if images.requires_grad:
            images.register_hook(self._count)
        return self.body(images)

    def _count(self, gradient: torch.Tensor) -> None:
        self.gradients += len(gradient)


@pytest.fixture
def task():
    network = Counting()
    images = torch.rand(40, 1, 6, 6, generator=torch.Generator().manual_seed(3))
    labels = network.body(images).argmax(1)
    return network, images, labels


def test_found_is_found_and_in_the_box(task):
    network, images, labels = task
    targets = (labels + 1) % 6
    result = closest(network, images, labels, targets=targets)
    assert result.found.float().mean() > 0.9
    said = network.body(result.images).argmax(1)
    assert (said == targets)[result.found].all()
    assert result.images.min() >= 0
    assert result.images.max() <= 1


def test_nothing_smaller_along_the_segment(task):
    network, images, labels = task
    result = closest(network, images, labels)
    inner = images + 0.99 * (result.images - images)
    assert (network.body(inner).argmax(1) == labels)[result.found].all()


def test_costs_are_what_the_network_saw(task):
    network, images, labels = task
    result = closest(network, images, labels, targets=(labels + 1) % 6, effort=40)
    assert int(result.forwards.sum()) == network.rows
    assert int(result.backwards.sum()) == network.gradients
    assert result.backwards.max() <= 5 + 2 * 20


def test_batch_mates_do_not_matter(task):
    network, images, labels = task
    targets = (labels + 2) % 6
    whole = closest(network, images, labels, targets=targets)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(4))
    shuffled = closest(network, images[order], labels[order], targets=targets[order])
    parts = [closest(network, images[k], labels[k], targets=targets[k]) for k in torch.arange(len(images)).split(7)]
    split = torch.cat([part.images for part in parts])
    assert torch.equal(whole.found[order], shuffled.found)
    size = length(whole.images - images)
    assert torch.allclose(size[order], length(shuffled.images - images[order]), rtol=2e-3)
    assert torch.allclose(size, length(split - images), rtol=2e-3)


def test_already_there_costs_one_look(task):
    network, images, labels = task
    result = closest(network, images, labels, targets=labels)
    assert result.found.all()
    assert torch.equal(result.images, images)
    assert (result.forwards == 1).all()
    assert not result.backwards.any()
    wrong = closest(network, images, (labels + 1) % 6)  # untargeted, and not of that class to begin with
    assert torch.equal(wrong.images, images)
    assert wrong.found.all()


def test_a_class_that_is_never_given_ends_with_the_best_effort(task):
    network, images, labels = task

    def never(x):
        logits = network(x)
        return torch.cat([logits, logits.amin(1, keepdim=True) - 1], 1)

    result = closest(never, images, labels, targets=torch.full_like(labels, 6), effort=20)
    assert not result.found.any()
    assert not result.invalid.any()
    assert result.images.isfinite().all()


def test_the_budget_is_kept(task):
    network, images, labels = task
    result = closest(network, images, labels, targets=(labels + 1) % 6, budget=Budget(forwards=14, backwards=19))
    assert result.forwards.max() <= 14
    assert result.backwards.max() <= 19
    nothing = closest(network, images, labels, targets=(labels + 1) % 6, budget=Budget(backwards=0))
    assert not nothing.backwards.any()


def test_nan_is_invalid_and_stays_with_its_row(task):
    network, images, labels = task

    def broken(x):
        logits = network(x)
        return torch.where((x[:, 0, 0, 0] > 0.9)[:, None], torch.nan, logits)

    images = images.clone()
    images[:, 0, 0, 0] = 0.5
    images[3, 0, 0, 0] = 0.95
    labels = network.body(images).argmax(1)
    result = closest(broken, images, labels)
    assert bool(result.invalid[3])
    assert not bool(result.found[3])
    alone = closest(broken, images[:3], labels[:3])
    assert torch.allclose(length(alone.images - images[:3]), length(result.images[:3] - images[:3]), rtol=2e-3)


def test_maximum_norm_is_smaller_in_its_own_measure(task):
    network, images, labels = task
    euclid = closest(network, images, labels)
    largest = closest(network, images, labels, norm="linf")
    both = euclid.found & largest.found
    assert both.all()
    assert length(largest.images - images, "linf").mean() < 0.8 * length(euclid.images - images, "linf").mean()
    assert length(euclid.images - images).mean() < length(largest.images - images).mean()


def test_more_effort_comes_nearer_to_a_target(task):
    network, images, labels = task
    little, usual, much = (
        length(closest(network, images, labels, targets=(labels + 1) % 6, effort=effort).images - images)
        for effort in (20, 150, 400)
    )
    assert usual.mean() < little.mean()
    assert much.mean() < (1 + 1e-5) * usual.mean()
    assert (much <= 1.01 * usual).all()


def _layers(depth: int, classes: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A network so many layers deep, rough where it is deep, images, and what it says of them."""
    torch.manual_seed(0)
    layers = [part for two in pairwise([64] * depth) for part in (nn.Linear(*two), nn.ReLU())]
    network = nn.Sequential(nn.Flatten(), *layers, nn.Linear(64, classes)).requires_grad_(False)
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
            layer.bias.normal_(0, 0.3)
    images = torch.rand(40, 1, 8, 8)
    return network, images, network(images).argmax(1)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_to_targets_of_a_rough_network(monkeypatch, norm):
    network, images, labels = _layers(12, classes=6)

    def cost(method):
        result = method(network, images, labels, targets=(labels + 1) % 6, norm=norm)
        whole = length(torch.ones_like(images), norm)
        return float(torch.where(result.found, length(result.images - images, norm), whole).mean())

    assert cost(closest) < 1.02 * cost(partial(fmn, steps=150))
    usual = cost(closest)
    monkeypatch.setattr(closest_module, "USUAL", {norm: replace(ball.USUAL[norm], far=torch.inf)})
    assert usual < 0.9 * cost(closest)  # strides as long as the way to what was found first pass over everything
    monkeypatch.undo()
    monkeypatch.setattr(closest_module, "shrink", lambda *_, **__: None)
    assert usual < 0.7 * cost(closest)


@pytest.mark.parametrize(("given", "said"), [({"norm": "l1"}, "l2 or linf"), ({"effort": 0}, "effort is 0")])
def test_wrong_options_are_named(task, given, said):
    network, images, labels = task
    with pytest.raises(UserError, match=said):
        closest(network, images, labels, **given)


def test_no_gradient_is_said(task):
    network, images, labels = task
    with pytest.raises(UserError, match="differentiable"):
        closest(lambda x: network(x).round().detach(), images, labels)


def test_nothing_to_do():
    result = closest(lambda x: x.flatten(1), torch.zeros(0, 1, 2, 2), torch.zeros(0, dtype=torch.int64))
    assert len(result.images) == 0


def test_a_find_holds_by_more_than_batches_make_of_an_answer() -> None:
    """A network whose answers go up and down with the size of the batch, as a GPU's do, only more."""
    weights, odd = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([1e-4, -1e-4, 0.0])

    def model(images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1) @ weights + odd * (len(images) % 7)

    images = torch.rand(60, 1, 3, 4, generator=torch.Generator().manual_seed(1))
    labels, share = model(images).argmax(1), surely(model, images)

    def held(sure: float) -> float:
        found = closest(model, images, labels, sure=sure)
        parts = zip(found.images.split(20), labels.split(20), strict=True)
        return float(torch.cat([model(part).argmax(1) != label for part, label in parts]).float().mean())

    assert held(share) == 1
    assert held(1e-7) < 0.9, "which a margin of nothing does not"
    assert surely(lambda images: images.flatten(1) @ weights, images) < 1e-5
    memory = torch.zeros(60, 3)
    assert surely(lambda images: memory[: len(images)].copy_(model(images)), images) == share, "of compiled models"
    assert surely(lambda images: torch.rand(len(images), 3), images) == 1e-3, "one that draws lots is asked for no more"


@pytest.mark.parametrize("classes", [2, 3])
def test_with_two_classes_nobody_looks_for_another_label(monkeypatch: pytest.MonkeyPatch, classes: int) -> None:
    module, asked = sys.modules[closest.__module__], []
    likely = module._likely
    monkeypatch.setattr(module, "_likely", lambda aim: asked.append(len(aim.x)) or likely(aim))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(9, 12), nn.Tanh(), nn.Linear(12, classes)).requires_grad_(False)
    images = torch.rand(6, 1, 3, 3)
    labels = model(images).argmax(1)
    made = closest(model, images, labels, effort=100)
    assert bool(asked) == (classes > 2)
    assert made.found.any()
    assert (model(made.images[made.found]).argmax(1) != labels[made.found]).all()
    assert int(made.backwards.max()) <= 101


def test_with_two_classes_long_strides_come_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    network, images, labels = _layers(12, classes=2)

    def far() -> float:
        made = closest(network, images, labels, effort=60)
        assert made.found.all()
        return float(length(made.images - images).mean())

    bold = far()
    assert bold < 1.005 * float(length(fmn(network, images, labels, steps=100).images - images).mean())
    monkeypatch.setattr(closest_module, "BOLD", ball.USUAL)
    assert bold < far()


def test_with_two_classes_planes_go_on_where_they_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    network, images, labels = _layers(2, classes=2)
    rows = []
    monkeypatch.setattr(closest_module, "shrink", lambda aim, *_, **__: rows.append(len(aim.x)))
    made = closest(network, images, labels, effort=15)
    assert rows[0] < 0.5 * len(images)  # the second time those are tried that nothing was found for
    much = closest(network, images, labels, effort=400)
    assert length(made.images - images)[made.found].mean() < 1.01 * length(much.images - images)[made.found].mean()
