"""The opening of a run: accuracy, and what a network near chance suffers from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from foible import Basket
from foible.basket.accuracy import Accuracy, answers, diagnoses, hints, tell

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


@pytest.mark.parametrize(("right", "near"), [(57, False), (52, True), (50, True)])
def test_few_images_of_unequal_classes_accuse_no_good_network(right: int, near: bool) -> None:
    """50 of 64 are of one class: with 57 right it knows more than that, with 52 nobody can tell."""
    clean = Accuracy(("A",), ("a", "b"))
    labels = (torch.arange(64) >= 50).long()
    clean.add(torch.where(torch.arange(64) < right, labels, 1 - labels)[None], labels)
    assert clean.rows()["A"]["near_chance"] == near


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
    hints(basket, clean, images, labels)
    tell(clean, ["4 images are left out"])
    said = capsys.readouterr().err
    assert "good: 100.0 % (97.7–100.0)" in said
    assert "4 images are left out" in said
    assert said.count("WARNING: near chance") == 1


def test_answers_that_are_no_numbers() -> None:
    inf = torch.inf
    logits = torch.tensor([[[0.0, 1.0], [torch.nan, 1.0], [inf, inf], [-inf, -inf], [0.0, inf], [-inf, 0.0]]])
    assert answers(logits).tolist() == [[1, -1, -1, -1, -1, 1]]


def test_an_order_that_fits_one_image_of_each_class_is_not_believed() -> None:
    clean = Accuracy(("A",), tuple(map(str, range(40))))
    clean.add((torch.arange(40) * 7 % 40)[None], torch.arange(40))
    assert clean.rows()["A"]["near_chance"]
    assert clean.reordered("A") == 0
    for _ in range(4):
        clean.add((torch.arange(40) * 7 % 40)[None], torch.arange(40))
    assert clean.reordered("A") == 1


def test_the_diagnosis_goes_with_the_figures() -> None:
    clean = Accuracy(("good", "bad"), ("a", "b"))
    clean.add(torch.stack([torch.arange(40) % 2, torch.zeros(40, dtype=torch.int64)]), torch.arange(40) % 2)
    clean.advice = {"bad": "With scale=255 it gets more."}
    assert clean.rows()["bad"]["hint"] == "With scale=255 it gets more."
    assert diagnoses(clean) == [
        "bad gets 50.0 % of 40 images right, near chance (50.0 %): are these the classes and preprocessing that it was "
        "trained with? With scale=255 it gets more."
    ]
