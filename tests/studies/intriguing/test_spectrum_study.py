"""`foible study spectrum`: Table 5 beside what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pictures import check_figure
from small_tasks import Task

from foible.inspect.spectrum.bounds import Bounds
from foible.inspect.spectrum.record import Spectrum
from foible.studies import run_study
from foible.studies.intriguing.spectrum import study
from foible.studies.intriguing.spectrum.table5 import TABLE5, draw_table5, matches


def made(sizes: list[str], **options: Any) -> Spectrum:
    """A spectrum whose bounds are the paper's own."""
    values = [(row[2], row[3]) for row in TABLE5]
    bounds = tuple(
        Bounds(f"layer{place}", "Conv2d", size, place, place, True, *values[place % 8], **options)
        for place, size in enumerate(sizes)
    )
    return Spectrum("alexnet", (3, 224, 224), bounds, (), (), True, 7.0, None, None, {})


SIZES = [row[1] for row in TABLE5]


def test_table_5_stands_beside_its_own_architecture_alone() -> None:
    assert matches(made(SIZES))
    assert matches(made(["3×11×11×96, stride 4", *SIZES[1:]]))
    assert matches(made([SIZES[0], "48×5×5×256, 2 groups", *SIZES[2:]]))
    assert not matches(made(SIZES[:-1]))
    assert not matches(made(["3×11×11×64", *SIZES[1:]]))  # torchvision's


def test_rows_set_the_papers_bounds_beside_ours(tmp_path: Path) -> None:
    rows = study.bound_rows(made(SIZES), TABLE5)
    assert all(row.paper == row.measured for row in rows[:-1])
    assert [row.quantity for row in rows[:2]] == [
        "Conv. 1 (3×11×11×96): lower bound", "Conv. 1 (3×11×11×96): upper bound",
    ]  # fmt: skip
    assert (rows[-1].quantity, rows[-1].measured) == ("product of upper bounds, pixels to logits", 7.0)
    plain = study.bound_rows(made(SIZES, papers_upper=30.0, real_lower=0.5, at_most=True))
    assert {row.paper for row in plain} == {None}
    assert "layer0 (3×11×11×96): upper bound, the paper's own form" in [row.quantity for row in plain]
    assert "layer0 (3×11×11×96): lower bound, real layer (at most)" in [row.quantity for row in plain]
    check_figure(tmp_path, draw_table5(made(SIZES), tmp_path))


def test_the_study_of_a_given_basket(task: Task, tmp_path: Path) -> None:
    result = run_study("spectrum", basket=str(task.basket), out=tmp_path, quiet=True, device="cpu")
    assert {row.table for row in result.rows} == {f"Frame bounds: {name}" for name in "ABC"}
    assert result.figures == []
    assert any("bounds alone" in note for note in result.notes)
    kept = json.loads((tmp_path / "networks" / "A" / "spectrum.json").read_text())
    assert kept["product"] == next(row.measured for row in result.rows if row.quantity.startswith("product"))


def test_the_study_trains_and_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mlps: Any) -> None:
    """All of it but the training of the paper's networks and AlexNet's size."""
    from dataclasses import replace

    monkeypatch.setattr(study, "paper_networks", lambda *_, **__: mlps)
    monkeypatch.setitem(study.PLANS, "quick", replace(study.PLANS["quick"], epochs=1, learn=200))
    result = run_study(
        "spectrum", data="digits", out=tmp_path, quiet=True, device="cpu", options={"images": "4", "alexnet": "no"}
    )
    rows = {(row.table, row.quantity): row for row in result.rows}
    grown = rows["Growth: conv", "network: along distortions"]
    assert grown.n == 4
    assert grown.measured is not None
    bound = rows["Frame bounds: conv", "product of upper bounds, pixels to logits"].measured
    assert bound is not None
    assert grown.measured < bound
    shares = [row.measured or 0 for (table, what), row in rows.items() if table == "Growth: conv" and "share" in what]
    assert sum(shares) == pytest.approx(100)
    assert result.figures == ["growth", "growth-mlp-10"]
    for stem in result.figures:
        check_figure(tmp_path, stem)
    assert not any("first weights" in note for note in result.notes)
    kept = {run.name.partition("-")[0] for run in (tmp_path / "distorted").iterdir()}  # to go on with
    assert kept == {"mlp", "conv"}


@pytest.fixture
def mlps(tmp_path: Path) -> Any:
    from foible.basket import Basket
    from foible.recipes.train.train import train

    train(["mlp:10"], "digits", epochs=2, out=tmp_path / "mlps", quiet=True)
    return Basket.open(tmp_path / "mlps")
