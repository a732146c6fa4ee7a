"""Biases: one that was planted is found where it was planted, and without one the test is silent."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import foible
from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.findings import Findings
from foible.networks.heads import Features, fit
from foible.recipes.explain.bias import Changes, as_changes, biases, changes_of, compared, stands_out, told
from foible.recipes.explain.control import CONTROL, control_of
from foible.recipes.explain.summary import summarise
from foible.recipes.export import export
from foible.report import write_report

CORNER = slice(1, 6)


class Principal:
    """A linear generator: codes are standardised principal components."""

    spec = fingerprint = "principal"

    def __init__(self, data: Dataset, latent: int = 20) -> None:
        flat = data.floats().flatten(1)
        self.latent, self.shape, self.mean = latent, tuple(data.images.shape[1:]), flat.mean(0)
        values, vectors = torch.linalg.eigh(torch.cov(flat.t()))
        self.columns = vectors[:, -latent:] * values[-latent:].sqrt()

    def encode(self, images: Tensor) -> Tensor:
        return (images.flatten(1) - self.mean) @ torch.linalg.pinv(self.columns).t()

    def decode(self, codes: Tensor) -> Tensor:
        return (self.mean + codes @ self.columns.t()).view(-1, *self.shape)

    def to(self, _device: object) -> Principal:
        return self


def marked(data: Dataset) -> Dataset:
    """Every 7 carries a bright mark in the corner."""
    images = data.images.clone()
    images[data.labels == 7, :, CORNER, CORNER] = 255
    return dataclasses.replace(data, images=images, name="marked")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that learnt from marked digits, and the run that explains its mistakes on plain ones."""
    train, test = load("digits", "train", quiet=True), load("digits", "test", quiet=True)
    learnt, generator = marked(train), Principal(marked(train))
    head, _ = fit(Features(learnt.floats().flatten(1), learnt.labels), 10, epochs=20)
    basket = Basket(
        {"linear": nn.Sequential(nn.Flatten(), head)}, classes=train.classes, preprocess="inside", shape=(1, 28, 28)
    )
    out = tmp_path_factory.mktemp("bias") / "run"

    def go(data: Dataset = test, **options: Any) -> Findings:
        how = {"images": 60, "effort": 0, "steps": 100, "quiet": True, "device": "cpu"} | options
        return foible.explain(basket, data, generator=generator, **how)

    go(out=out)
    AGAIN.append(go)
    return out


AGAIN: list[Callable[..., Findings]] = []  # what made the run


def test_a_planted_bias_is_found_in_its_corner(run: Path) -> None:
    right = control_of(run)
    assert right is not None
    found = {one.name: one for one in biases(Findings.open(run), right, permutations=300)}
    sevens = found["7"]
    assert sevens.count >= 10
    inside = torch.zeros(28, 28, dtype=torch.bool)
    inside[CORNER, CORNER] = True
    assert sevens.least < 0.01
    assert (torch.from_numpy(sevens.p)[inside] < 0.01).all()  # the whole mark, and few pixels besides
    assert (torch.from_numpy(sevens.p)[~inside] < 0.05).float().mean() < 0.05
    heat = torch.from_numpy(sevens.mistakes)
    assert heat[inside].mean() > 5 * heat[~inside].mean()
    assert torch.from_numpy(sevens.signed)[inside].min() > 0  # light is added there
    assert torch.from_numpy(sevens.right)[inside].mean() < heat[inside].mean()
    assert any(name.endswith("→ 7") for name in found)
    lines = {one["group"]: one for one in told(list(found.values()))}
    assert all(1 <= place < 6 for place in lines["7"]["place"])
    assert lines["7"]["stands_out"]
    assert lines["7"]["share"] > 4 * lines["7"]["share_right"]
    assert not any(one["stands_out"] for name, one in lines.items() if name != "all" and not name.endswith("7"))


def text_of(run: Path) -> str:
    return re.sub("<[^>]*>", "", write_report(run).read_text())


def test_the_page_says_so(run: Path, tmp_path: Path) -> None:
    page = text_of(run)
    assert "mended at a place of" in page
    assert "any → 7: stands out" in page
    assert "any → 8: stands out" not in page
    assert page.count("right images of") >= 3
    plain = tmp_path / "plain"
    shutil.copytree(run, plain)
    (plain / CONTROL).unlink()
    assert ": stands out" not in text_of(plain)
    (plain / CONTROL).write_bytes(b"no table")
    assert "no right images were driven" in text_of(plain)


def test_right_images_are_driven_to_their_runner_up_and_count_nowhere(run: Path, tmp_path: Path) -> None:
    mistakes, right = Findings.open(run), control_of(run)
    assert right is not None
    told = summarise(run)
    assert told["images"] == len(mistakes) == len(right) == len(load_wrong(mistakes))
    assert told["to"] == "truth"
    for row in right:
        answers = np.asarray(row["before"][0])
        assert int(answers.argmax()) == row["truth"]
        assert row["target"] == int(np.argsort(answers)[-2])
        assert row["least_image"] is None
    export(run, "folder", tmp_path / "pngs")
    assert len(list((tmp_path / "pngs").rglob("*.png"))) == told["mended"]
    [again] = AGAIN
    before = (run / CONTROL).read_bytes()
    again(out=run)  # what is there stays
    assert (run / CONTROL).read_bytes() == before
    (run / CONTROL).unlink()
    again(out=run)  # what is missing is made again, the same
    assert (run / CONTROL).read_bytes() == before
    again(out=tmp_path / "none", control=0)
    assert not (tmp_path / "none" / CONTROL).exists()
    found = load("digits", "test", quiet=True)
    wrong = torch.tensor(mistakes.column("origin_index"))
    only = Dataset("only", "test", found.images[wrong], found.labels[wrong], found.classes)
    again(only, out=tmp_path / "only")  # nothing is right here
    assert not (tmp_path / "only" / CONTROL).exists()


def load_wrong(mistakes: Findings) -> list[int]:
    return [row["truth"] for row in mistakes if row["target"] is None and np.argmax(row["before"][0]) != row["truth"]]


def test_maps_are_those_of_the_images(run: Path) -> None:
    right = control_of(run)
    assert right is not None
    found = changes_of(Findings.open(run))
    assert not found.driven.any()
    assert changes_of(right).driven.all()
    assert (found.was != found.aim).all()
    assert found.change.abs().amax((1, 2)).min() > 0
    large = np.zeros((3, 200, 100), np.float32)
    large[:, :100] = 1
    rows = [{"before": [[0.2, 0.8]], "truth": 0, "target": None}] * 3
    assert as_changes(rows, list(large)).change.shape == (3, 64, 32)
    assert as_changes(rows, list(large)).change.mean() == pytest.approx(0.5)


def test_a_group_is_compared_with_right_images_of_its_own_class() -> None:
    """Strokes of class 1 lie elsewhere than those of class 0: that is no bias."""
    draw = torch.Generator().manual_seed(0)
    change = torch.rand(120, 4, 4, generator=draw)
    truth = torch.arange(120) % 2
    change[truth == 1, :2] *= 4
    driven = torch.arange(120) >= 60
    was = torch.where(driven, truth, 1 - truth)
    whole = Changes(change, was, torch.where(driven, 1 - truth, truth), driven)
    made = {one.name: one for one in compared(whole[~driven], whole[driven], ["a", "b"], permutations=200)}
    assert made["b"].alike
    assert made["b"].others == 30
    assert made["b"].least > 0.05
    few = whole[driven][torch.arange(60) % 2 == 0]  # none of class b: all are taken, and the strokes stand out
    made = {one.name: one for one in compared(whole[~driven], few, ["a", "b"], permutations=200)}
    assert not made["b"].alike
    assert made["b"].least < 0.05


def test_both_groups_are_needed(run: Path) -> None:
    right = control_of(run)
    with pytest.raises(UserError, match="--to runner-up"):
        biases(Findings.open(run))
    assert right is not None
    with pytest.raises(UserError, match="--to runner-up"):
        biases(right, right)


def test_the_permutation_test_is_silent_without_a_difference_and_hears_one_pixel() -> None:
    draw = torch.Generator().manual_seed(0)
    silent = [
        float(stands_out(*torch.rand(60, 100, generator=draw).split((20, 40)), permutations=200).min())
        for _ in range(40)
    ]
    assert sum(p <= 0.05 for p in silent) <= 6  # 2 are expected
    assert sum(p <= 0.5 for p in silent) >= 10  # 20 are expected: p is no smaller and no larger than it says
    group, others = torch.rand(60, 100, generator=draw).split((20, 40))
    group[:, 17] += 0.5
    p = stands_out(group, others, permutations=200)
    assert p[17] < 0.01
    assert p[torch.arange(100) != 17].min() > 0.05
    assert torch.equal(p, stands_out(group, others, permutations=200))
    constant = torch.zeros(10, 4)
    assert stands_out(constant, constant, permutations=20).tolist() == [1, 1, 1, 1]
