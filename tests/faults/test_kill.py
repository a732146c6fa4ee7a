"""Killed again and again, and resumed as often: the table is that of a run that nothing happened to."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_tasks import SLOW_SPACE, Task, alive, descendants, leftovers, same_table, shards, start, wait_for

from foible import cli
from foible.findings import read_shard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")

UNITS = 32  # more than four attempts can finish: a unit takes at least 0.1 s, and each may do some four
SIZES = ("--suspect", "A", "--trials", 8 * UNITS, "--unit", 8, "--patience", 10, "--no-shrink", "--realism", "none")
WORKERS = (1, 2, 1, 1)  # of each attempt


def _finished(run: Path) -> int:
    return len(list((run / "shards").glob("*.parquet")))


def _kill_at_random(process: subprocess.Popen[str], run: Path, rng: random.Random) -> set[int]:
    """kill -9, either while the program is starting or soon after it finished a unit; its workers at that moment."""
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0.2, 3.0))
    else:
        wanted = _finished(run) + rng.choice([1, 2])
        wait_for(lambda: _finished(run) >= wanted or process.poll() is not None, 120)
        time.sleep(rng.uniform(0, 0.1))
    assert process.poll() is None, process.communicate()
    workers = set(descendants(process.pid))
    process.kill()
    process.wait()
    return workers


@pytest.mark.timeout(600)
def test_kills_at_random_moments_change_nothing(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    (tmp_path / "slow.py").write_text(SLOW_SPACE)
    command = [*task.hunt(*map(str, SIZES)), "--space", f"{tmp_path / 'slow.py'}:Slow", "--workers"]
    assert cli.run([*command, "1", "--out", str(whole)]) == 0
    rng = random.Random(18)  # the first is killed while it starts
    seen_workers = False
    for count in WORKERS:
        with start(*command, count, "--out", run) as process:
            workers = _kill_at_random(process, run, rng)
        seen_workers |= bool(workers)
        wait_for(lambda who=workers: not any(map(alive, who)), 20, "workers outlived the program")
        for file in sorted((run / "shards").glob("*.parquet")):  # whatever has its name is whole
            assert read_shard(file).num_rows == 8
    assert 0 < _finished(run) < UNITS, "the kills must hit a run that is under way"
    assert seen_workers or not sys.platform.startswith("linux")
    code = cli.run([*command, "2", "--out", str(run)])
    err = capsys.readouterr().err
    assert (code, "already on disk" in err) == (0, True), err
    same_table(run, whole)
    assert shards(run) == shards(whole)
    assert len(shards(run)) == UNITS
    assert leftovers(run) == []
