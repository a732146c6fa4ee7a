"""How networks are shown images on a CPU: a pixel's channels side by side where they take it so, and not too many at
once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.padding import CACHED
from foible.images import pixels_together
from foible.networks.zoo.build import build

CLASSES = ["a", "b", "c"]


class Convolved(nn.Module):
    """Notes how its images are laid out, and how many they are."""

    def __init__(self, channels: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 3, 3)

    def forward(self, images: Tensor) -> Tensor:
        type(self).seen = images.stride(1), len(images)
        return self.conv(images).mean((2, 3))

    seen: tuple[int, int]


class Viewed(Convolved):
    """Takes for granted that a channel's pixels lie side by side."""

    def forward(self, images: Tensor) -> Tensor:
        type(self).seen = images.stride(1), len(images)
        return self.conv(images).view(len(images), -1)[:, :3]


class Strided(Convolved):
    """Says something else of images that are laid out otherwise."""

    def forward(self, images: Tensor) -> Tensor:
        said = super().forward(images)
        return said if images.stride(1) > 1 else said.flip(1)


def basket_of(network: nn.Module) -> Basket:
    return Basket({"A": network}, classes=CLASSES, preprocess="inside")


@pytest.mark.parametrize("channels", [1, 3])
def test_a_pixels_channels_lie_side_by_side(channels: int) -> None:
    images = torch.rand(5, channels, 6, 7, requires_grad=True)
    laid = pixels_together(images)
    assert torch.equal(laid, images)
    assert laid.stride() == (6 * 7 * channels, 1, 7 * channels, channels)
    (laid * torch.arange(7.0)).sum().backward()
    assert torch.equal(images.grad, torch.arange(7.0).expand(5, channels, 6, 7))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("kind", "together"), [(Convolved, True), (Viewed, False), (Strided, False)])
def test_networks_see_channels_together_where_they_say_the_same(
    kind: type[Convolved], together: bool, channels: int
) -> None:
    torch.manual_seed(0)
    network, images = kind(channels), torch.rand(20, channels, 6, 6)
    basket = basket_of(network)
    first, kept = basket.judge(images), images.clone()
    with torch.no_grad():
        torch.testing.assert_close(first[0], network(images))
    assert torch.equal(basket.judge(images), first)  # the first answer is like all others
    assert (kind.seen[0] == 1) == together
    assert torch.equal(images, kept)


def test_no_network_without_convolutions_sees_them_so() -> None:
    seen: list[int] = []

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(36, 3)

        def forward(self, images: Tensor) -> Tensor:
            seen.append(images.stride(1))
            return self.linear(images.flatten(1))

    basket_of(Flat()).judge(torch.rand(20, 1, 6, 6))
    assert set(seen) == {36}


@pytest.mark.parametrize("spec", ["lenet", "vit4", "resnet:8,width=4", "mlp:20"])
def test_many_images_are_shown_a_few_at_a_time_and_answers_are_the_same_bits(spec: str) -> None:
    torch.manual_seed(0)
    network, images = build(spec, (1, 28, 28), 3), torch.rand(2 * CACHED + 9, 1, 28, 28)
    basket, shown = basket_of(network), []
    asked: Any = basket.network("A")
    asked.register_forward_pre_hook(lambda _, given: shown.append(len(given[0])))
    whole = basket.judge(images)
    assert shown[-3:] == ([89, 88, 88] if spec != "mlp:20" else [len(images)])
    assert torch.equal(whole[:, 200:216], basket.judge(images[200:216]))
    assert torch.equal(whole[:, -CACHED:], basket.judge(images[-CACHED:]))


def test_weights_that_only_cost_time_are_dropped() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(36, 3))
    layer: Any = network[1]
    with torch.no_grad():
        layer.weight[:, :10] = 1e-39
        layer.weight[:, 10:20] *= 1e-21
        layer.weight[2] = 1e-25  # small, but not beside the others of its row
    basket, images = basket_of(network), torch.rand(20, 1, 6, 6)
    held: Any = basket.network("A")
    assert held[1].weight[:2, :20].count_nonzero() == 0
    assert torch.equal(held[1].weight[:2, 20:], layer.weight[:2, 20:])
    assert torch.equal(held[1].weight[2], layer.weight[2])
    assert torch.equal(basket.judge(images)[0], network(images))
    assert layer.weight[:, :20].count_nonzero() == 60  # the caller's own stay as they are
    half = nn.Sequential(nn.Flatten(), nn.Linear(36, 3)).half()
    with torch.no_grad():
        half[1].weight[:] = 1e-5
    kept: Any = basket_of(half).network("A")
    assert (kept[1].weight > 0).all()  # of float16 that is subnormal, and counts


def test_slopes_go_through_parts_and_layout() -> None:
    torch.manual_seed(0)
    network, images = build("lenet", (1, 28, 28), 3).eval(), torch.rand(CACHED + 40, 1, 28, 28)
    slopes = []
    for ask in (network, lambda images: basket_of(network).judge(images)[0]):
        at = images.clone().requires_grad_()
        slopes.append(torch.autograd.grad(ask(at)[:, 0].sum(), at)[0])
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-4, atol=1e-6)
