"""Ctrl-C: the program stops soon, says how to go on, leaves no worker behind, and does go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_tasks import SLOW_SPACE, Task, alive, descendants, leftovers, same_table, start, wait_for

from foible import cli

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to whole groups of processes")

SOON = 5.0  # seconds; a second on a machine that does nothing else


@pytest.fixture
def hunt(task: Task, tmp_path: Path) -> list[str]:
    """A hunt of 16 units that takes some seconds however fast the machine is."""
    (tmp_path / "slow.py").write_text(SLOW_SPACE)
    sizes = ["--suspect", "A", "--trials", "256", "--unit", "16", "--patience", "10", "--no-shrink"]
    return [*task.hunt(*sizes), "--space", f"{tmp_path / 'slow.py'}:Slow", "--out", str(tmp_path / "run")]


def _begin(command: list[str], workers: int) -> subprocess.Popen[str]:
    return start(*command, "--workers", workers, start_new_session=True)


def _ctrl_c(process: subprocess.Popen[str]) -> str:
    """What a terminal does: the signal goes to the program and to its workers. Returns what was said."""
    workers = descendants(process.pid)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < SOON
    assert process.returncode == 3, said
    wait_for(lambda: not any(map(alive, workers)), SOON, "workers outlived the program")
    assert "Traceback" not in said
    assert "leaked" not in said  # of semaphores, by Python itself
    assert "the same command goes on:\n  foible hunt" in said
    return said


def _shards(run: Path) -> int:
    return len(list((run / "shards").glob("*.parquet")))


def test_ctrl_c_with_workers_and_then_on_to_the_same_table(
    hunt: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with _begin(hunt, 2) as process:
        wait_for(lambda: _shards(tmp_path / "run"))
        said = _ctrl_c(process)
    units = _shards(tmp_path / "run")
    assert 0 < units < 16
    there = f"{units} unit{'s' * (units > 1)}, {16 * units} of 256 trials, {'are' if units > 1 else 'is'} on disk in"
    assert f"stopped: {there} {tmp_path / 'run'}" in said
    assert leftovers(tmp_path / "run") == []
    code = cli.run([*hunt, "--workers", "1"])
    err = capsys.readouterr().err
    assert (code, "already on disk" in err) == (0, True), err
    assert cli.run([*hunt, "--out", str(tmp_path / "whole"), "--workers", "1"]) == 0
    same_table(tmp_path / "run", tmp_path / "whole")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for the workers in /proc")
def test_ctrl_c_while_workers_start(hunt: list[str], tmp_path: Path) -> None:
    with _begin(hunt, 2) as process:
        wait_for(lambda: len(descendants(process.pid)) >= 3)  # both workers, and multiprocessing's resource tracker
        said = _ctrl_c(process)
    assert _shards(tmp_path / "run") == 0
    assert "stopped: no unit is finished, so nothing is on disk in" in said


def test_ctrl_c_without_workers(hunt: list[str], tmp_path: Path) -> None:
    with _begin(hunt, 1) as process:
        wait_for(lambda: _shards(tmp_path / "run"))
        _ctrl_c(process)
    assert 0 < _shards(tmp_path / "run") < 16
    assert leftovers(tmp_path / "run") == []
