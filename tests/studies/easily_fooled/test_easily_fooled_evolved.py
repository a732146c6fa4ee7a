"""The studies of evolved images (`foible study fooling` and the three beside it), tiny; and their parts by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pictures import check_figure
from torch import Tensor

from foible.errors import UserError
from foible.networks.loop import Schedule
from foible.statistics import wilson
from foible.studies import run_study
from foible.studies.common import Row, shown
from foible.studies.easily_fooled import retrain, trained
from foible.studies.easily_fooled.ensemble import mean_confidence
from foible.studies.easily_fooled.evolved import Evolved, mean_of, ratio_row
from foible.studies.easily_fooled.likeness import alike, how_often, lower_horizontal, vertical
from foible.studies.easily_fooled.retrain import TABLE_S2, drawn, sizes
from foible.studies.easily_fooled.transfer import matches, ranked

TINY = {"steps": "150", "generations": "12", "population": "30"}
Rows = dict[tuple[str, str], dict[str, Any]]


def study(name: str, out: Path, **options: str) -> Rows:
    run_study(name, data="digits", out=out, device="cpu", quiet=True, options=TINY | options)
    result = json.loads((out / "result.json").read_text("utf-8"))
    return {(row["table"], row["quantity"]): row for row in result["rows"]}


def made(said: Tensor, target: list[int], run: list[int], images: Tensor | None = None) -> Evolved:
    """Evolved images with these answers, of networks A, B, …"""
    pixels = torch.zeros(len(target), 1, 4, 4, dtype=torch.uint8) if images is None else images
    return Evolved(
        ("x", "y"), tuple("ABC"[: len(said)]), torch.tensor(run), torch.tensor(target), pixels, pixels,
        said.double(), said.flip(1).double(), torch.zeros(1, len(target)), (1,),
    )  # fmt: skip


def test_fooling(tmp_path: Path) -> None:
    rows = study("fooling", tmp_path / "out", network="softmax", runs="3", direct="2")
    table = "Sec. D, Fig. S4: confidence"
    first, last = (rows[table, f"cppn: median after {when}, %"] for when in ("1 generation", "12 generations"))
    assert (last["paper"], last["n"], first["paper"]) == (99.99, 30, None)
    assert first["measured"] < last["measured"]
    share = rows[table, "cppn: images at 99.99 % or more, %"]
    assert (share["paper"], share["n"]) == (100, 30)
    alike = "Sec. D: correlation of images of different runs"
    assert (
        rows[alike, "cppn: of one class, mean of classes"]["measured"]
        > rows[alike, "cppn: of a class and the others"]["measured"]
    )
    assert 1 <= rows[alike, "cppn: place of 3 and 8 among 45 pairs"]["measured"] <= 45
    assert rows["Sec. D: bars", "cppn, vertical bars: AUROC of 1"]["n"] == 3
    for stem in ("figure-s4", "direct", "likeness", "confidence-by-generation"):
        check_figure(tmp_path / "out", stem)


def test_transfer(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = study("fooling-transfer", out, network="softmax", others="mlp:10", runs="2", few="1")
    table = "Table S1: networks that differ only in their first weights"
    one, other, both = (
        rows[table, f"{which}: top-1 matches, %"] for which in ("A on images of B", "B on images of A", "average")
    )
    assert (one["paper"], other["paper"], both["paper"], both["n"]) == (43.3, 48.7, 46.0, 40)
    assert both["measured"] == pytest.approx((one["measured"] + other["measured"]) / 2)
    assert rows["Sec. A.2: different architectures, top-1 matches, %", "softmax-s0 on images of mlp-10-s0"]["n"] == 10
    assert rows["Table S1 by class: top-1 matches, both directions, %", "7"]["n"] == 4
    check_figure(out, "who-is-fooled")
    assert json.loads((out / "result.json").read_text("utf-8"))["settings"]["A"] == "softmax-s0"


def test_ensemble(tmp_path: Path) -> None:
    rows = study("fooling-ensemble", tmp_path / "out", networks="softmax mlp:10", runs="2", alone="1")
    table = "Sec. B: evolved against the mean of the networks"
    share, median = rows[table, "images at 90 % or more, %"], rows[table, "median confidence, %"]
    assert (share["paper"], share["n"], median["paper"]) == (23.1, 20, 65.2)
    # What evolved against the mean has more of it than what evolved against one.
    alone = rows["Evolved against one network, under the mean", "softmax-s0: the mean's, median %"]
    assert alone["measured"] < median["measured"] <= rows[table, "highest confidence, %"]["measured"]
    check_figure(tmp_path / "out", "ensemble")


def test_retrain_goes_on_where_it_was_and_learns_a_class_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, options = tmp_path / "out", {"network": "mlp:10", "images": "600", "generations": "6"}
    usual = retrain.evolved

    def killed(basket: Any, data: str, place: Path, name: str, **how: Any) -> Any:
        if name == "dnn-2":
            raise KeyboardInterrupt
        return usual(basket, data, place, name, **how)

    with monkeypatch.context() as patch:
        patch.setattr(retrain, "evolved", killed)
        with pytest.raises(KeyboardInterrupt):
            study("fooling-retrain", out, iterations="2", **options)
    monkeypatch.setattr(trained, "train_one", lambda *_, **__: pytest.fail("trained a second time"))
    rows = study("fooling-retrain", out, iterations="2", **options)
    one, two = (rows["Table S2", f"DNN {number}: images to train on"] for number in (1, 2))
    assert (one["measured"], one["paper"], two["measured"], two["paper"]) == (600, 60000, 660, 66000)
    assert rows["Table S2", "DNN 2: images to test on"]["measured"] == 355 + 10
    assert rows["Table S2", "DNN 2: error on the original set, %"]["measured"] < 40
    assert rows["Table S2", "DNN 2: fooling images of the test set that it calls so, %"]["measured"] > 50
    assert rows["Table S2", "DNN 1: score, the median confidence of new images, %"]["n"] == 40
    assert ("Mann–Whitney U, between networks", "DNN 1 and DNN 2: p, medians of runs") in rows
    for stem in ("retrained", "images"):
        check_figure(out, stem)


def test_sizes_are_those_of_table_s2_and_of_sec_c2() -> None:
    train, test = 60000, 10000
    for number, (_, _, learnt, held, _) in enumerate(TABLE_S2, 1):
        assert (train, test) == (learnt, held)
        more = sizes(60000, 10, 1, number)
        train, test = train + more[0], test + more[1]
    assert sizes(1300 * 1000, 1000, 7, 1) == (9100, 1516)


def test_half_of_what_is_added_is_of_first_generations() -> None:
    images = torch.arange(40, dtype=torch.uint8).view(40, 1, 1, 1).expand(40, 1, 4, 4)
    some = made(torch.zeros(1, 40, 2), [0, 1] * 20, [run for run in range(20) for _ in (0, 1)], images)
    object.__setattr__(some, "first", images + 100)
    train, test = drawn(some, (30, 10), seed=0, number=1)
    whole = torch.cat([train, test])[:, 0, 0, 0]
    assert (len(train), len(test), len(whole.unique())) == (30, 10, 40)
    assert int((whole >= 100).sum()) == 20
    assert 5 < int((train[:, 0, 0, 0] >= 100).sum()) < 25  # mixed
    again = drawn(some, (30, 10), seed=0, number=1)
    assert torch.equal(again[0], train)
    assert not torch.equal(drawn(some, (30, 10), seed=1, number=1)[0], train)


def test_matches_of_table_s1_by_hand() -> None:
    own = torch.tensor([[0.999, 0.001], [0.995, 0.005], [0.6, 0.4], [0.2, 0.8]])
    other = torch.tensor([[0.9999, 0.0001], [0.7, 0.3], [0.4, 0.6], [0.1, 0.9]])
    some = made(torch.stack([own, other]), [0, 0, 1, 1], [0, 0, 1, 1])
    counts = matches(some, "B")
    assert {kind: (int((hits & of).sum()), int(of.sum())) for kind, (hits, of) in counts.items()} == {
        "same": (3, 4), "sure": (1, 4), "higher": (1, 3),
    }  # fmt: skip
    assert ranked([(some, "B")]) == [0, 1]
    assert matches(some, "B", first=True)["same"][0].tolist() == [True, False, True, True]
    assert mean_confidence(some).tolist() == pytest.approx([0.99945, 0.8475, 0.5, 0.85])


def test_intervals_are_over_runs() -> None:
    hits, every = torch.tensor([True, True, False, False, True, False]), torch.ones(6, dtype=torch.bool)
    apart = ratio_row("t", "q", None, hits, every, torch.arange(6))
    assert apart.measured == 50
    # The same answers, each given ten times within its run: as many runs, and no more certain.
    often = ratio_row("t", "q", None, hits.repeat_interleave(10), every.repeat_interleave(10),
                      torch.arange(6).repeat_interleave(10))  # fmt: skip
    assert (often.low, often.high, often.n) == (pytest.approx(apart.low), pytest.approx(apart.high), 60)
    whole = ratio_row("t", "q", None, every, every, torch.arange(6))
    assert (whole.low, whole.high) == (100 * wilson(6, 6)[0], 100)
    assert ratio_row("t", "q", 3.0, hits, ~every, torch.arange(6)) == Row("t", "q", 3.0, None, n=0)
    mean = mean_of("t", "q", 1.0, [Row("t", "a", None, 40, 10, 70, 5), Row("t", "b", None, 60, 20, 100, 7)])
    assert (mean.measured, mean.low, mean.high, mean.n) == (50, 25, 75, 12)


def test_likeness_within_classes_and_its_control() -> None:
    run, target = torch.arange(12).repeat_interleave(2), torch.tensor([0, 1] * 12)
    pattern = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    noise = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    alike_ones = ((0.7 * pattern[target] + 0.3 * noise) * 255).to(torch.uint8)
    found = alike(alike_ones, run, target, seed=0, draws=99)
    assert found is not None
    assert float(found.within.min()) > 0.6 > float(found.between.max()) + 0.3
    assert found.p == 0.01
    control = alike((noise * 255).to(torch.uint8), run, target, seed=0, draws=99)
    assert control is not None
    assert control.p > 0.05
    assert float(control.within.abs().max()) < 0.1
    assert alike(alike_ones[:2], run[:2], target[:2], seed=0) is None  # one run


def test_bars() -> None:
    columns = (torch.arange(8) % 2 * 255).to(torch.uint8).expand(1, 1, 8, 8)
    lower = torch.zeros(1, 1, 8, 8, dtype=torch.uint8)
    lower[..., 5, :] = 255
    upper = lower.flip(2)
    assert [float(vertical(image)[0]) for image in (columns, lower, upper)] == [1, 0, 0]
    assert [float(lower_horizontal(image)[0]) for image in (columns, lower, upper)] == [0, 1, 0]
    assert how_often(torch.tensor([3.0, 2.0]), torch.tensor([1.0, 2.0]))[0] == 0.875


def test_inverse_rate_is_caffes() -> None:
    schedule = Schedule(images=64, batch=64, epochs=20000, rate=0.01, inverse=(1e-4, 0.75))
    assert schedule.rate_at(0) == 0.01
    assert schedule.rate_at(10_000) == pytest.approx(0.01 * 2**-0.75)


@pytest.mark.parametrize(
    ("value", "text"),
    [(99.99, "99.99"), (99.9967, "99.997"), (99.99999999, "99.99999"), (100.0, "100"), (99.4, "99.4")],
)
def test_what_is_almost_100_is_not_shown_as_100(value: float, text: str) -> None:
    assert shown(value) == text


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="trains its own networks"):
        run_study("fooling-retrain", data="digits", out=tmp_path / "a", basket="B", quiet=True)
    with pytest.raises(UserError, match="runs is -3: expected at least 1"):
        study("fooling", tmp_path / "b", runs="-3")
