"""Copies of networks in which convolutions have in them what stands behind."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.folded import Folded, folded
from foible.networks import zoo


class Residual(nn.Module):
    """A block as torchvision has it: in place, with a convolution beside where sizes differ."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.beside = nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        self.same = before == width

    def forward(self, images: Tensor) -> Tensor:
        out = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(images)))))
        out += images if self.same else self.beside(images)
        made: Tensor = self.relu(out)
        return made


def trained(network: nn.Module) -> nn.Module:
    """With statistics of its own, as training leaves them."""
    torch.manual_seed(0)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias, 0, 0.3)
    network.train()
    with torch.no_grad():
        for _ in range(3):
            network(torch.rand(16, 3, 16, 16))
    return network.eval()


def torchvisions() -> nn.Module:
    first = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    blocks = [Residual(8, 8, 1), Residual(8, 16, 2)]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))


def steps(network: nn.Module) -> list[Folded]:
    return [part for part in network.modules() if isinstance(part, Folded)]


@torch.no_grad()
@pytest.mark.parametrize("make", [torchvisions, lambda: zoo.build("resnet:20", (3, 16, 16), 10)])
def test_says_the_same_with_nothing_between_convolutions(make) -> None:
    network, images = trained(make()), torch.rand(9, 3, 16, 16)
    convolutions = sum(isinstance(part, nn.Conv2d) for part in network.modules())
    before = network(images)
    copy = folded(network)
    assert copy is not None
    assert len(steps(copy)) >= convolutions - 2  # of two blocks the convolution beside is not used, or is beside
    left = [part for part in copy.modules() if isinstance(part, nn.BatchNorm2d | nn.ReLU)]
    assert not left
    assert torch.allclose(copy(images), before, atol=1e-5)
    assert torch.equal(network(images), before)  # the network itself is as it was


@torch.no_grad()
def test_what_somebody_else_sees_stays() -> None:
    """An answer that two parts use is not changed for both."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.output = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(8, 3)

        def forward(self, images: Tensor) -> Tensor:
            plain = self.norm(self.conv(images))
            both = torch.cat([F.relu(plain).mean((2, 3)), plain.mean((2, 3))], 1)
            logits: Tensor = self.output(both)
            return logits

    network, images = trained(Twice()), torch.rand(5, 3, 16, 16)
    copy = folded(network)
    assert copy is not None
    assert [step.cuts for step in steps(copy)] == [False]
    assert torch.allclose(copy(images), network(images), atol=1e-6)


@torch.no_grad()
def test_a_shortcut_of_another_shape_is_added_as_it_was() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.shift = nn.Conv2d(3, 4, 3), nn.Parameter(torch.randn(4, 1, 1))

        def forward(self, images: Tensor) -> Tensor:
            return torch.relu(self.conv(images) + self.shift).mean((2, 3))

    network, images = Shifted().eval(), torch.rand(5, 3, 16, 16)
    copy = folded(network)
    assert copy is not None
    assert torch.allclose(copy(images), network(images), atol=1e-6)


def test_none_where_nothing_can_be_told_or_gained() -> None:
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, images: Tensor) -> Tensor:
            made: Tensor = self.norm(self.conv(images)) if images.mean() > 0.5 else self.conv(images)
            return made.mean((2, 3))

    assert folded(Looks().eval()) is None
    assert folded(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()) is None
    assert folded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()).eval()) is None
    watched = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    watched[0].register_forward_hook(lambda *_: None)
    assert folded(watched.eval()) is None
    assert folded(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train()) is None


@torch.no_grad()
def test_on_a_cpu_searches_ask_the_network_itself() -> None:
    basket = Basket({"a": trained(torchvisions())}, classes="abcd", preprocess="inside")
    images = torch.rand(20, 3, 16, 16)
    assert torch.equal(basket.judge(images, ["a"], "folded"), basket.judge(images, ["a"]))


@torch.no_grad()
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("rows", [20, 700])
def test_on_a_gpu_searches_ask_a_copy_that_says_the_same(rows: int) -> None:
    network = trained(zoo.build("resnet:20", (3, 16, 16), 10))
    basket = Basket({"a": network}, classes="abcdefghij", preprocess="inside", device="cuda")
    images = torch.rand(rows, 3, 16, 16, device="cuda")
    plain = basket.judge(images)
    for _ in range(12):  # few images are soon asked about by a recorded graph
        assert torch.allclose(basket.judge(images, ["a"], "folded"), plain, atol=1e-4)
    copy = basket._answering.copies["a", "folded"]
    assert copy is not None
    assert steps(copy)
    assert torch.equal(basket.judge(images), plain)
