"""`foible study searches`: costs as they are counted, the curve, and what is set beside the paper."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pictures import check_figure
from small_tasks import SPACE, Task, linear_task

from foible.errors import UserError
from foible.findings import Findings
from foible.search import SEARCHES
from foible.studies import run_study
from foible.studies.common import Result
from foible.studies.peer_pressure.searches import study as searches
from foible.studies.peer_pressure.searches.figures import share_within
from foible.studies.peer_pressure.searches.study import CONTESTANTS, PAPERS, Costs

TRIALS, BUDGET = 5, 120


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return linear_task(tmp_path_factory.mktemp("linear"))


def study(task: Task, out: Path, **options: str) -> Result:
    return run_study(
        "searches", data=task.data, basket=str(task.basket), out=out, quiet=True, device="cpu",
        options={"trials": str(TRIALS), "budget": str(BUDGET), "space": SPACE, "peer_confidence": "0"} | options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def done(linear: Task, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    out = tmp_path_factory.mktemp("searches")
    return out, study(linear, out)


def test_every_search_runs_on_the_same_seeds_within_one_budget(done: tuple[Path, Result]) -> None:
    out, _ = done
    seeds = set()
    for contestant in CONTESTANTS:
        if contestant.there:
            found = Findings.open(out / contestant.folder)
            assert len(found) == 3 * TRIALS
            seeds.add(tuple(found.column("origin_index")))
            costs = [f + 2 * b for f, b in zip(found.column("forwards"), found.column("backwards"), strict=True)]
            assert max(costs) <= BUDGET + 3 * 2 * 3  # what finishes a step, three networks, a gradient thrice
    assert len(seeds) == 1


def test_rows_agree_with_the_findings(done: tuple[Path, Result]) -> None:
    out, result = done
    for contestant in CONTESTANTS:
        if not contestant.there:
            continue
        found = [row for row in Findings.open(out / contestant.folder) if row["suspect"] == "A"]
        costs = [row["forwards"] + 2 * row["backwards"] for row in found]
        hits = [cost for cost, row in zip(costs, found, strict=True) if row["outcome"] == "found"]
        rows = {row.quantity: row for row in result.rows if row.table == contestant.label}
        assert rows["A: success, %"].measured == pytest.approx(100 * len(hits) / TRIALS)
        mean = sum(hits) / len(hits) if hits else None
        assert rows["A: inferences per success"].measured == (mean if mean is None else pytest.approx(mean))
        each = sum(costs) / len(hits) if hits else None
        spent = rows["A: inferences per find, failures counted"].measured
        assert spent == (each if each is None else pytest.approx(each))
    assert any(row.measured for row in result.rows if row.quantity.endswith("success, %"))


def test_written_for_programs_and_people(done: tuple[Path, Result]) -> None:
    out, _ = done
    written = json.loads((out / "result.json").read_text())
    assert written["settings"]["budget of a trial, inferences"] == BUDGET
    table = (out / "table.md").read_text()
    for contestant in CONTESTANTS:
        assert contestant.label in table  # as a table, or as left out
    for stem in ("curves", "bars"):
        check_figure(out, stem)


def test_the_same_command_goes_on(linear: Task, done: tuple[Path, Result]) -> None:
    out, before = done
    shards = {file: file.stat().st_mtime_ns for file in out.glob("hunt-*/shards/*")}
    assert shards
    assert study(linear, out).rows == before.rows
    assert {file: file.stat().st_mtime_ns for file in out.glob("hunt-*/shards/*")} == shards


def test_a_search_that_is_not_there_is_left_out(linear: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "CONTESTANTS", (PAPERS, searches.Contestant("annealing", "annealing")))
    assert "annealing" not in SEARCHES
    result = study(linear, tmp_path)
    assert any(note.startswith("Left out: annealing") for note in result.notes)
    assert "annealing" not in {row.table for row in result.rows}


def test_a_budget_without_room_is_refused(linear: Task, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="budget is -2: expected at least 1"):
        study(linear, tmp_path, budget="-2")


def papers() -> list[Costs]:
    """The paper's own Table 1 as if measured: 100 trials of each suspect."""
    return [
        Costs(name, [int(count)] * 100, [int(count)] * int(success), [int(count)] * int(success))
        for name, (success, _, count) in searches.PAPER.items()
    ]


def test_only_the_papers_mode_has_the_papers_figures() -> None:
    rows = searches.rows_of(PAPERS, papers())
    told = [row for row in rows if row.paper is not None]
    assert [row.paper for row in told] == [63, 25, 9, 5, 7, 507, 640, 852, 801, 819]
    assert [row.measured for row in told] == [row.paper for row in told]
    assert all(row.paper is None for row in searches.rows_of(CONTESTANTS[3], papers()))


def test_failures_count_and_their_interval_is_the_ratios() -> None:
    one = Costs("A", [10, 20, 30, 40], [10, 30])
    row = searches.ratio_row("t", "q", None, one)
    assert row.measured == 50
    # Residuals cost − 50 × found: −40, 20, −20, 40.
    half = 1.96 * (40**2 + 20**2 + 20**2 + 40**2) ** 0.5 / 2
    assert row.high == pytest.approx(50 + half)
    assert row.low == 0  # it would be below
    assert searches.ratio_row("t", "q", None, Costs("A", [10, 20])).measured is None


def test_the_rest_are_set_against_the_papers_hill_climbing() -> None:
    half = [Costs(one.suspect, [cost // 2 for cost in one.all], one.found) for one in papers()]
    rows = {row.quantity: row.measured for row in searches.against_rows({PAPERS.label: papers(), "new": half})[4:]}
    assert rows["new: success"] == 1
    assert rows["new: inferences per find, failures counted"] == pytest.approx(0.5, abs=0.01)


def test_a_curve_counts_what_was_found_by_then() -> None:
    costs = Costs("A", [5, 10, 10, 50, 99], [10, 5, 50])
    assert share_within(costs, np.array([4, 5, 10, 49, 50, 1000])).tolist() == [0, 20, 40, 40, 60, 60]
