"""Hooks: what a layer gives, and the network above it, against networks whose answers are known."""

from __future__ import annotations

import math
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foible.basket.hooks import above, activations, layer_names, tapped, watching
from foible.errors import UserError
from foible.networks import zoo
from foible.randomness import normals


class Twice(nn.Module):
    """One ReLU, called twice, a shortcut around the second layer, and a layer that gives a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(6, 6)
        self.first = nn.Linear(4, 6)
        self.relu = nn.ReLU(inplace=True)
        self.pair = nn.LSTM(6, 6, batch_first=True)
        self.unused = nn.Linear(1, 1)
        self.holder = nn.ModuleList([nn.Linear(6, 3)])

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.relu(self.first(images.flatten(1)))
        hidden = self.relu(self.second(hidden)) + hidden
        logits: Tensor = self.holder[0](hidden + 0 * self.pair(hidden)[0])
        return logits


def _weights(network: nn.Module) -> nn.Module:
    with torch.no_grad():
        for lane, weight in enumerate(network.parameters()):
            drawn = normals(0, torch.tensor([lane]), stream="test.taps", count=weight.numel())
            weight.copy_(drawn.view_as(weight) / math.sqrt(weight[0].numel()))
    return network.eval().requires_grad_(False)


@pytest.fixture
def twice() -> Twice:
    network = _weights(Twice())
    assert isinstance(network, Twice)
    return network


@pytest.fixture
def images() -> Tensor:
    return normals(1, torch.arange(5), stream="test.images", count=4).view(5, 1, 2, 2)


class Named(nn.Module):
    """Calls its layer by keyword, then without any argument."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Doubled()

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images=images) + self.layer()


class Doubled(nn.Module):
    def forward(self, images: Tensor | None = None) -> Tensor:
        return torch.zeros(1) if images is None else 2 * images


def test_watching_tells_of_every_call_as_it_begins_and_as_it_ends(images: Tensor) -> None:
    network, told = Named(), list[Any]()
    with watching(
        dict(network.named_modules()),
        lambda name, layer, given, output: told.append(("ends", name, type(layer), given, output)),
        lambda name, layer, given: told.append(("begins", name, type(layer), given)),
    ):
        answers = network(images)
    assert [one[:3] for one in told] == [
        ("begins", "", Named),
        ("begins", "layer", Doubled),
        ("ends", "layer", Doubled),
        ("begins", "layer", Doubled),
        ("ends", "layer", Doubled),
        ("ends", "", Named),
    ]
    assert told[1][3] is told[2][3] is images  # by keyword
    assert torch.equal(told[2][4], 2 * images)
    assert told[3][3] is told[4][3] is None
    assert told[5][4] is answers


def test_what_a_watcher_gives_back_takes_the_place_of_the_output(images: Tensor) -> None:
    network = Named()
    with watching({"layer": network.layer}, lambda _name, _layer, given, output: None if given is None else output + 1):
        assert torch.equal(network(images), 2 * images + 1)
    assert torch.equal(network(images), 2 * images)


def test_watching_ends_with_its_block_whatever_happens_inside(twice: Twice, images: Tensor) -> None:
    def fail(*_: Any) -> None:
        raise ValueError

    with pytest.raises(ValueError), watching(dict(twice.named_modules()), fail, lambda *_: None):  # noqa: PT011
        twice(images)
    for module in twice.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_names_are_in_the_order_of_the_forward_pass(twice: Twice, images: Tensor) -> None:
    assert layer_names(twice, images) == ["first", "second", "relu", "holder.0"]
    assert layer_names(twice) == ["second", "first", "relu", "pair", "unused", "holder.0"]
    mlp = zoo.build("mlp:8", (1, 2, 2), 3)
    assert layer_names(mlp, images) == layer_names(mlp) == ["flatten", "hidden1", "activation1", "output"]


def test_activations_are_what_the_layer_gives(twice: Twice, images: Tensor) -> None:
    first = images.flatten(1) @ twice.first.weight.t() + twice.first.bias
    assert (first < 0).any()  # the ReLU behind it works in place, and must not be seen
    torch.testing.assert_close(activations(twice, "first", images), first)
    second = first.relu() @ twice.second.weight.t() + twice.second.bias
    torch.testing.assert_close(activations(twice, "relu", images), second.relu())  # its last call
    with tapped(twice, "second", inputs=True) as tap:
        torch.testing.assert_close(tap(images), first.relu())


def test_nothing_is_left_on_the_network(twice: Twice, images: Tensor) -> None:
    activations(twice, "first", images)
    above(twice, "first", images)(activations(twice, "first", images))
    layer_names(twice, images)
    for module in twice.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


@pytest.mark.parametrize("layer", ["first", "second", "relu", "holder.0"])
def test_above_what_the_layer_gives_are_the_logits(twice: Twice, images: Tensor, layer: str) -> None:
    torch.testing.assert_close(above(twice, layer, images)(activations(twice, layer, images)), twice(images))


def test_above_is_differentiable_in_the_layer(twice: Twice, images: Tensor) -> None:
    values = activations(twice, "relu", images).requires_grad_()
    logits = above(twice, "relu", images)
    logits(values)[:, 1].sum().backward()
    weight: Tensor = twice.holder[0].weight  # type: ignore[assignment]
    assert values.grad is not None
    torch.testing.assert_close(values.grad, weight[1].expand(5, 6))
    leaf = activations(twice, "first", images).requires_grad_()  # a ReLU in place follows
    logits = above(twice, "first", images)
    logits(leaf).sum().backward()
    step, slope = 1e-3, leaf.grad
    assert slope is not None
    moved = leaf.detach().double() + step
    measured = (above(twice.double(), "first", images.double())(moved).sum() - twice(images.double()).sum()) / step
    assert float(measured) == pytest.approx(float(slope.sum()), rel=0.02)


def test_threads_do_not_see_each_other(twice: Twice) -> None:
    batches = [normals(2, torch.arange(7), stream=f"test.{k}", count=4).view(7, 1, 2, 2) for k in range(40)]
    with tapped(twice, "first") as tap, ThreadPoolExecutor(4) as pool:
        together = list(pool.map(tap, batches))
        above_all = list(pool.map(lambda batch: above(twice, "first", batch)(tap(batch)), batches))
    for batch, seen, logits in zip(batches, together, above_all, strict=True):
        torch.testing.assert_close(seen, twice.first(batch.flatten(1)))
        torch.testing.assert_close(logits, twice(batch))


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("frist", "there is no layer 'frist'; did you mean 'first'"),
        ("unused", "this network does not call it"),
        ("pair", "layer 'pair' gives tuple for 5 images"),
    ],
)
def test_layers_that_cannot_be_tapped(twice: Twice, images: Tensor, layer: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        activations(twice, layer, images)
    with pytest.raises(UserError, match=said):
        above(twice, layer, images)


def test_wrong_values_are_refused(twice: Twice, images: Tensor) -> None:
    with pytest.raises(UserError, match=r"values of shape \(5, 5\) for layer 'first': expected \(5, 6\)"):
        above(twice, "first", images)(torch.zeros(5, 5))
    with pytest.raises(UserError, match="4 rows for layer 'first': expected 5"):
        above(twice, "first", images)(torch.zeros(4, 6))


def test_a_callable_has_no_layers() -> None:
    with pytest.raises(UserError, match=r"is no torch\.nn\.Module"):
        layer_names(lambda images: images)
    with pytest.raises(UserError, match="Identity shows none of its layers"):
        activations(nn.Identity(), "first", torch.zeros(2, 1))


def test_layers_with_shortcuts_around_them() -> None:
    network = _weights(zoo.build("resnet:8,width=4", (3, 8, 8), 5))
    images = normals(3, torch.arange(3), stream="test.images", count=192).view(3, 3, 8, 8)
    names = layer_names(network, images)
    assert names[:2] == ["conv", "norm"]
    assert names[-1] == "output"
    for layer in names:
        values = activations(network, layer, images)
        torch.testing.assert_close(above(network, layer, images)(values), network(images))
        assert not torch.allclose(above(network, layer, images)(values + 1), network(images)), layer


def test_rows_must_be_images() -> None:
    network = nn.Sequential(OrderedDict(turn=nn.Flatten(0), back=nn.Unflatten(0, (2, 3))))
    with pytest.raises(UserError, match=r"layer 'turn' gives shape \(6,\) for 2 images"):
        activations(network, "turn", torch.zeros(2, 3))
