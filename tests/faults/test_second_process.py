"""Two programs on one run: the second is told so and turned away, the first goes on."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from small_tasks import SLOW_SPACE, Task, same_table, start, wait_for

from foible import cli


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot hold a process still")
def test_a_second_process_is_turned_away(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slow.py").write_text(SLOW_SPACE)
    sizes = ["--suspect", "A", "--trials", "160", "--unit", "16", "--patience", "20", "--workers", "1", "--no-shrink"]
    hunt = [*task.hunt(*sizes), "--space", f"{tmp_path / 'slow.py'}:Slow", "--out"]
    run = tmp_path / "run"
    with start(*hunt, run) as first:
        wait_for(lambda: list((run / "shards").glob("*.parquet")))
        first.send_signal(signal.SIGSTOP)  # held still, so that it cannot finish meanwhile
        try:
            assert cli.run([*hunt, str(run)]) == 2
        finally:
            first.send_signal(signal.SIGCONT)
        said = capsys.readouterr()
        assert f"another process is working on the run {str(run)!r}" in said.err
        assert "give another --out" in said.err
        assert said.out == ""
        _, err = first.communicate()
    assert first.returncode == 0, err
    assert cli.run([*hunt, str(tmp_path / "whole")]) == 0
    same_table(run, tmp_path / "whole")
    assert cli.run([*hunt, str(run)]) == 0  # the lock is free again
