"""`foible study units`: the parts it is made of, and the whole on the bundled digits and on a given basket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pictures import check_figure
from small_tasks import linear_task

from foible.basket import Basket
from foible.data import load
from foible.studies import run_study
from foible.studies.intriguing import units as study


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("study")
    options = {"network": "mlp:40", "epochs": "30"}
    run_study("units", data="digits", out=out, quiet=True, options=options)
    return json.loads((out / "result.json").read_text()), out


def test_on_digits_the_rows_say_what_the_paper_says(record: tuple[dict[str, Any], Path]) -> None:
    found, out = record
    rows = {row["quantity"]: row for row in found["rows"]}
    assert {row["paper"] for row in rows.values()} == {None}
    purity = {kind: rows[f"{kind}: class purity"] for kind in ("natural units", "random directions")}
    chance = rows["images drawn at random: class purity"]
    for one in purity.values():
        assert one["low"] > chance["high"]
    difference = rows["natural units − random directions: class purity"]
    means = [one["measured"] for one in purity.values()]
    assert difference["measured"] == pytest.approx(means[0] - means[1])
    assert 0 < rows["natural units − random directions: class purity, p"]["measured"] <= 1
    assert -1 <= rows["natural units: coherence"]["measured"] <= 1
    notes = (out / "table.md").read_text()
    assert "the rows of random directions have something in common" in notes
    for stem in ("grey-rows-random", "grey-rows-whitened", "grey-alike"):
        check_figure(out, stem)
    assert json.loads((out / "grey" / "units.json").read_text())["settings"]["judge"] == "mlp-100"


def test_a_second_run_trains_nothing(record: tuple[dict[str, Any], Path], capsys: pytest.CaptureFixture[str]) -> None:
    found, out = record
    run_study("units", data="digits", out=out, options={"network": "mlp:40", "epochs": "30"})
    assert capsys.readouterr().err.count("nothing to train") == 2
    assert json.loads((out / "result.json").read_text()) == found


def test_a_given_basket_is_inspected(tmp_path: Path) -> None:
    task = linear_task(tmp_path / "task")
    # A linear network has one layer to tap: what its output layer is given, the pixels.
    data = _as_test(task.data)
    result = run_study("units", data=data, basket=str(task.basket), out=tmp_path / "out", quiet=True)
    assert result.rows[0].table.startswith("Figs. 1–4: A on npz:")
    assert result.figures == ["given-rows-random", "given-rows-whitened", "given-alike"]


def _as_test(data: str) -> str:
    """Write the task's images again as a test split; its spec."""
    file = Path(data.removeprefix("npz:"))
    arrays = np.load(file)
    np.savez(
        file.with_name("test.npz"), x_train=arrays["images"], y_train=arrays["labels"], x_test=arrays["images"],
        y_test=arrays["labels"], classes=arrays["classes"],
    )  # fmt: skip
    return f"npz:{file.with_name('test.npz')}"


def test_images_to_inspect_were_never_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where training images are taken from the test split, only what is left of it is inspected."""
    learnt = {}

    def train(specs: list[str], data: object, **_: object) -> None:
        learnt[specs[0]] = data

    monkeypatch.setattr(study, "train", train)
    monkeypatch.setattr(Basket, "open", lambda *_, **__: None)
    part = study.Part("Figs. 3, 4", "digits", "mlp:10", "mlp:20", ("",), images=100, held=True)
    _, seen = study._trained(part, tmp_path, 0, "cpu", quiet=True)
    whole = load("digits", "test")
    assert len(seen) == len(whole) - 100
    for data in learnt.values():
        assert torch.equal(torch.cat([data.images, seen.images]), whole.images)  # type: ignore[attr-defined]
    assert set(learnt) == {"mlp:10", "mlp:20"}


def test_without_colour_images_the_study_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOIBLE_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [(name, part.data, part.judge) for name, part in study._parts("paper", None)] == [
        ("grey", "digits", "mlp:100")
    ]
    assert study._parts("paper", "cifar10")[0][1].network == "resnet:8"
