"""`foible study ascent` and `foible study confidence`, tiny; and their parts by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pictures import check_figure

from foible.basket import Basket
from foible.errors import UserError
from foible.findings import Findings
from foible.search.climb import ascend
from foible.search.climb.ascend import Ascended
from foible.studies import run_study
from foible.studies.easily_fooled import ascent, figures
from foible.studies.easily_fooled.rows import median_row
from foible.studies.easily_fooled.stage import Climbed, chosen_classes

TINY = {"network": "softmax", "epochs": "10", "images": "0", "starts": "2", "steps": "30"}


def rows_of(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    result = json.loads((folder / "result.json").read_text("utf-8"))
    return {(row["table"], row["quantity"]): row for row in result["rows"]}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ascent") / "out"
    run_study("ascent", data="digits", out=out, device="cpu", quiet=True, options=TINY)
    return out


def test_rows_and_figures(tiny: Path) -> None:
    rows = rows_of(tiny)
    mean = rows["Confidence of the images, as a PNG holds them", "decay (S5): mean, %"]
    assert (mean["paper"], mean["n"]) == (98.591, 20)
    plain = rows["Confidence of the images, as a PNG holds them", "plain: mean, %"]["measured"]
    assert 20 < mean["measured"] < plain < 100  # decay takes away from what the climb gains
    same, other = (
        rows["Starts of one class (Figs. S8, S9): correlation of images less the mean", f"plain: {which}"]["measured"]
        for which in ("same class, other start", "other class, same start")
    )
    assert same > 0.5 > other
    assert rows["Accuracy", "softmax-s0, %"]["measured"] > 80
    for stem in ("plain", "figure-s5", "figure-s6", "figure-s7", "figure-s8", "figure-s9", "confidence-by-step"):
        check_figure(tiny, stem)


def test_climbs_that_ended_are_not_climbed_again(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, steps, step = rows_of(tiny), [0], ascend._step

    def counted(*given: Any) -> None:
        steps[0] += 1
        step(*given)

    monkeypatch.setattr(ascend, "_step", counted)
    (tiny / "climbs" / "blur.safetensors").unlink()  # as if it had been killed before
    run_study("ascent", data="digits", out=tiny, device="cpu", quiet=True, options=TINY)
    assert rows_of(tiny) == before
    assert steps == [30]


def made(confidence: list[list[float]], trace: list[list[float]]) -> Climbed:
    """Two starts of two classes."""
    sure = torch.tensor(confidence).flatten()
    came = Ascended(
        torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 4, 2), sure, (0, 10, 20), torch.tensor(trace),
        torch.zeros(4, dtype=torch.bool),
    )  # fmt: skip
    return Climbed([0, 1], 2, came)


def test_classes_and_steps_to_99_percent_by_hand() -> None:
    trace = [[0.1, 0.1, 0.1, 0.1], [0.5, 0.995, 0.2, 0.99], [0.98, 0.5, 0.6, 0.999]]
    climbed = made([[0.98, 0.5], [0.6, 0.999]], trace)
    confidence = {row.quantity: row for row in ascent._confidence("blur", climbed)}
    assert confidence["blur (S7): classes below 99 %, first start"].measured == 2
    assert confidence["blur (S7): classes below 99 % from every start"].measured == 1
    never, steps = ascent._reached("blur", climbed)
    assert (never.measured, steps.measured, steps.n) == (50, 10, 2)


def test_medians_have_the_interval_of_order_statistics() -> None:
    row = median_row("t", "q", None, range(1, 101))
    assert (row.measured, row.low, row.high, row.n) == (50.5, 40, 61, 100)
    assert (median_row("t", "q", None, [3.0]).measured, median_row("t", "q", None, [3.0]).low) == (3.0, None)
    assert median_row("t", "q", None, []).measured is None


def test_classes_by_number_and_by_name() -> None:
    names = ["cat", "soccer ball", "dog"]
    basket = Basket({"A": torch.nn.Flatten()}, classes=names, preprocess="inside")
    assert chosen_classes(basket, "20", 0) == [0, 1, 2]
    assert len(chosen_classes(basket, "2", 0)) == 2
    assert chosen_classes(basket, "soccer ball; cat", 0) == [1, 0]
    with pytest.raises(UserError, match="classes has 'dgo'"):
        chosen_classes(basket, "dgo", 0)


def test_less_the_mean_is_grey_where_nothing_was_changed() -> None:
    mean = torch.rand(1, 4, 4)
    image = mean.clone()
    image[0, 1, 2] += 0.25
    shown = figures.less_mean(image[None], mean)[0, 0]
    assert float(shown[1, 2]) == 1
    assert float(shown[0, 0]) == 0.5


def test_confidence_of_real_and_fooling_images(tiny: Path, tmp_path: Path) -> None:
    from foible import distort

    basket, run = str(tiny / "basket"), tmp_path / "run"
    distort(basket, "digits", out=run, source="softmax-s0", images=20, device="cpu", quiet=True, workers=1)
    options = {"starts": "2", "steps": "20", "fooling": str(run)}
    run_study(
        "confidence", data="digits", basket=basket, out=tmp_path / "out", device="cpu", quiet=True, options=options
    )
    rows, table = rows_of(tmp_path / "out"), "digits: median confidence, %"
    whole, right, wrong = (rows[table, f"real, {which}"] for which in ("all", "right", "wrong"))
    assert [row["paper"] for row in (whole, right, wrong)] == [60.3, 86.7, 33.7]
    assert wrong["measured"] < whole["measured"] < right["measured"]
    assert right["n"] + wrong["n"] == whole["n"]
    found = rows[table, "fooling: run"]
    assert (found["paper"], found["n"]) == (88.11, len(Findings.open(run).filter(outcome="found")))
    assert found["measured"] < right["measured"]  # a minimal distortion ends at the boundary
    told = rows["digits: can it be told? run", "max-softmax: AUROC"]
    assert told["measured"] > 0.8
    assert ("digits: can it be told? ascent, plain", "disagreement: AUROC") in rows
    with pytest.raises(UserError, match="give them with --basket"):
        run_study("confidence", data="digits", out=tmp_path / "none", quiet=True, options={"fooling": str(run)})
