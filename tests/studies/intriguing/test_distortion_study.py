"""Paper 3's Tables 1 to 4: every target, what stands beside, the paper's figures, and the pictures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from pictures import check_figure
from torch import Tensor, nn

from foible.basket import Basket
from foible.data import load
from foible.errors import UserError
from foible.networks import files
from foible.recipes.train.train import train
from foible.search.nearest import Model, Nearest
from foible.search.nearest.closest import closest
from foible.search.nearest.exact import exact
from foible.studies import run_study
from foible.studies.common import Result
from foible.studies.intriguing.distortion import beside as distortion_beside
from foible.studies.intriguing.distortion import linf as distortion_linf
from foible.studies.intriguing.distortion import others
from foible.studies.intriguing.distortion import rows as distortion_rows
from foible.studies.intriguing.distortion.figures import Shown, figure5, figure7
from foible.studies.intriguing.distortion.paper import TABLE1, TABLE2, TABLE3, TABLE4
from foible.studies.intriguing.distortion.photographs import distort_photographs
from foible.studies.intriguing.distortion.targets import (  # fmt: skip
    TARGETS,
    Asked,
    Distorted,
    counted,
    distorted,
    every_target,
    some_images,
)
from foible.transfer import from_findings, rms
from foible.transfer import load as load_tensor

IMAGES = 8
NAMES = {"softmax": "softmax1", "mlp:8,sigmoid": "N200-200-10"}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two networks that learnt digits, under names of the paper's."""
    folder = tmp_path_factory.mktemp("networks")
    entries = train(list(NAMES), "digits", epochs=8, device="cpu", quiet=True)
    files.save_basket(folder, [replace(entry, name=NAMES[entry.spec or ""]) for entry in entries], {})
    return folder


@pytest.fixture(scope="module")
def basket(networks: Path) -> Basket:
    return Basket.open(str(networks))


@pytest.fixture(scope="module")
def asked(basket: Basket) -> Asked:
    return some_images(load("digits", "train"), basket, IMAGES, 0, "test")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def found(basket: Basket, asked: Asked, runs: Path) -> dict[str, Distorted]:
    return {name: every_target(basket, name, asked, runs) for name in basket.names}


@pytest.fixture(scope="module")
def done(networks: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("study")
    result = run_study(
        "distortion", data="digits", basket=str(networks), out=out, device="cpu", quiet=True,
        options={"images": str(IMAGES), "sample": "2"},
    )  # fmt: skip
    return out, result


def rows(result: Result, table: str) -> dict[str, Any]:
    return {row.quantity: row for row in result.rows if row.table == table}


def test_the_papers_tables_are_whole() -> None:
    assert len(TABLE2) == 8 * 6
    assert [TABLE2[name, name] for name in TABLE1] == [100] * 6
    assert TABLE2["N200-200-10", "N100-100-10"] == 20.3
    assert TABLE2["Gaussian noise, σ = 0.3", "AE400-10"] == 3.1
    assert [len(figures) for figures in TABLE4.values()] == [12, 12]
    assert TABLE4[0.1]["M1", "M1'"] == 98
    assert TABLE4[None]["M2", "M1"] == 8.2
    assert TABLE3["M1'"][3] == 0.059


def test_every_wrong_label_is_a_target_once(basket: Basket, asked: Asked) -> None:
    assert asked.targets.shape == (IMAGES, 9)
    together = torch.cat([asked.targets, asked.labels[:, None]], 1).sort(1).values
    assert torch.equal(together, torch.arange(10).expand(IMAGES, 10))
    again = some_images(load("digits", "train"), basket, 5, 0, "test")
    assert torch.equal(again.origins, asked.origins[:5])  # fewer images are the first of more
    assert torch.equal(again.drawn, asked.drawn[:5])
    assert torch.equal(asked.data.floats(asked.places), asked.origins)


def test_what_is_found_is_what_the_method_gives(basket: Basket, found: dict[str, Distorted]) -> None:
    """The run on disk in between changes nothing: images, targets, sizes and costs are those of a plain call."""
    for name, one in found.items():
        n, k = one.asked.targets.shape
        plain = closest(
            lambda images, name=name: basket.judge(images, [name])[0],  # type: ignore[misc]
            one.asked.origins.repeat_interleave(k, 0), one.asked.labels.repeat_interleave(k),
            targets=one.asked.targets.flatten(),
        )  # fmt: skip
        assert torch.equal(plain.found.view(n, k), one.found)
        assert torch.allclose(plain.images.view_as(one.images), one.images, atol=1e-4)
        assert one.gradients == pytest.approx(float(plain.backwards.double().mean()), rel=0.01)


def test_a_study_goes_on_where_it_was_stopped(
    basket: Basket, asked: Asked, found: dict[str, Distorted], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finished runs are read; of one that lost a shard only that unit is searched again."""
    searched: list[int] = []

    def counting(model: Model, images: Tensor, labels: Tensor, **options: Any) -> Nearest:
        searched.append(len(images))
        return closest(model, images, labels, **options)

    monkeypatch.setattr("foible.recipes.distort.recipe.make_methods", lambda *_: (counting,))
    again = every_target(basket, "softmax1", asked, runs)
    assert searched == []
    assert torch.equal(again.images, found["softmax1"].images)
    first, *_ = sorted(next((runs / "distorted").glob("softmax1-*")).glob("shards/*.parquet"))
    lost = pq.read_metadata(first).num_rows
    first.unlink()
    again = every_target(basket, "softmax1", asked, runs)
    assert sum(searched) == lost
    assert torch.equal(again.images, found["softmax1"].images)
    every_target(basket, "softmax1", asked.head(2), runs)  # other settings stand beside
    assert len([*(runs / "distorted").glob("softmax1-*")]) == 2


def test_many_searches_are_shared_out(
    basket: Basket, asked: Asked, found: dict[str, Distorted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In worker processes, which open networks and data by their names."""
    monkeypatch.setattr("foible.studies.intriguing.distortion.targets.MANY", 0)
    again = every_target(basket, "softmax1", asked, tmp_path)
    assert torch.equal(again.found, found["softmax1"].found)
    assert torch.allclose(again.images, found["softmax1"].images, atol=1e-4)


def test_best_random_and_worst_are_in_their_order(found: dict[str, Distorted]) -> None:
    for one in found.values():
        best, drawn, worst = (one.taken(target)[2] for target in TARGETS)
        assert (best <= drawn).all()
        assert (drawn <= worst).all()
        assert (best < worst).all()
        images, hit, sizes = one.taken("worst")
        assert hit.all()
        assert torch.allclose(rms(images - one.asked.origins), sizes)


def test_what_was_not_reached_is_never_best_and_worst_only_alone() -> None:
    asked = Asked(
        load("digits", "train"), torch.arange(2), torch.zeros(2, 1, 1, 1), torch.zeros(2, dtype=torch.int64),
        torch.tensor([[1, 2, 3]] * 2), torch.tensor([0, 1]),
    )  # fmt: skip
    hit = torch.tensor([[True, True, False], [False, False, False]])
    sizes = torch.tensor([[0.2, 0.1, 0.9], [0.1, 0.2, 0.3]]).masked_fill(~hit, torch.inf)
    one = Distorted(asked, torch.zeros(2, 3, 1, 1, 1), hit, sizes, 1.0)
    assert one.taken("best")[2][0] == pytest.approx(0.1)
    assert one.taken("worst")[2][0] == pytest.approx(0.2)
    assert one.found_sizes("worst") == pytest.approx([0.2])
    assert one.found_sizes("random") == pytest.approx([0.2])
    assert distortion_rows.unfound_words({"A": one})[0].endswith("A 4 of 6.")


def test_all_are_judged_as_asked(basket: Basket, found: dict[str, Distorted]) -> None:
    for name, one in found.items():
        said = basket.predict(one.images.flatten(0, 1), [name])[0].argmax(1).view(IMAGES, 9)
        assert torch.equal(said[one.found], one.asked.targets[one.found])


def test_exact_answers_stand_beside_linear_networks_alone(basket: Basket, found: dict[str, Distorted]) -> None:
    made = distortion_beside.exact_rows(found, basket, {"softmax1": 0.062})
    assert {row.quantity.partition(":")[0] for row in made} == {"softmax1"}
    best, drawn, worst, ratio = (row.measured or 0.0 for row in made)
    assert 0 < best < drawn < worst
    assert 0.999 < ratio < 1.2
    assert made[0].paper == 0.062
    weight, bias = distortion_beside.linear_layer(basket, "softmax1") or (torch.empty(0), torch.empty(0))
    one = found["softmax1"]
    answer = exact(weight, bias, one.asked.origins, one.asked.targets[range(IMAGES), one.asked.drawn])
    assert drawn == pytest.approx(float(rms(answer.images - one.asked.origins).mean()), rel=1e-6)


def test_nearest_target_is_by_ratio(found: dict[str, Distorted]) -> None:
    means = {target: sum(sizes := found["softmax1"].found_sizes(target)) / len(sizes) for target in TARGETS}
    for target in TARGETS:
        assert distortion_rows.nearest_target(found, {"softmax1": means[target]}) == (target, {"softmax1": target})
    assert distortion_rows.nearest_target(found, {}) == ("random", {})
    assert "worst: softmax1" in distortion_rows.nearest_words(found, {"softmax1": means["worst"]})[0]


def test_leaving_the_label_is_no_farther_than_a_random_target(
    basket: Basket, asked: Asked, found: dict[str, Distorted], tmp_path: Path
) -> None:
    run = distorted(
        basket, "softmax1", asked.data, tmp_path, target="any", places=asked.places.tolist(), wrong=True, split="train"
    )
    (one,) = from_findings(run)["softmax1"]
    assert torch.equal(one.origins, asked.origins)  # in the order that was asked for
    said = basket.predict(one.images, ["softmax1"])[0].argmax(1)
    assert (said != asked.labels).all()
    assert rms(one.images - one.origins).mean() < found["softmax1"].taken("random")[2].mean()


def test_the_study_prints_the_papers_figures_beside_its_own(done: tuple[Path, Result]) -> None:
    out, result = done
    errors = rows(result, "Table 1: errors")
    assert errors["softmax1: training error, %"].paper == 6.7
    assert errors["N200-200-10: test error, %"].paper == 1.54
    sizes = rows(result, "Table 1: average minimal distortion (RMS)")
    assert [row.paper for row in sizes.values()] == [0.062] * 3 + [0.065] * 3
    best = rows(result, "Table 2: best target")
    assert best["softmax1 → softmax1, %"].measured == 100
    assert best["softmax1 → N200-200-10, %"].paper == 3.9
    noise = rows(result, "Table 2: Gaussian noise")
    assert noise["Gaussian noise, σ = 0.3 → softmax1, %"].paper == 15.6
    assert "Fig. 5: mean minimal distortion, full-size photographs (RMS)" in {row.table for row in result.rows}
    (five,) = (row for row in result.rows if row.table.startswith("Fig. 5"))
    assert (five.paper, five.measured) == (0.006508, None)
    written = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert len(written["rows"]) == len(result.rows)
    assert any("comes nearest" in note for note in result.notes)


def test_noise_of_the_same_size_does_far_less(done: tuple[Path, Result]) -> None:
    _, result = done
    (title,) = {row.table for row in result.rows if row.table.startswith("The same size, at random")}
    pockets = rows(result, title)
    assert pockets["softmax1: its distortions, %"].measured == 100
    assert pockets["softmax1: noise as large, image by image, %"].measured < 60


def test_methods_and_lattice_stand_beside(done: tuple[Path, Result]) -> None:
    _, result = done
    two = rows(result, "Two methods on the same 2 images (RMS)")
    assert len(two) == 2 * 3 * 2
    assert two["softmax1: best target, lbfgs"].n == 2
    assert two["softmax1: best target, lbfgs"].measured == pytest.approx(
        two["softmax1: best target, closest"].measured, rel=0.1
    )
    lattice = rows(result, "Best target on the 8-bit lattice")
    assert lattice["softmax1: errs on the lattice, %"].measured == 100


def test_the_tensor_is_on_disk(done: tuple[Path, Result]) -> None:
    table = load_tensor(done[0] / "transfer.parquet")
    assert set(table["target"].to_pylist()) == {*TARGETS, None}
    assert set(table["amplification"].to_pylist()) == {None, 0.1, 0.3, 1.0}


def test_the_tensor_takes_another_norm(
    done: tuple[Path, Result], basket: Basket, asked: Asked, found: dict[str, Distorted], tmp_path: Path
) -> None:
    table = load_tensor(done[0] / "transfer.parquet")
    both, made = distortion_linf.with_linf(table, basket, asked.head(4), tmp_path, amplifications=(None, 0.1), seed=0)
    for row in made:  # the largest change is least: no larger than that of the least RMS
        images, _, sizes = found[row.quantity].taken("best")
        largest = (images - asked.origins)[:4].abs().amax((1, 2, 3)).mean()
        assert sizes[:4].mean() / 28 < (row.measured or 0) < largest
    assert both.slice(0, len(table)).equals(table)
    more = both.slice(len(table)).to_pylist()
    assert {(row["norm"], row["target"], row["n"]) for row in more} == {("linf", "any", 4)}
    assert {row["kind"] for row in more} == {"distortion", "own-noise"}


def test_figures(done: tuple[Path, Result]) -> None:
    out, result = done
    assert result.figures == ["table2", "figure5", "figure7"]
    for stem in result.figures:
        check_figure(out, stem)


def test_differences_are_magnified_around_grey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    from foible.studies.intriguing.distortion import figures as distortion_figures

    def keep(axis: Any, images: Tensor, across: int) -> tuple[float, float]:
        axis.set_xlim(0, across)
        axis.set_ylim(2, 0)
        axis.set_axis_off()
        seen.append(images)
        return 1.0, 1.0

    monkeypatch.setattr(distortion_figures, "_mosaic", keep)
    origins = torch.full((2, 1, 4, 4), 0.5)
    images = origins.clone()
    images[0], images[1] = 0.51, 0.2
    figure5([Shown("t", images, origins, ("a → b", "c → d"))], tmp_path)
    assert seen[0].flatten(1).mean(1).tolist() == pytest.approx([0.5, 0.6, 0.51, 0.5, 0.0, 0.2])
    figure7([Shown("t", images, origins)], tmp_path, rows=2, pairs=1)
    assert seen[1].flatten(1).mean(1).tolist() == pytest.approx([0.5, 0.51, 0.5, 0.2])


def test_full_size_photographs(networks: Path, tmp_path: Path) -> None:
    """Here the "photographs" are digits: those that the network gets right, each until its label is lost."""
    made = distort_photographs(f"{networks}/softmax1", "digits", tmp_path, seed=0, device="cpu", quiet=True, count=20)
    assert made.tried == 20
    assert len(made.sizes) == 20
    assert min(made.sizes) > 0  # none was wrong before
    check = figure5([made.shown], tmp_path, "photographs", rows=4)
    check_figure(tmp_path, check)


def test_half_of_fig_5s_options_is_refused(networks: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give the other one too"):
        run_study("distortion", data="digits", basket=str(networks), out=tmp_path, options={"network": "x"})
    with pytest.raises(UserError, match="expected at least 1"):
        counted(0, 5, "images", 10)
    assert counted(None, 50, "images", 10) == 10


def test_other_networks_name_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dimmed(model: Model, images: Tensor, labels: Tensor, **_: Any) -> Nearest:
        del model
        none = torch.zeros(len(labels), dtype=torch.int64)
        return Nearest(images * 0.9, none == 0, none > 0, none, none)

    monkeypatch.setattr("foible.recipes.distort.recipe.make_methods", lambda *_: (dimmed,))
    monkeypatch.setattr("foible.recipes.distort.units.Distorting.fallback", lambda *_: None)  # nor another search
    data = load("digits", "train")
    basket = others.networks("digits", tmp_path, seed=0, device="cpu", quiet=True, epochs=1)
    assert basket.names == tuple(others.NETWORKS)
    first, again = (basket.network(name) for name in ("sigmoid-100-100", "sigmoid-100-100-again"))
    assert isinstance(first, nn.Module)
    assert isinstance(again, nn.Module)
    assert not torch.equal(first.hidden1.weight, again.hidden1.weight)  # type: ignore[arg-type,union-attr]
    table = others.tensor(basket, data, 3, tmp_path, seed=0, quiet=True)
    made = others.rows(table, "best")
    assert len(made) == 2 * 2 * 5
    assert {row.table for row in made} == {
        f"Transfer across {what} (best target)" for what in ("seeds", "depths", "activations", "a convolution")
    }


def test_agreement_is_the_mean_distance_over_other_networks(done: tuple[Path, Result]) -> None:
    table = load_tensor(done[0] / "transfer.parquet")
    shares = {
        row["target"]: 100 * row["share"]
        for row in table.to_pylist()
        if (row["source"], row["judge"], row["kind"]) == ("softmax1", "N200-200-10", "distortion")
        and row["amplification"] is None
    }
    (note,) = distortion_rows.agreement_words(
        "T", table, {("softmax1", "N200-200-10"): 50.0, ("softmax1", "softmax1"): 0.0}
    )
    for target in TARGETS:
        assert f"{target} target {abs(shares[target] - 50):.1f}" in note
    assert distortion_rows.agreement_words("T", table, {}) == []


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """M1, M1' and M2, as well as digits let themselves be learnt in a moment."""
    folder = tmp_path_factory.mktemp("halves")
    data, test = load("digits", "train"), load("digits", "test")
    half = len(data) // 2
    entries = []
    for name, spec, rows in (
        ("M1", "mlp:10,sigmoid", slice(0, half)), ("M1'", "mlp:12,sigmoid", slice(0, half)),
        ("M2", "mlp:10,sigmoid", slice(half, None)),
    ):  # fmt: skip
        part = replace(data, images=data.images[rows], labels=data.labels[rows])
        (entry,) = train(spec, part, test=test, epochs=15, device="cpu", quiet=True)
        entries.append(replace(entry, name=name))
    files.save_basket(folder, entries, {})
    return folder


def test_split_transfer(halves: Path, tmp_path: Path) -> None:
    result = run_study(
        "split-transfer", data="digits", basket=str(halves), out=tmp_path, device="cpu", quiet=True,
        options={"images": "8"},
    )  # fmt: skip
    errors = rows(result, "Table 3: errors")
    assert errors["M1: error on P2, %"].paper == 2.4
    rows_of_train = len(load("digits", "train"))
    assert errors["M1: error on P1, %"].n == rows_of_train // 2
    assert errors["M1: error on P2, %"].n == rows_of_train - rows_of_train // 2
    found = rows(result, "Table 4: minimal distortion, best target")
    assert found["M1 → M1', %"].paper == 26.2
    assert found["M1' → M1', %"].measured == 100
    more = rows(result, "Table 4: amplified to RMS 0.1, random target")
    assert more["M2 → M1', %"].paper == 50
    noise = rows(result, "Table 4: Gaussian noise")
    assert [noise[f"Gaussian noise, σ = {size} → M2, %"].paper for size in (0.06, 0.1)] == [2.4, 2.7]
    table = load_tensor(tmp_path / "transfer.parquet")
    pairs = {(row["source_split"], row["judge_split"]) for row in table.to_pylist() if row["kind"] == "distortion"}
    assert pairs == {(one, other) for one in ("P1", "P2") for other in ("P1", "P2")}
    assert set(table["image_split"].to_pylist()) == {"test"}
    assert result.figures == ["table4"]
    check_figure(tmp_path, "table4")
