"""`foible study sympathetic` and `foible study traits`, tiny; and their parts by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pictures import check_figure
from torch import nn

from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.spaces import Latent
from foible.studies import run_study
from foible.studies.sympathetic import pixels, plane, study, traits
from foible.studies.sympathetic.mending import Descent, Images, mend, nearest, route
from foible.studies.sympathetic.parts import Case, OnEncoder
from foible.studies.sympathetic.success import PAPER, success_rows

TINY = {
    "sizes": "2 10", "mistakes": "6", "others": "2", "steps": "12", "side": "9",
    "images": "0", "networks": "softmax mlp:8",
}  # fmt: skip


class Square:
    """A generator of two dimensions: a 2×2 image whose upper pixels are the code, and the lower ones empty."""

    spec = fingerprint = "square"
    latent, shape = 2, (1, 2, 2)

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, 0, 0]

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        return torch.stack([codes, torch.zeros_like(codes)], 1)[:, None]

    def to(self, _device: object) -> Square:
        return self


class Principal(nn.Module):
    """A generator that takes no training: codes are standardised principal components, and its last hidden layer."""

    spec = fingerprint = "principal"

    def __init__(self, data: Dataset, latent: int) -> None:
        super().__init__()
        flat = data.floats().flatten(1)
        self.latent, self.shape, self.mean = latent, tuple(data.images.shape[1:]), flat.mean(0)
        values, vectors = torch.linalg.eigh(torch.cov(flat.t()))
        self.scale, self.columns = values[-40:].sqrt(), vectors[:, -40:]

    def features(self, images: torch.Tensor) -> torch.Tensor:
        return (images.flatten(1) - self.mean) @ self.columns / self.scale

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        return self.features(images)[:, -self.latent :]

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        drawn = (codes * self.scale[-self.latent :]) @ self.columns[:, -self.latent :].t()
        return (self.mean + drawn).view(-1, *self.shape)


@pytest.fixture
def square() -> Case:
    """Class 1 where the first pixel is above 0.5, class 2 where a lower pixel is, which no code can draw."""
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0, 0, 0, 0], [8.0, 0, 0, 0], [0.0, 0, 0, 8]]))
        layer.bias.copy_(torch.tensor([0.0, -4, -4]))
    basket = Basket({"linear": nn.Sequential(nn.Flatten(), layer)}, classes=("none", "first", "lower"),
                    preprocess="inside", shape=(1, 2, 2))  # fmt: skip
    images = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    test = Dataset("square", "test", images, torch.tensor([1, 1, 2, 0]), basket.classes)
    wrong = Images(test.floats()[:3], test.labels[:3], torch.arange(3))
    said = torch.zeros(4, dtype=torch.int64)
    return Case("2-D, linear", 2, Latent(Square(), step=1.0, reach=8.0), basket, "linear", test, said, wrong, wrong)


def test_known_answers_in_a_plane(square: Case) -> None:
    how = Descent(steps=200, rate=0.02)
    came = mend(square.space, square.basket, "linear", square.wrong, how)
    assert came.found.tolist() == [True, True, False]
    assert (came.distances[:2] >= 0.5).all()  # that is where the class begins
    assert came.changed[0, 0, 0, 0] > 0.5
    assert came.change[0, 0, 1].abs().sum() == 0
    least = nearest(square.space, square.basket, "linear", came, 40)
    assert (least.distances <= came.distances[:2] + 1e-6).all()
    assert torch.allclose(least.distances, torch.tensor(0.5), atol=0.01)
    grid = plane.Plane(square, 17)
    failed, there = plane.failures(grid, came, 10)
    assert failed.tolist() == [2]
    assert there.tolist() == [False]  # no code draws what class 2 needs: absent, and no local minimum
    assert plane.present(grid, square.wrong).tolist() == [True, True, False]
    assert [row.measured for row in plane.failure_rows("mistakes", there)] == [100, 0]


def test_what_is_mended_unclipped_need_not_be_mended_as_a_png(square: Case) -> None:
    """Class 1 begins at 1.2 here, which no PNG holds."""
    with torch.no_grad():
        square.basket.network("linear")[1].bias[1] = -8 * 1.2  # type: ignore[index, union-attr]
    how = Descent(steps=80, rate=0.1, png=False)
    came = mend(square.space, square.basket, "linear", square.wrong, how)
    assert came.found.tolist() == [True, True, False]
    assert came.changed[0, 0, 0, 0] > 1.2
    rows = success_rows("a table", square, came, png=False)
    assert [row.measured for row in rows[::2]] == [pytest.approx(200 / 3), 0]
    held = mend(square.space, square.basket, "linear", square.wrong, dataclasses.replace(how, png=True))
    assert not held.found.any()


def test_a_way_goes_on_after_the_class_is_right(square: Case) -> None:
    how = Descent(steps=200, rate=0.1)
    places = route(square.space, square.basket, "linear", square.wrong[torch.tensor([0])], how, [0, 1, 5, 50])
    first = places[:, 0, 0]
    assert first[0] == 0
    assert (first.diff() > 0).all()
    assert first[-1] > 0.6


def test_where_a_change_is_by_hand() -> None:
    maps = torch.zeros(2, 10, 10)
    maps[0, 0, 0], maps[1] = 1, 1
    assert pixels.area(maps).tolist() == pytest.approx([0.01, 0.9], abs=0.011)
    images = torch.zeros(2, 1, 10, 10)
    images[:, 0, 0, 0] = 1
    assert pixels.on_ink(maps, images).tolist() == pytest.approx([1, 0.09])  # 3×3 pixels are on it or beside it
    one = torch.rand(3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert pixels.correlation(one, 3 * one + 2).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert pixels.correlation(one, -one).tolist() == pytest.approx([-1, -1, -1], abs=1e-5)


def test_a_slope_of_the_right_class(square: Case) -> None:
    assert pixels.saliency(square, square.wrong)[0].tolist() == [[8, 0], [0, 0]]
    assert not square.wrong.images.requires_grad


def read(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    result = json.loads((out / "result.json").read_text("utf-8"))
    return {(row["table"], row["quantity"]): row for row in result["rows"]}


def test_the_study_writes_every_table_and_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = load("digits", "train", quiet=True)
    monkeypatch.setattr(study, "generator_for", lambda latent, *_, **__: Principal(train, latent))
    result = run_study("sympathetic", data="digits", out=tmp_path, device="cpu", quiet=True, options=TINY)
    rows = read(tmp_path)
    for (table, size), (share, far) in PAPER.items():
        assert rows[table, f"{size}-D, head, unclipped: reached, %"]["paper"] == share
        assert rows[table, f"{size}-D, head, unclipped: mean ‖e‖ of those"]["paper"] == far
    assert rows[next(iter(PAPER))[0], "10-D, head, unclipped: reached, %"]["n"] == 6
    adversarial = [row for (table, what), row in rows.items() if "adversarial" in table and "reached, %" in what]
    assert {row["n"] for row in adversarial if row["paper"]} == {18}  # 2 images, each to the 9 other classes
    words = " ".join(table for table, _ in rows)
    for part in ("steps", "Smaller", "closest", "Restarts", "sizes", "cause", "g(z)", "Where", "second", "accept"):
        assert part in words, part
    nearer = [row["measured"] for (_, what), row in rows.items() if "closest ÷ first" in what]
    assert all(0 < value <= 1.001 for value in nearer if value is not None)
    for stem in result.figures:
        check_figure(tmp_path, stem)
    assert {"figure2-3", "figure5", "figure7-8", "steps"} <= set(result.figures)


def test_a_generator_of_another_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no generator"):
        run_study("sympathetic", data="digits", out=tmp_path, quiet=True, options=TINY | {"generator2": "nothing"})


def test_a_classifier_on_an_encoder_leaves_it_alone() -> None:
    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Linear(3, 2)

        def features(self, images: torch.Tensor) -> torch.Tensor:
            return self.encoder(images.flatten(1))

    network, images = OnEncoder(Coder(), nn.Identity()), torch.rand(2, 3, 1, 1)
    assert torch.equal(network(images), network.coder.features(images))


def test_traits_of_two_classes_and_of_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traits, "train_generator", lambda _, data, **__: Principal(data, 10))
    digits = {split: load("digits", split, quiet=True) for split in ("train", "test")}
    arrays = {f"x_{split}": one.images[:, :, ::2, ::2].numpy() for split, one in digits.items()}
    arrays |= {f"y_{split}": (one.labels % 2).numpy() for split, one in digits.items()}
    np.savez(tmp_path / "odd.npz", classes=np.array(["even", "odd"]), **arrays)
    options = {"images": "600", "mistakes": "6", "steps": "20", "network": "softmax"}
    out = tmp_path / "out"
    run_study("traits", data=f"npz:{tmp_path / 'odd.npz'}", out=out, device="cpu", quiet=True, options=options)
    rows = read(out)
    assert rows["Mistakes mended, by trait (Table 1)", "odd, unclipped: mended, %"]["n"] == 6
    check_figure(out, "figure6")
    with pytest.raises(UserError, match="has no trait 'eleven': it has 0, 1"):
        run_study("traits", data="digits", out=tmp_path / "no", quiet=True, options={"traits": "eleven"})
