"""Seeds on demand: images are judged until there are enough, each is used once, and the same seed gives the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.testing import CLASSES, SHAPE, Counting, blobs, linear_network

COUNT = 20_000


@pytest.fixture(scope="module")
def many() -> Dataset:
    """Images of which about two thirds are right under all networks."""
    generator, labels = torch.Generator().manual_seed(0), torch.arange(COUNT) % CLASSES
    images = 0.75 * blobs()[labels] + 0.25 * torch.rand(COUNT, 1, 1, 1, generator=generator) * blobs()[labels]
    wrong = torch.rand(COUNT, generator=generator) < 1 / 3
    told = torch.where(wrong, (labels + 1) % CLASSES, labels)
    return Dataset("many", "train", (images * 255).round().to(torch.uint8), told, ("0", "1", "2"), ())


class Noting:
    """A basket that counts what its networks are shown before the first search."""

    def __init__(self) -> None:
        self.networks = {name: Counting(linear_network(i)) for i, name in enumerate("ABC")}
        self.basket = Basket(self.networks, classes=("0", "1", "2"), preprocess="inside", shape=SHAPE, copies=False)
        self.before = 0

    def search(self, *args: Any, **options: Any) -> Any:
        self.before = self.before or sum(self.networks["A"].calls)
        return foible.hill_climb(*args, patience=5, **options)


def test_a_short_hunt_judges_few_of_many_images(many: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    noting = Noting()
    found = foible.hunt(
        noting.basket, many, suspect="A", trials=100, search=noting.search, realism="none", shrink=False
    )
    assert len(found) == 100
    assert 100 <= noting.before <= 400
    assert len(set(found.column("origin_index"))) == 100  # without replacement
    told = capsys.readouterr().err
    assert "Accuracy on" in told
    assert f"Accuracy on {COUNT}" not in told


def test_ten_trials_need_no_more_than_ten_seeds(many: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    noting = Noting()
    foible.hunt(noting.basket, many, suspect="A", trials=10, search=noting.search, realism="none", shrink=False)
    assert "Accuracy on 64 clean images" in capsys.readouterr().err


def test_all_are_judged_where_that_is_asked_for(many: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    few, all_of_them = (
        foible.hunt(
            Noting().basket, many, suspect="A", trials=70, search="hill-climb?patience=5", judge_all=judge_all
        ).table.drop_columns(["versions"])
        for judge_all in (False, True)
    )
    assert few.equals(all_of_them)  # it tells more, and changes nothing
    assert f"Accuracy on {COUNT} clean images" in capsys.readouterr().err


def test_more_trials_begin_with_the_same(many: Dataset) -> None:
    def origins(trials: int, seed: int = 0) -> list[int]:
        options: dict[str, Any] = {"search": "hill-climb?patience=1", "shrink": False, "realism": "none", "quiet": True}
        return foible.hunt(Noting().basket, many, suspect="A", trials=trials, seed=seed, **options).column(
            "origin_index"
        )

    assert origins(200)[:100] == origins(100)
    assert origins(100, seed=1) != origins(100)


def test_round_again_only_when_all_are_used(many: Dataset) -> None:
    small = Dataset("small", "train", many.images[:90], many.labels[:90], many.classes, ())
    found = foible.hunt(
        Noting().basket, small, suspect="A", trials=150, search="hill-climb?patience=1", shrink=False, quiet=True
    )
    counts = torch.bincount(torch.tensor(found.column("origin_index")))
    assert set(counts[counts > 0].tolist()) <= {150 // int((counts > 0).sum()), 150 // int((counts > 0).sum()) + 1}


def test_a_distortion_judges_few_too(many: Dataset) -> None:
    noting = Noting()
    seen: list[int] = []

    def method(*args: Any, **options: Any) -> Any:
        seen.append(sum(noting.networks["B"].calls))
        return foible.closest(*args, **options)

    assert (
        len(foible.distort(noting.basket, many, source="A", images=50, split="train", method=method, quiet=True)) == 50
    )
    assert seen[0] <= 400
