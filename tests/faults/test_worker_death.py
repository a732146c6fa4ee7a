"""A worker process that dies, or is killed for want of memory: said plainly, and what was finished is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_tasks import Task, leftovers, same_table, shards

from foible import cli

DYING = """
import multiprocessing, os, pathlib
from foible.spaces import Affine

class Dying(Affine):
    def start(self, seeds):
        switch = pathlib.Path(__file__).with_name("die")
        if multiprocessing.parent_process() and switch.exists() and list(switch.parent.glob("run/shards/*.parquet")):
            os._exit(9)  # as the system does when memory runs out
        return super().start(seeds)
"""


def test_a_worker_that_dies_is_exit_4_and_costs_only_its_unit(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    sizes = ["--suspect", "A", "--trials", "128", "--unit", "16", "--patience", "20"]
    hunt = [*task.hunt(*sizes), "--space", f"{tmp_path / 'dying.py'}:Dying", "--out"]
    run = tmp_path / "run"
    (tmp_path / "die").touch()
    code = cli.run([*hunt, str(run), "--workers", "2"])
    out, err = capsys.readouterr()
    assert (code, out) == (4, ""), err
    assert "a worker process died (exit code 9)" in err
    assert "fewer --workers" in err
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    kept = shards(run)
    assert 0 < len(kept) < 8
    (tmp_path / "die").unlink()
    assert cli.run([*hunt, str(run), "--workers", "1"]) == 0
    assert leftovers(run) == []
    assert cli.run([*hunt, str(tmp_path / "whole"), "--workers", "1"]) == 0
    same_table(run, tmp_path / "whole")
    assert {name: shards(run)[name] for name in kept} == kept


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('a mistake of mine')", "a mistake of mine"),
        ("return None", "NoneType"),
        ("raise MemoryError", "MemoryError"),
    ],
)
def test_a_users_space_that_fails_is_an_error_with_its_own_words(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, message: str
) -> None:
    (tmp_path / "mine.py").write_text(
        f"from foible.spaces import Affine\nclass Mine(Affine):\n    def move(self, points, u):\n        {body}\n"
    )
    hunt = task.hunt("--suspect", "A", "--trials", "16", "--workers", "1", "--out", str(tmp_path / "run"))
    code = cli.run([*hunt, "--space", f"{tmp_path / 'mine.py'}:Mine"])
    said = capsys.readouterr().err
    assert code == 4, said
    assert message in said
    assert shards(tmp_path / "run") == {}
