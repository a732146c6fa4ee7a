"""Networks asked in bfloat16: copies that are rounded once, and never what judges in float32."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.folded import Folded, folded
from foible.basket.quick import Quick
from foible.networks import zoo


def _network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)]
    return nn.Sequential(*layers).eval()


def _basket(**networks: Any) -> Basket:
    return Basket(networks, classes=list("abcde"), preprocess="inside")


class Awkward(nn.Module):
    """Cannot be copied: what it holds cannot be."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = _network()
        self.held = (one for one in range(3))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(images)
        return logits


class Strict(nn.Module):
    """Takes its own weights in hand, outside of what autocast knows of."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, 5)

    def forward(self, images: Tensor) -> Tensor:
        if self.layer.weight.dtype != torch.float32:
            raise TypeError("I count on float32")
        return images.flatten(1) @ self.layer.weight.t()


@torch.no_grad()
def test_a_copy_answers_nearly_as_the_network_and_leaves_it_alone() -> None:
    basket, images = _basket(A=_network()), torch.rand(20, 3, 8, 8)
    exact = basket.judge(images)
    near = basket.judge(images, precision="bf16")
    assert near.dtype == torch.float32
    assert not torch.equal(near, exact)
    assert torch.allclose(near, exact, atol=0.05)
    assert torch.equal(basket.judge(images), exact)
    weights = dict(basket.network("A").state_dict())  # type: ignore[union-attr]
    assert {value.dtype for name, value in weights.items() if "num" not in name} == {torch.float32}


@torch.no_grad()
def test_weights_are_rounded_once_and_statistics_are_not() -> None:
    basket, images = _basket(A=_network()), torch.rand(20, 3, 8, 8)
    for _ in range(3):
        basket.judge(images, precision="bf16")
    quick = basket._answering.copies["A", "bf16"]
    assert quick is not None
    kinds = {type(part): part.weight.dtype for part in quick.modules() if hasattr(part, "weight")}
    assert kinds == {nn.Conv2d: torch.bfloat16, nn.Linear: torch.bfloat16, nn.BatchNorm2d: torch.float32}
    basket.judge(images, precision="bf16")
    assert basket._answering.copies["A", "bf16"] is quick
    assert basket.only(["A"])._answering.copies["A", "bf16"] is quick, "units of a run share it"


@torch.no_grad()
@pytest.mark.parametrize("kind", [Strict, Awkward])
def test_what_cannot_be_copied_is_asked_itself(kind: type[nn.Module]) -> None:
    basket = Basket({"A": kind()}, classes=list("abcde"), preprocess="inside", copies=kind is Strict)
    images = torch.rand(20, 3, 8, 8)
    exact = basket.judge(images)
    assert torch.allclose(basket.judge(images, precision="bf16"), exact, atol=0.05)
    assert basket._answering.copies == {("A", "bf16"): None}


@torch.no_grad()
def test_a_plain_function_is_asked_itself() -> None:
    inner, seen = _network(), list[torch.dtype]()

    def network(images: Tensor) -> Tensor:
        logits: Tensor = inner(images)
        seen.append(logits.dtype)
        return logits

    basket = _basket(A=network)
    for precision in ("float32", "bf16"):
        basket.judge(torch.rand(20, 3, 8, 8), precision=precision)  # type: ignore[arg-type]
    assert seen == [torch.float32, torch.bfloat16]


def test_slopes_go_through_a_copy() -> None:
    basket, images = _basket(A=_network()), torch.rand(20, 3, 8, 8)
    slopes = []
    for precision in ("float32", "bf16"):
        shown = images.clone().requires_grad_()
        basket.judge(shown, precision=precision)[0, :, 0].sum().backward()  # type: ignore[arg-type]
        assert shown.grad is not None
        slopes.append(shown.grad)
    assert basket._answering.copies["A", "bf16"] is not None
    assert float((slopes[0] - slopes[1]).norm() / slopes[0].norm()) < 0.2


@torch.no_grad()
@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"))],
)
def test_what_stands_behind_a_convolution_is_rounded_with_it(device: str) -> None:
    network = zoo.build("resnet:14,width=8", (3, 16, 16), 5)
    torch.manual_seed(0)
    for _ in range(3):
        network.train()(torch.rand(32, 3, 16, 16))
    network, images = network.eval().to(device), torch.rand(200, 3, 16, 16).to(device)
    exact, whole = network(images), folded(network)
    assert whole is not None
    quick = Quick(whole)
    kinds = {part.weight.dtype for part in quick.modules() if isinstance(part, Folded)}
    assert kinds == {torch.bfloat16}
    near = quick(images).float()
    assert not torch.equal(near, exact)
    assert torch.allclose(near, exact, atol=0.02 * float(exact.abs().max()))
    assert whole(images).dtype == torch.float32
    assert torch.allclose(whole(images), exact, atol=1e-4)
