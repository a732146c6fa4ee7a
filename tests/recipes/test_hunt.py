from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import SCHEMA, SCHEMA_VERSION, Findings
from foible.objectives import Dissent
from foible.recipes.hunt.recipe import hunt
from foible.recipes.replay import replay, replay_row
from foible.spaces import Affine
from foible.testing import CLASSES, SHAPE, linear_network

SPACE = "affine?degrees=8&percent=8&pixels=0.7"


def _hunt(basket: Basket, data: Dataset, **options: Any) -> Findings:
    quick = {"space": SPACE, "trials": 40, "patience": 40, "quiet": True, "suspect": "A"}
    return hunt(basket, data, **(quick | options))


@pytest.fixture(scope="module")
def whole(basket: Basket, data: Dataset) -> Findings:
    """Of two units."""
    return _hunt(basket, data, unit=33)


def test_rows_follow_the_schema(basket: Basket, data: Dataset) -> None:
    found = _hunt(basket, data)
    assert found.table.schema.remove_metadata() == SCHEMA
    assert len(found) == 40
    assert set(found.column("outcome")) == {"found", "exhausted"}
    assert found.classes == data.classes
    (settings,) = found.configs.values()
    assert settings["space"] == SPACE
    assert settings["trials"] == 40


def test_every_finding_is_a_mistake_of_the_suspect_alone(basket: Basket, data: Dataset) -> None:
    found = _hunt(basket, data, suspect=["A", "B"]).filter(outcome="found")
    assert len(found) > 10
    for row, image in zip(found, found.images(), strict=True):
        answers = basket.predict(image[None], row["networks"])[:, 0].argmax(1).tolist()
        assert answers[0] == row["said"] != row["truth"]
        assert set(answers[1:]) == {row["truth"]} == {row["consensus"]}
        assert row["networks"][0] == row["suspect"]


def test_rows_hold_together(data: Dataset, whole: Findings) -> None:
    for row in whole:
        found = row["outcome"] == "found"
        assert len(row["path"]) == row["moves"] == (len(row["trace"]) - 1 if found else row["moves"])
        assert [step["step"] for step in row["path"]] == sorted(step["step"] for step in row["path"])
        assert row["forwards"] >= row["candidates"] >= row["moves"]
        assert len(row["before"]) == len(row["after"]) == 3
        assert found or row["film"] is None
        assert dict(row["change"]).keys() == {
            "rotation °",
            "stretch x %",
            "stretch y %",
            "shear %",
            "shift x px",
            "shift y px",
        }
        origin = data.images[row["origin_index"]]
        assert torch.equal(foible.images.decode_png(row["origin"]), origin) if found else row["origin"] is None


@pytest.mark.parametrize("unit", [7, 16, 40])
def test_units_of_any_size_give_the_same_lanes(basket: Basket, data: Dataset, whole: Findings, unit: int) -> None:
    parts = _hunt(basket, data, unit=unit)
    same = [name for name in SCHEMA.names if name not in ("config", "film")]  # films: the best of each unit
    assert parts.table.select(same).to_pylist() == whole.table.select(same).to_pylist()


def test_suspects_share_seeds_so_that_they_compare(basket: Basket, data: Dataset) -> None:
    found = _hunt(basket, data, suspect=["A", "C"])
    first, second = (found.filter(suspect=name).column("origin_index") for name in "AC")
    assert first == second


def test_another_seed_draws_other_images(basket: Basket, data: Dataset, whole: Findings) -> None:
    assert whole.column("origin_index") != _hunt(basket, data, seed=1).column("origin_index")


def test_every_row_replays_from_itself(basket: Basket, data: Dataset, whole: Findings) -> None:
    space = Affine(degrees=8, percent=8, pixels=0.7)
    for row in whole:
        again = replay_row(row, space, Dissent(), basket, data.images[row["origin_index"]])
        assert again.holds, again


def test_a_run_on_disk_is_the_run_in_memory(basket: Basket, data: Dataset, tmp_path: Path) -> None:
    there = _hunt(basket, data, out=tmp_path / "run", unit=13)
    assert there.table.equals(_hunt(basket, data, unit=13).table)
    assert len(list((tmp_path / "run" / "shards").iterdir())) == 4
    metadata = pq.read_schema(next((tmp_path / "run" / "shards").iterdir())).metadata
    assert metadata[b"foible.schema_version"] == str(SCHEMA_VERSION).encode()


def test_objects_and_their_specs_are_the_same_settings(basket: Basket, data: Dataset) -> None:
    by_object = _hunt(basket, data, space=Affine(degrees=8), objective=Dissent(0.4))
    by_spec = _hunt(basket, data, space="affine?degrees=8", peer_confidence=0.4)
    assert by_object.column("image") == by_spec.column("image")
    (one,), (two,) = by_object.configs.values(), by_spec.configs.values()
    assert one["space"] == two["space"] == "affine?degrees=8"
    assert one["objective"] == two["objective"] == "dissent?peer_confidence=0.4"


def test_peer_confidence_is_kept_by_every_finding(basket: Basket, data: Dataset) -> None:
    found = _hunt(basket, data, peer_confidence=0.45).filter(outcome="found")
    assert len(found)
    for row in found:
        assert min(peer[row["truth"]] for peer in row["after"][1:]) >= 0.45


def test_labels_meet_classes_by_name(basket: Basket, data: Dataset, whole: Findings) -> None:
    flipped = dataclasses.replace(data, labels=2 - data.labels, classes=tuple(reversed(data.classes)))
    assert _hunt(basket, flipped).column("image") == whole.column("image")
    other = dataclasses.replace(data, classes=("a", "b", "c"))
    with pytest.raises(UserError, match="no class of the data"):
        _hunt(basket, other)


def test_a_budget_is_kept(basket: Basket, data: Dataset) -> None:
    assert max(_hunt(basket, data, budget=20, peer_confidence=0.6).column("forwards")) <= 20 + 6


class _SometimesNaN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = linear_network(0)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = self.inner(images)
        off_grid = ((images * 255).frac().abs() > 1e-3).flatten(1).any(1)  # right on seeds, NaN on any changed image
        return torch.where(off_grid[:, None], torch.nan, logits)


def test_nan_is_an_outcome_and_never_a_mistake_found(data: Dataset) -> None:
    basket = Basket(
        {"A": _SometimesNaN(), "B": linear_network(1)}, classes=data.classes, preprocess="inside", shape=SHAPE
    )
    found = _hunt(basket, data)
    assert set(found.column("outcome")) == {"invalid"}


def test_mistakes_in_the_call_are_named(basket: Basket, data: Dataset, tmp_path: Path) -> None:
    for options, message in [
        ({"trails": 5}, "no option 'trails'; did you mean 'trials'"),
        ({"suspect": "D"}, "no network 'D'"),
        ({"space": "afine"}, "unknown space 'afine'; did you mean 'affine'"),
        ({"space": "affine?degree=5"}, "no option 'degree'; did you mean 'degrees'"),
        ({"search": "hill-climb?width=many"}, "expected int"),
        ({"trials": 0}, "trials is 0"),
        ({"objective": "no/such/file.py:Thing"}, "there is no file"),
        ({"precision": "fp8"}, "expected float32 or bf16"),
    ]:
        with pytest.raises(UserError, match=message.replace("(", r"\(")):
            _hunt(basket, data, **options)
    _hunt(basket, data, out=tmp_path / "run")
    with pytest.raises(UserError, match="seed: 0 there, 1 here"):
        _hunt(basket, data, out=tmp_path / "run", seed=1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.doc").write_text("mine")
    with pytest.raises(UserError, match="not empty and not a run"):
        _hunt(basket, data, out=tmp_path / "full")


def test_networks_that_do_not_fit_are_named(data: Dataset) -> None:
    def make(**networks: Any) -> Basket:
        return Basket(networks, classes=data.classes, preprocess="inside")

    many = linear_network(0, SHAPE, CLASSES + 4)
    with pytest.raises(UserError, match="network 'B' gives 7 numbers an image, its list has 3 classes"):
        _hunt(make(A=linear_network(0), B=many), data)
    with pytest.raises(UserError, match="network 'B' cannot take images of shape"):
        _hunt(make(A=linear_network(0), B=linear_network(0, (1, 5, 5))), data)
    with pytest.raises(UserError, match="network 'A' returned shape"):
        _hunt(make(A=lambda images: images), data)
    with pytest.raises(UserError, match="returned str"):
        _hunt(make(A=lambda _: "cat"), data)
    with pytest.raises(UserError, match="none of the 60 images"):
        _hunt(make(A=lambda images: torch.full((len(images), 3), torch.nan)), data)


def test_a_basket_must_say_its_preprocessing(data: Dataset) -> None:
    with pytest.raises(TypeError, match="preprocess"):
        Basket({"A": linear_network(0)}, classes=data.classes)  # type: ignore[call-arg]
    with pytest.raises(UserError, match="expected 'inside' or Preprocess"):
        Basket({"A": linear_network(0)}, classes=data.classes, preprocess="imagenet")


def test_the_callers_network_is_left_as_it_was(data: Dataset) -> None:
    network = linear_network(0).train()
    Basket({"A": network}, classes=data.classes, preprocess="inside")
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_replay_refuses_a_basket_that_changed(basket: Basket, data: Dataset, tmp_path: Path) -> None:
    del basket
    np_data = tmp_path / "blobs.npz"
    import numpy as np

    np.savez(np_data, images=data.images.numpy(), labels=data.labels.numpy(), classes=np.array(data.classes))
    good = Basket({"A": linear_network(0), "B": linear_network(1)}, classes=data.classes, preprocess="inside")
    bad = Basket({"A": linear_network(0), "B": linear_network(2)}, classes=data.classes, preprocess="inside")
    hunt(good, f"npz:{np_data}", out=tmp_path / "run", trials=20, suspect="A", space=SPACE, quiet=True)
    assert all(result.holds for result in replay(tmp_path / "run", basket=good))
    with pytest.raises(UserError, match="network 'B' is not the one"):
        replay(tmp_path / "run", basket=bad)
    with pytest.raises(UserError, match="no finding 'nobody' among 20"):
        replay(tmp_path / "run", ["nobody"], basket=good)
