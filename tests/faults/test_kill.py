"""Ten times kill -9, ten times resumed: the table is that of a run that nothing happened to."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_tasks import SLOW_SPACE, alive, descendants, leftovers, program, same_table, shards, start, wait_for

import foible
from foible.findings import read_shard

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")

UNITS = 48  # more than ten attempts can finish: a unit takes at least 0.06 s, so at most 6 in each
OPTIONS = {"suspect": "mlp-10", "trials": 16 * UNITS, "unit": 16, "patience": 40, "peer_confidence": 0.6}
KILLS = 6


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
def test_kills_at_random_moments_change_nothing(mlps: Path, tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    (tmp_path / "slow.py").write_text(SLOW_SPACE.replace("0.05", "0.03"))
    space = f"{tmp_path / 'slow.py'}:Slow"
    foible.hunt(mlps, "digits", out=whole, workers=1, quiet=True, space=space, shrink=False, **OPTIONS)
    flags = [text for name, value in OPTIONS.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    command = ["hunt", "--basket", mlps, "--space", space, "--no-shrink", *flags, "--out", run, "--workers"]
    rng = random.Random(20)
    seen_workers = False
    for attempt in range(KILLS):
        with start(*command, 2 if attempt % 3 == 1 else 1) as process:
            workers = _kill_at_random(process, run, rng)
        seen_workers |= bool(workers)
        wait_for(lambda who=workers: not any(map(alive, who)), 20, "workers outlived the program")
        for file in sorted((run / "shards").glob("*.parquet")):  # whatever has its name is whole
            assert read_shard(file).num_rows == 16
    assert 0 < _finished(run) < UNITS, "the kills must hit a run that is under way"
    assert seen_workers or not sys.platform.startswith("linux")
    code, out, err = program(*command, 2)
    assert (code, "already on disk" in err) == (0, True), out + err
    same_table(run, whole)
    assert shards(run) == shards(whole)
    assert len(shards(run)) == UNITS
    assert leftovers(run) == []
