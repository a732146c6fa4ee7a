"""Gradient ascent: the same as the authors' loop written out for one image; and rows that never touch."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.matching import match
from foible.data import Dataset
from foible.errors import UserError
from foible.networks.progress_file import Checkpoint
from foible.search.climb.ascend import KEPT, PRESETS, Ascended, Ascent, ascend, mean_image, starts

SHAPE, CLASSES = (3, 9, 7), 4


def network(seed: int) -> nn.Sequential:
    generator = torch.Generator().manual_seed(seed)
    layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * 9 * 7, 8), nn.Tanh(), nn.Linear(8, CLASSES))
    for weight in layers.parameters():
        nn.init.normal_(weight, std=0.4, generator=generator)
    return layers


@pytest.fixture(scope="module")
def basket() -> Basket:
    return Basket({"A": network(1), "B": network(2)}, classes=list("abcd"), preprocess="inside", shape=SHAPE)


def mean() -> Tensor:
    return torch.linspace(0.2, 0.8, 3 * 9 * 7).view(SHAPE)


def by_hand(module: nn.Module, start: Tensor, aim: int, how: Ascent) -> tuple[np.ndarray[Any, Any], list[float]]:
    """One image, one step at a time, in float64: the loop of the authors' find_fooling_image.py."""
    module = module.double()
    middle = mean().double().numpy()
    at, seen = start.double().numpy() - middle, []
    for step in range(how.steps):
        at = np.clip(at + middle, 0, 1) - middle
        image = torch.tensor(at + middle, requires_grad=True)
        chance = module(image[None]).softmax(1)[0, aim]
        [slope] = (part.numpy() for part in torch.autograd.grad(chance, image))
        seen.append(float(chance.detach()))
        at = at + min(how.early, how.late * (1 - seen[-1])) / (slope**2).sum() * slope
        at = at * (1 - how.decay)
        if how.blur and step % how.blur_every == 0:
            at = np.stack([gaussian_filter(channel, how.blur) for channel in at])
        if how.small_norms:
            norms = np.linalg.norm(at, axis=0)
            at = at * (norms >= np.percentile(norms, 100 * how.small_norms))
        if how.small_contributions:
            gain = np.abs((slope * -at).sum(0))
            at = at * (gain >= np.percentile(gain, 100 * how.small_contributions))
    module.float()
    return np.clip(at + middle, 0, 1), seen


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_the_authors_loop(basket: Basket, name: str) -> None:
    how = replace(PRESETS[name], steps=25)
    aims = torch.tensor([0, 1, 3, 3, 1])  # class 2 has a summit at a third, around which steps are chaotic
    start = starts(mean(), 5, torch.arange(5))
    got = ascend(basket, "A", start, mean(), aims, how, every=1)
    module = network(1)
    for row, aim in enumerate(aims.tolist()):
        image, seen = by_hand(module, start[row], aim, how)
        assert np.allclose(got.trace[:-1, row], seen, atol=2e-4)
        assert np.abs(got.images[row].numpy() / 255 - image).max() < 1.2 / 255
    assert got.steps == tuple(range(26))
    assert float(got.trace[-1].min()) > float(got.trace[0].max())


def test_steps_and_settings_are_those_of_the_figures() -> None:
    assert [PRESETS[name].steps for name in ("plain", "decay", "sparse", "blur")] == [1500, 1500, 1500, 1000]
    assert (PRESETS["decay"].decay, PRESETS["decay"].late, PRESETS["decay"].blur) == (0.01, 0.02, 0)
    assert (PRESETS["blur"].blur, PRESETS["blur"].blur_every, PRESETS["blur"].late) == (0.4, 2, 0.05)
    assert (PRESETS["sparse"].small_norms, PRESETS["sparse"].small_contributions) == (0.2, 0.2)


def test_what_is_told_is_told_of_the_png(basket: Basket) -> None:
    aims = torch.tensor([2, 3])
    got = ascend(basket, "B", starts(mean(), 0, torch.arange(2)), mean(), aims, replace(PRESETS["plain"], steps=40))
    assert got.images.dtype == torch.uint8
    again = basket.judge(got.images / 255, ["B", "A"])
    assert torch.equal(got.logits, again)
    assert torch.allclose(got.confidence, again[0].softmax(1)[[0, 1], aims])
    assert got.steps == (0, 10, 20, 30, 40)
    assert not bool(got.invalid.any())


def test_rows_never_touch(basket: Basket) -> None:
    aims, lanes, how = torch.tensor([0, 1, 2, 3, 0, 1]), torch.arange(6), replace(PRESETS["sparse"], steps=12)
    whole = ascend(basket, "A", starts(mean(), 1, lanes), mean(), aims, how)
    heard: list[int] = []
    parts = ascend(basket, "A", starts(mean(), 1, lanes), mean(), aims, how, width=4, tick=heard.append)
    alone = ascend(basket, "A", starts(mean(), 1, lanes[3:4]), mean(), aims[3:4], how)
    assert heard == [4, 2]
    assert torch.equal(whole.images, parts.images)
    assert torch.equal(whole.images[3:4], alone.images)


class Stopped(BaseException):
    """As a kill, nobody is to catch it."""


class Watched(nn.Module):
    """A network that is asked so often and no more."""

    def __init__(self, most: float) -> None:
        super().__init__()
        self.inner, self.left = network(1), most

    def forward(self, images: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0:
            raise Stopped
        logits: Tensor = self.inner(images)
        return logits


def going(
    kept: Checkpoint | None, most: float = float("inf"), about: str = "this very one", width: int = 2
) -> tuple[Ascended, float]:
    """Three batches of two rows, twelve steps each; and how often the network was asked."""
    one = Basket({"A": Watched(most)}, classes=list("abcd"), preprocess="inside", shape=SHAPE)
    aims, how = torch.tensor([0, 1, 2, 3, 0, 1]), replace(PRESETS["sparse"], steps=12)
    done = ascend(
        one, "A", starts(mean(), 1, torch.arange(6)), mean(), aims, how, width=width, every=5, kept=kept, about=about
    )
    return done, most - one.network("A").left  # type: ignore[union-attr, operator]


def same(one: Ascended, other: Ascended) -> bool:
    parts = ("images", "logits", "confidence", "trace", "invalid")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in parts)


@pytest.mark.parametrize("after", [1, 7, 12, 20, 40])
def test_a_climb_goes_on_from_any_step(after: int, tmp_path: Path) -> None:
    whole, file = going(None)[0], tmp_path / "kept"
    with pytest.raises(Stopped):
        going(Checkpoint(file, 0.0, KEPT), after)
    again, asked = going(Checkpoint(file, 1e9, KEPT), 1000)
    assert same(whole, again)
    assert asked < 42 + 1 - after + 6  # 12 steps and 2 judgements a batch; judgements of whole batches are made again
    ended, asked = going(Checkpoint(file, 1e9, KEPT), 1000)
    assert same(whole, ended)
    assert asked == 6


@pytest.mark.parametrize("width", [1, 3, 6])
@pytest.mark.parametrize("after", [7, 20, 1000])
def test_a_climb_goes_on_in_its_own_batches(after: int, width: int, tmp_path: Path) -> None:
    """On a GPU their width hangs on the memory that is free, which is another the next time."""
    whole, file = going(None)[0], tmp_path / "kept"
    with contextlib.suppress(Stopped):
        going(Checkpoint(file, 0.0, KEPT), after)
    assert same(whole, going(Checkpoint(file, 1e9, KEPT), width=width)[0])


def test_what_is_no_checkpoint_of_this_climb_is_left_aside(tmp_path: Path) -> None:
    whole, file = going(None)[0], tmp_path / "kept"
    going(Checkpoint(file, 1e9, KEPT), about="another")
    assert going(Checkpoint(file, 1e9, KEPT), 1000)[1] == 42
    tensors, record = Checkpoint(file, 1e9, KEPT).read() or ({}, {})
    for wrong in (
        {"image": tensors["image"][:4]},
        {"invalid": tensors["invalid"].int()},
        {"more": tensors["trace"][0].clone()},
    ):
        Checkpoint(file, 0.0, KEPT).write(lambda wrong=wrong: tensors | wrong, record)  # type: ignore[misc]
        again, asked = going(Checkpoint(file, 1e9, KEPT), 1000)
        assert same(whole, again)
        assert asked == 42
    for odd in ({"steps": 37}, {"width": 0}):
        Checkpoint(file, 0.0, KEPT).write(lambda: tensors, record | odd)
        assert going(Checkpoint(file, 1e9, KEPT), 1000)[1] == 42
    file.write_bytes(b"no checkpoint")
    assert same(whole, going(Checkpoint(file, 1e9, KEPT))[0])


def test_starts_are_a_function_of_seed_and_lane() -> None:
    some = starts(mean(), 3, torch.tensor([7, 8]))
    assert torch.equal(starts(mean(), 3, torch.tensor([8])), some[1:])
    assert not torch.equal(starts(mean(), 4, torch.tensor([8])), some[1:])
    assert float((some - mean()).std()) == pytest.approx(1 / 255, rel=0.1)


def test_a_class_that_is_all_but_impossible_is_climbed_too() -> None:
    """Where no float holds the probability's square, it cannot be climbed, and its logarithm can."""
    weight = torch.zeros(2, 4)
    weight[1] = 30.0
    layer = nn.Linear(4, 2)
    layer.load_state_dict({"weight": weight, "bias": torch.tensor([70.0, 0.0])})
    one = Basket({"A": nn.Sequential(nn.Flatten(), layer)}, classes=["a", "b"], preprocess="inside")
    flat = torch.full((1, 2, 2), 0.1)
    got = [
        ascend(one, "A", flat[None], flat, torch.tensor([1]), Ascent(steps=600, late=1.0, early=0.2, climbs=climbs))
        for climbs in ("probability", "log-probability")
    ]
    assert all(bool(one.trace.isfinite().all()) for one in got)
    assert float(got[0].confidence) < 1e-20
    assert float(got[1].confidence) > 0.99


def test_nan_is_an_outcome_of_its_row() -> None:
    class Broken(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            logits = images.flatten(1)[:, :CLASSES] * 3
            return torch.where(images.amax((1, 2, 3))[:, None] > 0.9, torch.nan, logits)

    one = Basket({"A": Broken()}, classes=list("abcd"), preprocess="inside")
    start = torch.full((2, *SHAPE), 0.5)
    start[1, 0, 0, 0] = 0.95
    got = ascend(one, "A", start, torch.full(SHAPE, 0.5), torch.tensor([1, 1]), Ascent(steps=3))
    assert got.invalid.tolist() == [False, True]


def test_what_cannot_be_climbed_is_refused(basket: Basket) -> None:
    start = starts(mean(), 0, torch.arange(1))
    with pytest.raises(UserError, match="aims go from 4 to 4: expected classes, 0 to 3"):
        ascend(basket, "A", start, mean(), torch.tensor([4]), Ascent(steps=1))
    with pytest.raises(UserError, match="1 starts and 2 aims"):
        ascend(basket, "A", start, mean(), torch.tensor([1, 2]), Ascent(steps=1))
    deaf = Basket({"A": lambda images: network(1)(images).detach()}, classes=list("abcd"), preprocess="inside")
    with pytest.raises(UserError, match="'A' gives no gradient"):
        ascend(deaf, "A", start, mean(), torch.tensor([1]), Ascent(steps=1))
    for wrong in ({"decay": 1.0}, {"small_norms": -0.1}, {"steps": 0}, {"late": 0.0}, {"climbs": "up"}, {"blur": -1.0}):
        with pytest.raises(UserError, match=f"{next(iter(wrong))} "):
            Ascent(**wrong)


def test_the_mean_of_the_data(basket: Basket) -> None:
    images = torch.randint(0, 256, (1203, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = Dataset("some", "test", images, torch.zeros(1203, dtype=torch.int64), ("a", "b"))
    matched = match(data, basket)
    assert torch.allclose(mean_image(matched), images.double().mean(0).float() / 255)
    assert torch.allclose(mean_image(matched, 7), images[:7].double().mean(0).float() / 255)
