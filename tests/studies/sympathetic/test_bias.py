"""Biases: one that was planted is found where it was planted, and without one the test is silent."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn

import foible
from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.findings import Findings
from foible.networks.heads import Features, fit
from foible.recipes.explain.bias import biases, changes_of, stands_out, told

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
def runs() -> tuple[Findings, Findings]:
    """A classifier that learnt from marked digits: its mistakes on plain ones, and marked ones driven elsewhere."""
    train, test = load("digits", "train", quiet=True), load("digits", "test", quiet=True)
    learnt, generator = marked(train), Principal(marked(train))
    head, _ = fit(Features(learnt.floats().flatten(1), learnt.labels), 10, epochs=20)
    network = nn.Sequential(nn.Flatten(), head)
    basket = Basket({"linear": network}, classes=train.classes, preprocess="inside", shape=(1, 28, 28))
    how = {"generator": generator, "effort": 0, "steps": 100, "quiet": True, "device": "cpu"}
    mistakes = foible.explain(basket, test, images=60, **how)
    return mistakes, foible.explain(basket, marked(test), to="each", images=12, **how)


def test_a_planted_bias_is_found_in_its_corner(runs: tuple[Findings, Findings]) -> None:
    found = {one.name: one for one in biases(*runs, permutations=300)}
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
    line = next(one for one in told(list(found.values())) if one["group"] == "7")
    assert all(1 <= place < 6 for place in line["place"])


def test_maps_are_those_of_the_images(runs: tuple[Findings, Findings]) -> None:
    found = changes_of(runs[0])
    assert not found.driven.any()
    assert changes_of(runs[1]).driven.all()
    assert (found.was != found.aim).all()
    assert found.change.abs().amax((1, 2)).min() > 0


def test_both_groups_are_needed(runs: tuple[Findings, Findings]) -> None:
    with pytest.raises(UserError, match="--to each"):
        biases(runs[0])
    with pytest.raises(UserError, match="--to each"):
        biases(runs[1], runs[1])


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
