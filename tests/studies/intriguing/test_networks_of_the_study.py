"""Paper 3's networks: how they learn, against known answers; their baskets; and the classifier on frozen features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from foible.basket import Basket
from foible.data import load
from foible.errors import UserError
from foible.networks.fresh import fresh_module
from foible.studies import run_study
from foible.studies.intriguing.frozen_features.figures import sheet
from foible.studies.intriguing.networks import baskets as networks
from foible.studies.intriguing.networks import training as net_training
from foible.studies.intriguing.networks.autoencoder import Sparse, encoder_for
from foible.studies.intriguing.networks.baskets import paper_networks, records, split_networks
from foible.studies.intriguing.networks.binary import class_of, logistic, one_against_rest
from foible.studies.intriguing.networks.plans import EFFORTS, TABLE1, TABLE3, Effort, parts
from foible.studies.intriguing.networks.training import Course, learn

TINY = Effort(
    images=300,
    linear=Course(0, 5),
    dense=Course(2, 5, rate=1e-2, batch=50),
    features=Course(10, 0, rate=1e-2, batch=50),
    top=Course(0, 10),
)


def silent(note: str) -> None:
    del note


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EFFORTS, "quick", TINY)


def test_the_linear_network_is_the_regularised_optimum() -> None:
    """Against scikit-learn, whose C is k / (2 λ n) in our words."""
    from sklearn.linear_model import LogisticRegression

    data = load("digits", "train", quiet=True)
    rows = slice(0, 400)
    images, labels = data.floats(rows)[:, :, ::3, ::3], data.labels[rows]
    decay, divisor = 1e-2, 2.0
    module = fresh_module("softmax", (1, 10, 10), 10, 0)
    learn(module, [decay], divisor, images, labels, Course(0, 200), 0, silent)
    expected = LogisticRegression(C=divisor / (2 * decay * 400), tol=1e-8, max_iter=5000)
    expected.fit(images.flatten(1).double().numpy(), labels.numpy())
    weight = module.get_parameter("output.weight").detach()
    assert np.allclose(weight, expected.coef_, atol=2e-3 * np.abs(expected.coef_).max())
    bias = module.get_parameter("output.bias").detach()
    assert np.allclose(bias - bias.mean(), expected.intercept_ - expected.intercept_.mean(), atol=2e-2)


def test_every_layer_has_its_own_decay_and_frozen_layers_stay() -> None:
    images, labels = torch.rand(60, 1, 4, 4), torch.arange(60) % 3
    heavy = {}
    for decay in ((1e4, 0.0), (0.0, 1e4)):
        module = fresh_module("mlp:6,sigmoid", (1, 4, 4), 3, 0)
        learn(module, decay, 1.0, images, labels, Course(0, 30), 0, silent)
        heavy[decay] = [
            float(module.get_parameter(f"{name}.weight").detach().abs().max()) for name in ("hidden1", "output")
        ]
    assert heavy[1e4, 0.0][0] < 1e-3 < heavy[1e4, 0.0][1]
    assert heavy[0.0, 1e4][1] < 1e-3 < heavy[0.0, 1e4][0]
    module = fresh_module("ae:6", (1, 4, 4), 3, 0)
    before = module.get_parameter("encoder.weight").clone()
    first = module.get_parameter("output.weight").detach().clone()
    learn(module, [1e-6], 2.0, images, labels, Course(0, 5), 0, silent)
    assert torch.equal(module.get_parameter("encoder.weight"), before)
    assert not torch.equal(module.get_parameter("output.weight"), first)


def test_a_small_data_set_is_seen_more_often() -> None:
    assert Course(3, 0, batch=100, least_steps=60).schedule(600).epochs == 10
    assert Course(3, 0, batch=100, least_steps=60).schedule(60_000).epochs == 3
    assert Course(0, 9, batch=100, least_steps=60).schedule(600).epochs == 0


def test_features_become_sparse_and_need_no_label() -> None:
    images = load("digits", "train", quiet=True).floats(slice(0, 500))
    course = Course(40, 0, rate=5e-3, batch=50)
    held = encoder_for("ae:30", images, 3, course, silent)
    again = encoder_for("ae:30", images, 3, course, silent)
    assert torch.equal(held["encoder.weight"], again["encoder.weight"])

    def activity(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        pixels = images.flatten(1) @ weights["encoder.weight"].T + weights["encoder.bias"]
        return pixels.sigmoid().mean(0)

    assert float(activity(held).mean()) == pytest.approx(Sparse().activity, abs=0.1)
    loose = encoder_for("ae:30", images, 3, course, silent, Sparse(activity=0.5))
    assert float(activity(loose).mean()) == pytest.approx(0.5, abs=0.1)


@pytest.mark.usefixtures("_tiny")
def test_the_six_networks_are_a_basket_that_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    basket = paper_networks("digits", tmp_path, scale="quick", seed=0, device="cpu", quiet=True)
    assert basket.names == ("softmax1", "softmax2", "softmax3", "N100-100-10", "N200-200-10", "AE400-10")
    assert Basket.open(tmp_path / "basket").names == basket.names
    test = load("digits", "test", quiet=True)
    wrong = (basket.predict(test.images).argmax(2) != test.labels).double().mean(1)
    found = records(basket)
    for name, share in zip(basket.names, wrong.tolist(), strict=True):
        assert found[name].errors["test"] == pytest.approx(100 * share, abs=1e-3)
        assert found[name].settings["images"] == found[name].settings["images of the split"] == 300
        assert found[name].errors["train"] < 90
    assert [found[plan.name].settings["decay"] for plan in TABLE1][3] == [1e-5, 1e-5, 1e-6]
    sums = {name: sum(p.square().sum() for p in weights(basket, name)) for name in basket.names[:3]}
    assert sums["softmax1"] > sums["softmax2"] > sums["softmax3"]

    monkeypatch.setattr(networks, "train_networks", lambda *_, **__: pytest.fail("trained again"))
    again = paper_networks("digits", tmp_path, scale="quick", seed=0, device="cpu", quiet=True)
    assert again.fingerprints == basket.fingerprints


def weights(basket: Basket, name: str) -> list[torch.Tensor]:
    module = basket.network(name)
    assert isinstance(module, nn.Module)
    return [weight for weight in module.parameters() if weight.ndim == 2]


@pytest.mark.usefixtures("_tiny")
def test_another_seed_goes_beside_and_other_scales_are_refused(tmp_path: Path) -> None:
    first, _ = split_networks("digits", tmp_path, scale="quick", seed=0, device="cpu", quiet=True)
    second, _ = split_networks("digits", tmp_path, scale="quick", seed=5, device="cpu", quiet=True)
    assert first.source == [str(tmp_path / "basket")]
    assert second.source is not None
    assert second.source[0].startswith(str(tmp_path / "basket-"))
    assert first.fingerprints["M1"] != second.fingerprints["M1"]
    with pytest.raises(UserError, match="expected quick or paper"):
        paper_networks("digits", tmp_path, scale="big", quiet=True)
    with pytest.raises(UserError, match="in no folder"):
        records(Basket({"A": nn.Flatten()}, classes=("a", "b"), preprocess="inside"))


@pytest.mark.usefixtures("_tiny")
def test_halves_are_disjoint_and_twins_begin_apart(tmp_path: Path) -> None:
    basket, info = split_networks("digits", tmp_path, scale="quick", seed=0, device="cpu", quiet=True)
    assert basket.names == ("M1", "M1'", "M2")
    assert (info.halves["P1"], info.halves["P2"]) == (range(150), range(150, 300))
    assert not set(info.halves["P1"]) & set(info.halves["P2"])
    data = load("digits", "train", quiet=True)
    for part, rows in info.halves.items():
        wrong = basket.predict(data.images[rows.start : rows.stop]).argmax(2) != data.labels[rows.start : rows.stop]
        for name, share in zip(basket.names, wrong.double().mean(1).tolist(), strict=True):
            assert info.errors[name][part] == pytest.approx(100 * share, abs=1e-3)
    twins = [(plan.spec, plan.twin) for plan in TABLE3]
    assert len(set(twins)) == 3
    assert parts(TABLE3, 7) == {"P1": range(3), "P2": range(3, 7)}


@pytest.mark.usefixtures("_tiny")
def test_one_against_the_rest_is_one_logit_on_frozen_features(tmp_path: Path) -> None:
    training, test = load("digits", "train", quiet=True), load("digits", "test", quiet=True)
    encoders = []
    for chosen in (2, 7):
        basket = one_against_rest(
            training, test, chosen, tmp_path, units=20, scale="quick", seed=0, device="cpu", quiet=True
        )
        assert basket.classes == (f"not {chosen}", str(chosen))
        assert bool((basket.predict(test.images)[0][:, 0] == 0).all())
        encoders.append(weights(basket, basket.names[0])[0])
    assert torch.equal(*encoders)  # which class it was to be never reached the features


def test_logistic_is_the_optimum_of_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one binary feature the odds are known: counts on each side."""
    monkeypatch.setattr("foible.studies.intriguing.networks.binary.DECAY", 0.0)
    module = fresh_module("ae:1", (1, 1, 1), 2, 0)
    with torch.no_grad():
        module.get_parameter("encoder.weight").fill_(60.0)
        module.get_parameter("encoder.bias").fill_(-30.0)
    images = torch.tensor([0.0] * 10 + [1.0] * 10).view(20, 1, 1, 1)
    labels = torch.tensor([1] * 2 + [0] * 8 + [1] * 7 + [0] * 3)
    logistic(module, images, labels, 100, silent)
    odds = module(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1))
    assert odds[:, 1].tolist() == pytest.approx([np.log(2 / 8), np.log(7 / 3)], abs=1e-3)
    assert odds[:, 0].tolist() == [0, 0]


def test_the_class_that_is_chosen() -> None:
    digits = load("digits", "test", quiet=True)
    assert class_of(None, digits) == 5
    assert class_of("8", digits) == 8
    with pytest.raises(UserError, match="label is 'eight'"):
        class_of("eight", digits)


@pytest.mark.usefixtures("_tiny")
def test_the_study_flips_every_image(tmp_path: Path) -> None:
    result = run_study(
        "frozen-features", scale="quick", data="digits", out=tmp_path / "run", device="cpu", quiet=True,
        options={"label": "3", "images": "12", "units": "30"},
    )  # fmt: skip
    rows = {(row.table, row.quantity): row for row in result.rows}
    tables = {table for table, _ in rows if table.startswith("Distorted")}
    assert len(tables) == 2
    for table in tables:
        if rows[table, "flipped, %"].n:
            assert rows[table, "flipped, %"].measured == 100
            assert 0 < (rows[table, "RMS of the change"].measured or 0) < 0.3
    assert rows["The classifier, test images", "accuracy, %"].n == 355
    assert json.loads((tmp_path / "run" / "result.json").read_text())["study"] == "frozen-features"
    assert (tmp_path / "run" / "filters.png").is_file()
    with pytest.raises(UserError, match="leave --basket away"):
        run_study("frozen-features", data="digits", out=tmp_path / "other", basket=str(tmp_path), quiet=True)


def test_sheets() -> None:
    pictures = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 1, 2, 2) / 4
    laid = sheet(pictures, 2)
    assert laid.shape == (1, 8, 8)
    assert laid[0, 0].tolist() == [0, 0, 1, 1, 0.25, 0.25, 1, 1]
    assert laid[0, 4].tolist() == [0.5, 0.5, 1, 1, 1, 1, 1, 1]


def test_divisors_are_known_for_every_network() -> None:
    assert {plan.divisor for plan in (*TABLE1, *TABLE3)} <= set(net_training.DIVISORS.values())
