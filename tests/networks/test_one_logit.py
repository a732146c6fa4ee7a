"""One output node counts as two classes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.errors import UserError
from foible.networks.one_logit import two_classes


def network() -> nn.Sequential:
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, -1.0]]))
        layer.bias.fill_(-0.5)
    return nn.Sequential(nn.Flatten(), layer)


def points(n: int) -> Tensor:
    return torch.rand(n, 2, 1, 1, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("n", [1, 5, 40])
def test_its_logit_is_the_log_odds_of_the_second_class(n: int) -> None:
    basket = Basket({"A": network()}, classes=("red", "black"), preprocess="inside")
    images = points(n)
    z = 3 * images[:, 0, 0, 0] - images[:, 1, 0, 0] - 0.5
    logits = basket.judge(images)[0]
    assert logits.shape == (n, 2)
    assert torch.allclose(logits.softmax(1)[:, 1], z.sigmoid(), atol=1e-6)
    assert torch.equal(logits.argmax(1), (z > 0).long())
    assert torch.equal(basket.predict(images)[0].argmax(1), (z > 0).long())


def test_a_flat_answer_will_do_and_stands_beside_two_nodes() -> None:
    flat = lambda images: network()(images)[:, 0]  # noqa: E731
    both = nn.Sequential(nn.Flatten(), nn.Linear(2, 2))
    basket = Basket({"A": network(), "B": flat, "C": both}, classes=("red", "black"), preprocess="inside")
    one, other, two = basket.judge(points(20))
    assert torch.equal(one, other)
    assert torch.allclose(two, both(points(20)), atol=1e-6)


def test_classes_in_another_order_meet_by_name() -> None:
    basket = Basket(
        {"A": network(), "B": network()},
        classes={"A": ("red", "black"), "B": ("black", "red")},
        preprocess="inside",
    )
    one, other = basket.judge(points(20))
    assert torch.equal(one, other.flip(1))


def test_gradients_pass() -> None:
    basket = Basket({"A": network()}, classes=("red", "black"), preprocess="inside")
    images = points(16).requires_grad_()
    (slope,) = torch.autograd.grad(basket.judge(images)[0, :, 1].sum(), images)
    assert torch.allclose(slope[:, :, 0, 0], torch.tensor([3.0, -1.0]).expand(16, 2))


def test_more_classes_still_need_as_many_nodes() -> None:
    basket = Basket({"A": network()}, classes=("red", "black", "white"), preprocess="inside")
    with pytest.raises(UserError, match="gives 1 numbers an image, its list has 3 classes"):
        basket.judge(points(3))


def test_what_is_no_single_logit_is_left_alone() -> None:
    two = torch.zeros(4, 2)
    assert two_classes(two, 4) is two
    assert two_classes("text", 4) == "text"
    assert two_classes(torch.zeros(3, 1), 4).shape == (3, 1)  # type: ignore[attr-defined]
