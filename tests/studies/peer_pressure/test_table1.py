"""Paper 1's Table 1: what is counted, how it is set beside the paper, and the trends in words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pictures import check_figure
from small_tasks import SPACE, Task, linear_task

from foible.errors import UserError
from foible.findings import Findings
from foible.findings.tally import summarise
from foible.studies import run_study
from foible.studies.common import Result
from foible.studies.peer_pressure.table1 import figures as table1_figures
from foible.studies.peer_pressure.table1 import sizes as table1_sizes
from foible.studies.peer_pressure.table1 import study as table1
from foible.studies.peer_pressure.table1 import trends
from foible.studies.peer_pressure.table1.study import PAPER, Counts

TRIALS = 6


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return linear_task(tmp_path_factory.mktemp("linear"))


def study(task: Task, out: Path, **options: str) -> Result:
    return run_study(
        "table1", data=task.data, basket=str(task.basket), out=out, quiet=True, device="cpu",
        options={"trials": str(TRIALS), "space": SPACE, "workers": "1", "patience": "40"} | options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done(linear: Task, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("table1")
    return out, study(linear, out)


def papers(scale: float = 1.0) -> list[Counts]:
    """Counts whose figures are the paper's own (with 100 trials)."""
    return [
        Counts(name, 100, *([round(scale * value)] * int(success) for value in (moves, cost, cost / 2)))
        for name, (success, moves, cost) in PAPER.items()
    ]


def test_rows_set_the_papers_figures_beside_ours() -> None:
    rows = table1.rows_of("t", papers())
    assert len(rows) == 5 * 4
    for row in rows:
        if row.quantity.endswith("spent"):
            assert row.paper is None
        else:
            assert row.measured == row.paper
    assert [row.quantity for row in rows[:2]] == ["A (10): success, %", "B (20): success, %"]
    assert [row.paper for row in rows[10:15]] == [507, 640, 852, 801, 819]


def test_networks_that_the_paper_lacks_have_no_paper_figure() -> None:
    rows = table1.rows_of("t", [Counts("resnet-20", 10, [3, 5], [40, 60], [20, 30])])
    assert {row.paper for row in rows} == {None}
    assert [(row.quantity, row.measured) for row in rows[:2]] == [
        ("resnet-20: success, %", 20),
        ("resnet-20: moves", 4),
    ]
    assert table1.paper_series([Counts("resnet-20")]) is None


def test_nothing_found_is_no_mean() -> None:
    rows = table1.rows_of("t", [Counts("mlp-10", 10)])
    assert [row.measured for row in rows] == [0, None, None, None]


def test_trends_of_the_papers_own_figures_hold() -> None:
    series = table1.paper_series(papers())
    assert series is not None
    rows = trends.trend_rows("Trends", series, series)
    assert [row.measured for row in rows] == [row.paper for row in rows]
    assert [row.measured for row in rows] == pytest.approx([7 / 63, -0.9, 819 / 507, 0.7, 1.0])
    (words,) = trends.trend_words("here", series)
    assert "success 63 / 25 / 9 / 5 / 7 %, falling from the smallest network" in words
    assert "rising with size, as in the paper" in words
    assert "5 to 6 as in the paper; +1.0 from the first to the last network" in words


@pytest.mark.parametrize(
    ("success", "said"),
    [
        ([90, 20, 30, 25, 40], "highest for the smallest network as in the paper, but not falling further"),
        ([10, 20, 30, 40, 50], "not highest for the smallest network, unlike the paper"),
        ([50, 50, 50, 50, 50], "not highest"),
        ([50, 40, 30, 20, 10], "falling from the smallest"),
    ],
)
def test_success_that_does_not_fall_is_said(success: list[float], said: str) -> None:
    assert said in trends.fall_of(success)


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ([100, 900, 300, 400, 200], "least for the smallest network as in the paper, but not rising further"),
        ([500, 400, 600, 700, 800], "not least for the smallest network, unlike the paper"),
        ([None, 400, 600, 700, 800], "not least"),
        ([100, 200, None, 300, 400], "rising with size"),
    ],
)
def test_inferences_that_do_not_rise_are_said(cost: list[float | None], said: str) -> None:
    assert said in trends.rise_of(cost)


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ([9.0, 9, 10, 12, 12], "more than the paper's 5 to 6"),
        ([2.0, 3, 3, 3, 4], "fewer than the paper's 5 to 6"),
        ([2.0, 3, 3, 3, 9], "on both sides"),
    ],
)
def test_moves_other_than_the_papers_are_said(moves: list[float], said: str) -> None:
    (words,) = trends.trend_words("here", ([5, 4, 3, 2, 1], moves, [1, 2, 3, 4, 5]))
    assert said in words
    assert "No trial succeeded" in trends.trend_words("here", ([0, 0], [None, None], [None, None]))[0]


def test_rank_correlation() -> None:
    assert trends.rank_correlation([1, 5, 9]) == pytest.approx(1)
    assert trends.rank_correlation([9, None, 1]) == pytest.approx(-1)
    assert trends.rank_correlation([4, 4, 4]) is None


def test_the_study_counts_what_its_runs_hold(done: tuple[Path, Result]) -> None:
    out, result = done
    rows = {(row.table, row.quantity): row for row in result.rows}
    assert len(rows) == len(result.rows) == 4 * 3 * 4 + 4 * 5
    found = 0
    for mode, name in ((table1.PAPERS_MODE, "paper"), (table1.OUR_MODE, "composed")):
        for confidence in (0, 0.9):
            run = out / f"hunt-{name}-{confidence:g}"
            table = f"Table 1: {mode}, peer confidence {confidence:g}"
            for one in summarise(run):
                what = one["suspect"]
                assert rows[table, f"{what}: success, %"].measured == pytest.approx(100 * one["success"])
                assert rows[table, f"{what}: success, %"].n == TRIALS
                for quantity, key in (
                    ("moves", "moves"), ("inferences, spent", "inferences_spent"),
                    ("inferences, paper's count", "inferences_as_the_paper_counts"),
                ):  # fmt: skip
                    assert rows[table, f"{what}: {quantity}"].measured == (one[key] and pytest.approx(one[key]))
                found += one["found"]
    assert found > 10


def test_the_two_modes_are_the_papers_and_ours(done: tuple[Path, Result]) -> None:
    out, _ = done
    for name, confidence in (("paper", 0), ("composed", 0.9)):
        settings = next(iter(Findings.open(out / f"hunt-{name}-{confidence:g}").configs.values()))
        assert ("resample=each" in settings["space"]) == (name == "paper")
        assert f"peer_confidence={float(confidence)}" in settings["objective"] or confidence == 0
        assert settings["split"] == "train"


def test_files_of_the_study(done: tuple[Path, Result]) -> None:
    out, result = done
    assert result.figures == ["table1"]
    check_figure(out, "table1")
    text = (out / "table.md").read_text()
    assert "rotation ± 8°, each stretch ± 8 %, shear ± 5 %, each shift ± 0.7 px" in text
    assert "candidates × networks" in text
    assert json.loads((out / "result.json").read_text())["settings"]["trials of each suspect"] == TRIALS


def test_the_same_command_uses_what_is_there(done: tuple[Path, Result], linear: Task) -> None:
    out, result = done
    shards = {file: file.stat().st_mtime_ns for file in out.glob("hunt-*/shards/*.parquet")}
    assert len(shards) == 4 * 3
    assert study(linear, out).rows == result.rows
    assert {file: file.stat().st_mtime_ns for file in shards} == shards


def test_a_lost_shard_is_made_again(done: tuple[Path, Result], linear: Task) -> None:
    out, result = done
    lost = sorted(out.glob("hunt-paper-0/shards/*.parquet"))[1]
    content = lost.read_bytes()
    lost.unlink()
    assert study(linear, out).rows == result.rows
    assert lost.read_bytes() == content


@pytest.mark.parametrize("space", ["affine?resample=each", "swaps", "afine"])
def test_spaces_that_make_no_sense_are_refused(tmp_path: Path, linear: Task, space: str) -> None:
    with pytest.raises(UserError, match=r"expected affine with sizes alone|unknown space|did you mean"):
        study(linear, tmp_path, space=space)


def test_sizes_closest_to_the_paper_are_named() -> None:
    assert table1_sizes.away(papers(), PAPER) == pytest.approx(1.0, abs=0.01)
    hunts = {"near": papers(1.1), "far": papers(3), "none": [Counts("mlp-10", 5)]}
    rows, notes = table1_sizes.measure(hunts, PAPER)
    assert "near comes closest" in notes[0]
    moves = [row for row in rows if row.quantity == "near: mean moves"]
    assert moves[0].paper == pytest.approx(5.6)
    assert table1_sizes.away([Counts("mlp-10", 5)], PAPER) is None
    assert table1_sizes.measure({"x": [Counts("other", 5, [1], [1], [1])]}, PAPER)[1] == []


def test_a_factor_scales_every_part_of_a_move() -> None:
    assert table1_sizes.spec_of(2) == "affine?degrees=10&percent=10&shear=10&pixels=2&resample=each"


def test_bars_are_drawn_beside_the_papers(tmp_path: Path) -> None:
    hunts = {0.0: {"the paper's mode": papers(1.2)}, 0.9: {"the paper's mode": [Counts(name, 5) for name in PAPER]}}
    check_figure(tmp_path, table1_figures.bars(hunts, PAPER, tmp_path))
