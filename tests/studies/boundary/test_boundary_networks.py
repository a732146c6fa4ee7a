"""Paper 4's networks: the nine recipes, crowds that are kept as answers, and what is learnt in place of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foible.basket import Basket
from foible.data import load
from foible.errors import UserError
from foible.networks.course import Course
from foible.studies import run_study
from foible.studies.boundary import networks, uncertain
from foible.studies.boundary.networks import RECIPES, Recipe, crowds, nine

BAND: dict[str, Any] = {"within": 0.03, "epochs": 12, "quiet": True}
QUICK = Recipe("mlp:8", rate=0.01)


def test_a_crowd_answers_as_its_networks_do_and_is_trained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = load("digits", "test")
    images = test.images[:40]
    made = crowds("mlp:8", "digits", images, [0.75, 0.85], [0, 1], out=tmp_path, recipe=QUICK, **BAND)
    assert [crowd.target for crowd in made] == [0.75, 0.85]
    for crowd in made:
        assert len(crowd.seeds) + len(crowd.missed) == 2
        assert crowd.logits.shape == (len(crowd.seeds), 40, 10)
        assert (np.abs(crowd.accuracy - crowd.target) <= 0.03 + 1e-9).all()
        right = (crowd.logits.argmax(2) == test.labels[:40].numpy()).mean(1)
        assert (np.abs(right - crowd.accuracy) < 0.25).all()
    monkeypatch.setattr(networks, "fleets", lambda *_, **__: pytest.fail("it was trained again"))
    again = crowds("mlp:8", "digits", images, [0.75, 0.85], [0, 1], out=tmp_path, recipe=QUICK, **BAND)
    for one, other in zip(made, again, strict=True):
        assert (one.seeds, one.missed, one.target) == (other.seeds, other.missed, other.target)
        assert np.array_equal(one.logits, other.logits)
        assert np.array_equal(one.accuracy, other.accuracy)


def test_a_crowd_that_is_killed_goes_on_from_where_it_stood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = load("digits", "test").images[:20]

    def crowd(out: Path) -> networks.Crowd:
        [made] = crowds("mlp:8", "digits", images, [0.85], [0, 1], out=out, recipe=QUICK, **BAND)
        return made

    whole, steps, after = crowd(tmp_path / "whole"), list[int](), Course._after
    assert len(whole.seeds) == 2

    def watched(self: Course, sums: torch.Tensor | None) -> None:
        self.checkpoint.seconds = 0
        self.checkpoint._due = 0
        after(self, sums)
        steps.append(self.standing.step)
        if len(steps) == 30:
            raise KeyboardInterrupt

    monkeypatch.setattr(Course, "_after", watched)
    with pytest.raises(KeyboardInterrupt):
        crowd(tmp_path / "broken")
    [state] = tmp_path.glob("broken/crowd-*/.training/*.safetensors")
    again = crowd(tmp_path / "broken")
    assert steps[30] == steps[29] + 1
    assert again.seeds == whole.seeds
    assert np.array_equal(again.logits, whole.logits)
    assert not state.parent.parent.exists()
    state.parent.mkdir(parents=True)  # a kill between its answers and its end
    crowd(tmp_path / "broken")
    assert not state.parent.parent.exists()


def test_a_damaged_crowd_is_named(tmp_path: Path) -> None:
    images = load("digits", "test").images[:3]
    asked: dict[str, Any] = {"out": tmp_path, "recipe": QUICK, **BAND}
    crowds("mlp:8", "digits", images, [0.75], [0], **asked)
    [file] = tmp_path.glob("crowd-*.npz")
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(UserError, match=r"crowd-mlp-8-.* is damaged .*: remove it"):
        crowds("mlp:8", "digits", images, [0.75], [0], **asked)


def test_a_crowd_is_of_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the data is not enough: a file that was exchanged is other data."""
    images = load("digits", "test").images[:3]
    asked: dict[str, Any] = {"out": tmp_path, "recipe": QUICK, **BAND | {"epochs": 1}}
    crowds("mlp:8", "digits", images, [0.75], [0], **asked)
    monkeypatch.setattr(networks, "load", lambda *_, **__: load("digits", "test"))
    crowds("mlp:8", "digits", images, [0.75], [0], **asked)
    assert len(list(tmp_path.glob("crowd-*.npz"))) == 2


def test_a_crowd_says_whom_it_lacks(tmp_path: Path) -> None:
    images = load("digits", "test").images[:3]
    [there, none] = crowds("mlp:8", "digits", images, [0.6, 0.9999], [4], out=tmp_path, recipe=QUICK,
                           **BAND | {"epochs": 2, "within": 0.05})  # fmt: skip
    assert (there.seeds, none.seeds) == ([4], [])
    assert none.logits.shape == (0, 3, 10)
    assert none.missed[4].startswith("4 did not arrive of 4 tries; best 0.")


def test_the_nine_become_a_basket_for_each_target(tmp_path: Path) -> None:
    few = {"MLP1": QUICK, "MLP3": Recipe("mlp:8", 0.012, 256, weight_decay=1e-5)}
    folders = nine("digits", tmp_path, [0.75, 0.85], 0, recipes=few, **BAND)
    assert list(folders) == [0.75, 0.85]
    test = load("digits", "test")
    for target, folder in folders.items():
        basket = Basket.open(folder)
        assert set(basket.names) <= set(few)
        right = (basket.predict(test.images).argmax(2) == test.labels).double().mean(1)
        assert ((right - target).abs() <= 0.03 + 1e-6).all()
    assert nine("digits", tmp_path, [0.75, 0.85], 0, recipes=few, **BAND) == folders


def test_the_recipes_are_those_of_appendix_a() -> None:
    rows = {name: (one.spec, one.rate, one.batch, one.weight_decay) for name, one in RECIPES.items()}
    assert rows == {
        "MLP1": ("mlp4", 5e-4, 128, 0), "MLP2": ("mlp4", 5e-4, 128, 1e-5), "MLP3": ("mlp4", 1e-3, 256, 1e-5),
        "CNN1": ("cnn4", 5e-4, 128, 0), "CNN2": ("cnn4", 5e-4, 128, 1e-5), "CNN3": ("cnn4", 5e-4, 128, 0),
        "ViT1": ("vit4", 5e-4, 128, 0), "ViT2": ("vit4", 5e-4, 128, 1e-5), "ViT3": ("vit4", 5e-4, 128, 5e-5),
    }  # fmt: skip
    assert [name for name, one in RECIPES.items() if one.augment] == ["CNN3"]


def test_halves_share_no_image() -> None:
    one, other = uncertain.halves(101, 3, 40, 1000)
    assert (len(one), len(other)) == (40, 51)
    assert not set(one) & set(other)
    assert not np.array_equal(one, uncertain.halves(101, 4, 40, 1000)[0])


def test_what_is_seen_is_what_is_defined() -> None:
    """One network, two images, two classes: by hand."""

    class Two:
        def predict(self, _: torch.Tensor) -> torch.Tensor:
            return torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]).log()

    seen = uncertain.judged(Two(), torch.zeros(2), np.array([0, 1]), np.array([[8, 2], [1, 3]]))  # type: ignore[arg-type]
    assert seen.right.tolist() == [50]
    assert seen.sure[0] == pytest.approx((0.75 + 0.5) / 2)
    assert seen.apart[0] == pytest.approx(-(0.8 * np.log(0.75) + 0.2 * np.log(0.25) + np.log(0.5)) / 2)


def test_people_who_answer_otherwise_are_learnt(tmp_path: Path) -> None:
    """Simulated people, who call digits from 4 on by the next one: whoever learns from them is nearer to them."""
    labels = load("digits", "test").labels.numpy()
    counts = np.zeros((len(labels), 10), np.int64)
    counts[np.arange(len(labels)), np.where(labels < 4, labels, (labels + 1) % 10)] = 9
    counts[:, 0] += 1
    np.save(tmp_path / "people.npy", counts)
    options = {"people": str(tmp_path / "people.npy"), "networks": "softmax", "seeds": "2", "epochs": "15",
               "images": "150", "tested": "150"}  # fmt: skip
    result = run_study("uncertain", data="digits", out=tmp_path / "s", options=options, quiet=True)
    by = {(row.table, row.quantity): row for row in result.rows}
    right = {way: by[uncertain.RIGHT, word].measured for way, word in uncertain.LEARNT.items()}
    assert min(right["hard"], right["smoothed"], right["distilled"]) > 60 > 50 > right["people"]
    assert by[uncertain.NEAR, "what people say"].measured < by[uncertain.NEAR, "labels"].measured - 0.5
    assert by[uncertain.APART, "what people say: cross entropy to people"].high < 0
    with pytest.raises(UserError, match="leave --basket out"):
        run_study("uncertain", data="digits", out=tmp_path / "s", basket="x", quiet=True)
