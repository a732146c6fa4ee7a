"""Hunts without labels, and the columns that say how a finding came about: score, size, least change, realism."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.findings import SCHEMA, Findings
from foible.images import decode_png, encode_png, to_bytes, to_floats
from foible.objectives import Dissent
from foible.recipes.replay import replay, replay_row
from foible.search.walking import retrace
from foible.spaces import SPACES, Affine, Swaps
from foible.specs import resolve
from foible.testing import CLASSES

SPACE = "affine?degrees=8&percent=8&pixels=0.7"
LEAST = ("least_path", "least_image", "least_change", "least_forwards")
CHAIN = "photometric+affine?degrees=4"


def _hunt(basket: Basket, data: Dataset, **options: Any) -> Findings:
    quick = {"space": SPACE, "trials": 40, "quiet": True, "suspect": "A"}
    if "search" not in options:
        quick["patience"] = 60
    return foible.hunt(basket, data, **(quick | options))


@pytest.fixture(scope="module")
def climbed(basket: Basket, data: Dataset) -> Findings:
    """Some found, some not."""
    findings = _hunt(basket, data, peer_confidence=0.4, unit=20)
    assert set(findings.column("outcome")) == {"found", "exhausted"}
    return findings


def _walked(space: Any, row: dict[str, Any], path: list[list[float]]) -> tuple[Any, Tensor]:
    """Where these moves lead from the row's seed image: a point, and its pixels."""
    seed = to_floats(decode_png(row["origin"]))[None]
    points = retrace(space, seed, [torch.tensor(path)])
    return points, to_bytes(space.render(points))[0]


def test_without_labels_the_consensus_is_aimed_at(basket: Basket, data: Dataset) -> None:
    """Labels that are all wrong, and that nobody may look at: the same images as with the right ones."""
    wrong = dataclasses.replace(data, labels=(data.labels + 1) % CLASSES)
    blind, seeing = _hunt(basket, wrong, unlabelled=True, peer_confidence=0), _hunt(basket, data, peer_confidence=0)
    assert blind.column("truth") == [None] * 40
    assert set(blind.column("label_from")) == {"consensus"}
    assert set(seeing.column("label_from")) == {"label"}
    assert blind.column("consensus") == seeing.column("truth")
    assert len(blind.filter(outcome="found")) > 10
    same = [name for name in SCHEMA.names if name not in ("config", "truth", "label_from", "consensus")]
    assert blind.table.select(same).equals(seeing.table.select(same))


@pytest.mark.parametrize("search", ["hill-climb", "gradient", "genetic", "strategy", "pbil", "map-elites"])
def test_every_row_without_a_label_replays(basket: Basket, data: Dataset, search: str) -> None:
    """Also rows that ended where the peers no longer agree: a population's best need not be allowed."""
    options = {"search": search, "unlabelled": True, "peer_confidence": 0.45, "budget": 60, "shrink": False}
    findings = _hunt(basket, data, **options, realism="none", trials=60)
    aims = dict(enumerate(data.labels.tolist()))  # of this data, what all networks say is the label
    assert {"found", "exhausted"} <= set(findings.column("outcome"))
    for row in findings:
        assert row["consensus"] == aims[row["origin_index"]]
        seed = data.images[row["origin_index"]]
        assert replay_row(row, resolve(SPACE, SPACES, "space"), Dissent(0.45), basket, seed).holds, row["id"]


def test_one_network_without_labels_replays(basket: Basket, data: Dataset) -> None:
    alone = basket.only(["A"])
    findings = _hunt(alone, data, unlabelled=True)
    assert findings.column("consensus") == [int(data.labels[place]) for place in findings.column("origin_index")]
    space = resolve(SPACE, SPACES, "space")
    assert all(replay_row(row, space, Dissent(), alone, data.images[row["origin_index"]]).holds for row in findings)


def test_score_is_above_zero_exactly_where_found(climbed: Findings) -> None:
    for row in climbed:
        assert (row["score"] > 0) == (row["outcome"] == "found"), row["id"]
        suspect, *peers = row["after"]
        others = max(p for k, p in enumerate(suspect) if k != row["truth"])
        worst = np.log(others / suspect[row["truth"]])
        for peer in peers:
            held = peer[row["truth"]]
            rest = max(p for k, p in enumerate(peer) if k != row["truth"])
            worst = min(worst, np.log(held / rest), np.log(held / (1 - held)) - np.log(0.4 / 0.6))
        assert row["score"] == pytest.approx(worst, abs=1e-3)


def test_the_least_change_still_holds(basket: Basket, climbed: Findings) -> None:
    """Loaded from its PNG and judged by everybody; its path leads to those very pixels; it is no larger."""
    space, smaller = Affine(degrees=8, percent=8, pixels=0.7), 0
    for row in climbed.filter(outcome="found"):
        image = decode_png(row["least_image"])
        said = basket.predict(image[None], row["networks"])[:, 0]
        assert int(said[0].argmax()) != row["truth"]
        assert said[1:].argmax(1).tolist() == [row["truth"]] * 2
        assert float(said[1:].softmax(1)[:, row["truth"]].min()) >= 0.4
        points, pixels = _walked(space, row, row["least_path"])
        assert encode_png(pixels) == row["least_image"]
        size = float((2 * space.draws_of(points)[0] - 1).norm())
        assert size <= row["size"] + 1e-4
        smaller += size < 0.9 * row["size"]
        assert row["least_forwards"] >= len(row["networks"])
        assert set(row["kinds"]) <= set(space.kinds)
        moved = {kind for kind, draw in zip(space.kinds, row["least_path"][0], strict=True) if abs(2 * draw - 1) > 1e-3}
        assert len(row["least_path"]) > 1 or set(row["kinds"]) == moved
        told = space.describe(points)
        assert dict(row["least_change"]) == pytest.approx({name: float(v[0]) for name, v in told.items()}, abs=1e-3)
    assert smaller > 5


def test_size_is_how_far_the_whole_way_leads(climbed: Findings) -> None:
    space = Affine(degrees=8, percent=8, pixels=0.7)
    for row in climbed.filter(outcome="found"):
        points, _ = _walked(space, row, [move["draws"] for move in row["path"]])
        assert row["size"] == pytest.approx(float((2 * space.draws_of(points)[0] - 1).norm()), abs=1e-4)


def test_a_trial_that_found_nothing_keeps_what_shows_it_again(climbed: Findings, data: Dataset) -> None:
    """Its path and the place of its seed image, and no images."""
    for row in climbed.filter(outcome="exhausted"):
        assert [row[name] for name in ("image", "origin", "trace", "realism", "film", "least_image")] == [None] * 6
        assert row["path"] is not None
        assert row["origin_index"] is not None
    for row in climbed.filter(outcome="found"):
        assert encode_png(data.images[row["origin_index"]]) == row["origin"]
        assert len(row["trace"]) == 1 + row["moves"]


def test_films_are_kept_of_the_most_telling_finds(basket: Basket, data: Dataset) -> None:
    """Of each class the four that a report would choose from; the last frame is the image, the first its origin."""
    findings = _hunt(basket, data, trials=200, unit=200).filter(outcome="found", suspect="A")
    filmed = [row for row in findings if row["film"] is not None]
    assert len(findings) > len(filmed)
    for label in set(findings.column("truth")):
        own, kept = ([r for r in rows if r["truth"] == label] for rows in (list(findings), filmed))
        assert len(kept) == min(4, len(own))
        assert min(map(_told, kept)) >= max((_told(r) for r in own if r["film"] is None), default=-1.0)
    for row in filmed:
        film, image = decode_png(row["film"]), decode_png(row["image"])
        frames = film.split(image.shape[2], 2)
        assert len(frames) == 1 + row["moves"]
        assert torch.equal(frames[0], decode_png(row["origin"]))
        assert torch.equal(frames[-1], image)


def _told(row: dict[str, Any]) -> float:
    """How telling, by the definition: how clear the mistake is, how sure all were before, and a length that reads."""
    first, last = row["trace"][0], row["trace"][-1]
    return float(np.float32(min(last[1:]) - last[0] + 0.5 * min(first) + (3 <= row["moves"] <= 6)))


def test_only_finds_are_shrunk(climbed: Findings) -> None:
    for name in LEAST:
        assert [value is None for value in climbed.column(name)] == [
            out != "found" for out in climbed.column("outcome")
        ]


def test_without_shrinking_the_kinds_are_those_of_the_whole_way(
    basket: Basket, data: Dataset, climbed: Findings
) -> None:
    plain = _hunt(basket, data, peer_confidence=0.4, shrink=False)
    assert plain.column("image") == climbed.column("image")
    assert plain.column("forwards") == climbed.column("forwards")  # what shrinking spends is counted apart
    for name in LEAST:
        assert plain.column(name) == [None] * 40
    for whole, least in zip(plain, climbed, strict=True):
        assert bool(whole["kinds"]) == bool(whole["moves"])
        assert set(least["kinds"]) <= set(whole["kinds"])
        assert whole["size"] == least["size"]


def test_swaps_have_no_size_but_a_least_change(basket: Basket, data: Dataset) -> None:
    findings = _hunt(basket, data, space="swaps", patience=80)
    found = findings.filter(outcome="found")
    assert len(found) > 5
    assert set(findings.column("size")) == {None}
    for row in found:
        path = [move["draws"] for move in row["path"]]
        assert 1 <= len(row["least_path"]) <= len(path)
        assert [draws for draws in path if draws in row["least_path"]] == row["least_path"]  # some of the moves
        assert encode_png(_walked(Swaps(), row, row["least_path"])[1]) == row["least_image"]


def test_realism_of_every_image(basket: Basket, data: Dataset, climbed: Findings) -> None:
    climbed = climbed.filter(outcome="found")
    assert np.isfinite(climbed.column("realism")).all()
    assert len(set(climbed.column("realism"))) > 10
    none = _hunt(basket, data, peer_confidence=0.4, realism="none")
    assert none.column("realism") == [None] * 40
    swapped = _hunt(basket, data, space="swaps", patience=80).filter(outcome="found")
    assert np.median(swapped.column("realism")) < np.median(climbed.column("realism")) - 3


def test_units_without_a_find_have_the_same_columns(basket: Basket, data: Dataset, climbed: Findings) -> None:
    parts = _hunt(basket, data, peer_confidence=0.4, unit=3)
    outcomes = parts.column("outcome")
    assert any("found" not in outcomes[first : first + 3] for first in range(0, 40, 3))
    same = [
        name for name in SCHEMA.names if name not in ("config", "film", "least_change")
    ]  # films: the best of each unit
    assert parts.table.select(same).to_pylist() == climbed.table.select(same).to_pylist()
    for ours, whole in zip(parts.column("least_change"), climbed.column("least_change"), strict=True):
        assert dict(ours or ()) == pytest.approx(dict(whole or ()), abs=1e-12)  # sines of several rows at once


@pytest.mark.parametrize("search", ["hill-climb", "gradient"])
def test_a_chain_of_spaces(basket: Basket, data: Dataset, tmp_path: Path, search: str) -> None:
    np.savez(tmp_path / "blobs.npz", images=data.images.numpy(), labels=data.labels.numpy(), classes=data.classes)
    run = tmp_path / "run"
    options = {"space": CHAIN, "search": search, "peer_confidence": 0, "out": run}
    findings = foible.hunt(basket, f"npz:{tmp_path / 'blobs.npz'}", trials=30, suspect="A", quiet=True, **options)
    found = findings.filter(outcome="found")
    assert len(found) > 5
    assert next(iter(findings.configs.values()))["space"] == CHAIN
    kinds = {kind for row in found for kind in row["kinds"]}
    chain = resolve(CHAIN, SPACES, "space")
    photometric, affine = (set(space.kinds) for space in chain.spaces)
    assert kinds & photometric
    assert kinds & affine
    for row in found:
        assert encode_png(_walked(chain, row, row["least_path"])[1]) == row["least_image"]
    assert all(result.holds for result in replay(run, basket=basket))
