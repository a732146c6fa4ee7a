"""The opening of a run: accuracy, and what a network near chance suffers from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from foible import Basket
from foible.basket.accuracy import Accuracy, answers, hints, tell

CLASSES = tuple("abcdefgh")


class Bars(nn.Module):
    """The class is where the bright bar is; pixels are expected on some scale, and its list may be turned."""

    def __init__(self, shift: int = 0, top: float = 1.0) -> None:
        super().__init__()
        self.shift, self.top = shift, top

    def forward(self, images: Tensor) -> Tensor:
        bars = images.mean((1, 2)).roll(self.shift, 1) / self.top
        return torch.where(bars > 0.2, bars, 0.0)  # deaf to anything darker than it was trained on


def task(count: int = 160) -> tuple[Tensor, Tensor]:
    labels = torch.arange(count) % len(CLASSES)
    images = torch.zeros(count, 1, 8, 8, dtype=torch.uint8)
    images[torch.arange(count), :, :, labels] = 200
    return images, labels


def counted(**networks: nn.Module) -> tuple[Basket, Accuracy, Tensor, Tensor]:
    basket = Basket(networks, classes=CLASSES, preprocess="inside")
    images, labels = task()
    clean = Accuracy(basket.names, basket.classes)
    clean.add(answers(basket.predict(images)), labels)
    return basket, clean, images, labels


def test_accuracy_and_its_interval() -> None:
    _, clean, _, _ = counted(good=Bars(), turned=Bars(3))
    rows = clean.rows()
    assert (rows["good"]["right"], rows["good"]["n"], rows["good"]["near_chance"]) == (160, 160, False)
    assert rows["good"]["low"] < 1.0 == rows["good"]["high"]
    assert rows["turned"]["near_chance"]
    assert rows["turned"]["chance"] == pytest.approx(1 / 8)


def test_a_class_list_in_another_order_is_recognised() -> None:
    basket, clean, images, labels = counted(good=Bars(), turned=Bars(3))
    said = hints(basket, clean, images, labels)
    assert set(said) == {"turned"}
    assert "another order it would score 100 %" in said["turned"]


def test_pixels_on_the_wrong_scale_are_recognised() -> None:
    basket, clean, images, labels = counted(good=Bars(), bytes=Bars(top=255.0))
    said = hints(basket, clean, images, labels)
    assert set(said) == {"bytes"}
    assert "scale=255" in said["bytes"]


def test_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    basket, clean, images, labels = counted(good=Bars(), turned=Bars(3))
    tell(clean, ["4 images are left out"], hints(basket, clean, images, labels))
    said = capsys.readouterr().err
    assert "good: 100.0 % (97.7–100.0)" in said
    assert "4 images are left out" in said
    assert said.count("WARNING: near chance") == 1


def test_answers_that_are_no_numbers() -> None:
    inf = torch.inf
    logits = torch.tensor([[[0.0, 1.0], [torch.nan, 1.0], [inf, inf], [-inf, -inf], [0.0, inf], [-inf, 0.0]]])
    assert answers(logits).tolist() == [[1, -1, -1, -1, -1, 1]]
