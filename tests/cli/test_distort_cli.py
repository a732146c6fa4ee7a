"""`foible distort`: its answers, its run folder, and what it says to wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_tasks import Task, linear_task, shards

from foible import cli
from foible.findings import Findings


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return linear_task(tmp_path_factory.mktemp("distort"))


def distort(task: Task, out: Path, *options: str) -> list[str]:
    common = ["distort", "--basket", str(task.basket), "--data", task.data, "--split", "train", "--images", "10"]
    return [*common, "--workers", "1", "--out", str(out), *options]


def test_the_summary(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(distort(task, tmp_path / "run", "--source", "A", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    [row] = told["sources"]
    assert (row["source"], row["target"], row["method"], row["rows"], row["found"]) == ("A", "best", "closest", 10, 10)
    found = Findings.open(tmp_path / "run")
    rms = [dict(change)["rms"] for change in found.column("change")]
    assert row["rms"]["mean"] == pytest.approx(sum(rms) / 10)
    assert row["rms_before_8_bits"]["mean"] <= row["rms"]["mean"] * 1.001
    assert [judge["judge"] for judge in row["transfer"]] == ["B", "C"]
    assert Path(told["report"]).is_file()
    assert told["run"] == str(tmp_path / "run")

    before = shards(tmp_path / "run")
    assert cli.run(distort(task, tmp_path / "run", "--source", "A")) == 0
    assert shards(tmp_path / "run") == before, "nothing is done twice"
    said = capsys.readouterr()
    assert "A: 10 of 10 distorted, 100.0 %" in said.out
    assert "Who else falls for it" in said.out
    assert f"{row['rms']['mean']:.5f}" in said.out
    assert "already on disk" in said.err

    assert cli.run(["replay", str(tmp_path / "run")]) == 0
    assert "10 of 10 rows replay" in capsys.readouterr().out


def test_flags_reach_the_run(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--source", "B", "--target", "each", "--method", "lbfgs", "--no-lattice", "--seed", "4", "--unit", "4"]
    assert cli.run(distort(task, tmp_path / "run", *flags, "--likeliest", "1", "--budget", "60", "--json")) == 0
    [row] = json.loads(capsys.readouterr().out)["sources"]
    assert (row["source"], row["target"], row["method"], row["rows"]) == ("B", "each", "lbfgs", 10)
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["settings"]
    assert (settings["seed"], settings["lattice"], settings["likeliest"], settings["budget"]) == (4, False, 1, 60)
    assert len(shards(tmp_path / "run")) == 3


def test_a_run_of_a_layer(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(distort(task, tmp_path / "run", "--source", "A", "--layer", "output")) == 0
    said = capsys.readouterr().out
    assert "RMS over the layer's output" in said
    assert "Who else" not in said
    assert cli.run(["replay", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "which network is to be distorted for? Give --source, one of A, B, C"),
        (["--source", "D"], "no network 'D' in the basket"),
        (["--source", "A", "--target", "nxt"], "did you mean 'next'"),
        (["--source", "A", "--method", "lbgfs"], "did you mean 'lbfgs'"),
        (["--source", "A", "--layer", "ouput"], "did you mean 'output'"),
        (["--source", "A", "--images", "0"], "images is 0: expected at least 1"),
    ],
)
def test_wrong_input(
    options: list[str], message: str, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(distort(task, tmp_path / "run", *options)) == 2
    assert message in capsys.readouterr().err


def test_another_target_in_the_same_folder_is_refused(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(distort(task, tmp_path / "run", "--source", "A", "--json")) == 0
    assert cli.run(distort(task, tmp_path / "run", "--source", "A", "--target", "next")) == 2
    assert "target: best there, next here" in capsys.readouterr().err


def test_larger_distortions_are_judged_too(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    assert cli.run(distort(task, out, "--source", "A", "--amplify", "3", "--amplify", "1", "--json")) == 0
    [row] = json.loads(capsys.readouterr().out)["sources"]
    once, thrice = row["amplified"]
    assert (once["factor"], thrice["factor"], once["images"], once["fooled"]) == (1, 3, 10, 10)
    assert once["transfer"] == row["transfer"], "at 1 they are the images that were found"
    assert once["rms"] == pytest.approx(row["rms"]["mean"], rel=1e-4)
    assert 2 * once["rms"] < thrice["rms"] <= 3.01 * once["rms"], "three times, but for what is clipped"
    assert sum(one["wrong_after"] for one in thrice["transfer"]) > sum(one["wrong_after"] for one in row["transfer"])
    before = shards(out)
    assert cli.run(["show", str(out)]) == 0
    assert "Who falls for 3 times the change (10 of 10 fool A" in " ".join(capsys.readouterr().out.split())
    assert "3 times the change" in (out / "report.html").read_text("utf-8")
    assert shards(out) == before, "no row is touched"
    assert cli.run(distort(task, tmp_path / "other", "--source", "A", "--amplify", "0")) == 2
    assert "amplify is 0: expected a number above 0" in capsys.readouterr().err
    assert not (tmp_path / "other").exists(), "said before any work"
