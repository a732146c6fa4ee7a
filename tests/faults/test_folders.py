"""Folders on bad days: locks that cannot be made, links that lead elsewhere, and what killed programs left."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_tasks import SETTINGS, WHERE, Task, unit_table

from foible import cli
from foible.disk import write_atomically
from foible.errors import UserError
from foible.recipes.rank.recipe import rank
from foible.runs.folder import RunFolder
from foible.runs.spans import Span

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows asks for rights to make links")


def _hunt(task: Task, run: Path) -> list[str]:
    return [*task.hunt("--suspect", "A", "--trials", "16", "--patience", "10", "--workers", "1"), "--out", str(run)]


def test_a_folder_called_run_lock_is_named(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run" / "run.lock").mkdir(parents=True)
    assert cli.run(_hunt(task, tmp_path / "run")) == 2
    assert f"{tmp_path / 'run' / 'run.lock'} is no ordinary file" in capsys.readouterr().err


@posix
def test_a_lock_that_leads_elsewhere_empties_nothing(task: Task, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").write_text("a thesis")
    (tmp_path / "run" / "run.lock").symlink_to(tmp_path / "mine")
    assert cli.run(_hunt(task, tmp_path / "run")) == 2
    assert (tmp_path / "mine").read_text() == "a thesis"


REFUSALS = [OSError(number, os.strerror(number)) for number in (errno.ENOLCK, errno.EACCES, errno.EROFS)]


@pytest.mark.parametrize("error", [*REFUSALS, NotImplementedError("no locks here")], ids=str)
def test_a_lock_that_cannot_be_had_is_a_plain_error(
    error: Exception, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert cli.run(_hunt(task, tmp_path / "run")) == 2
    assert "cannot lock" in capsys.readouterr().err


@posix
@pytest.mark.parametrize("name", ["timings", "shards"])
def test_nothing_is_written_through_a_link_out_of_the_run(name: str, task: Task, tmp_path: Path) -> None:
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir()
    (elsewhere / ".mine.4711.tmp").write_text("mine")
    assert cli.run(_hunt(task, run)) == 0
    for file in [*(run / "timings").iterdir(), *(run / "shards").iterdir()]:
        file.unlink()
    (run / name).rmdir()
    (run / name).symlink_to(elsewhere)
    assert cli.run(_hunt(task, run)) == 2
    RunFolder(run).sweep()
    assert [file.name for file in elsewhere.iterdir()] == [".mine.4711.tmp"]


@posix
def test_nor_into_answers_or_a_ranking(task: Task, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    folder = RunFolder(tmp_path / "run")
    (folder.path / "answers").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="leads out of the run"):
        folder.inside("answers")
    rank(str(task.basket), task.data, out=tmp_path / "pool", realism="none", quiet=True)
    (tmp_path / "pool" / "ranking").rename(tmp_path / "ranking")
    (tmp_path / "pool" / "ranking").symlink_to(tmp_path / "ranking")
    with pytest.raises(UserError, match="leads out of the run"):
        rank(str(task.basket), task.data, out=tmp_path / "pool", realism="none", quiet=True)


@posix
def test_what_a_killed_program_left_is_swept_where_files_are_written(tmp_path: Path) -> None:
    """Exports, suites, baskets, reports and studies all write so."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = tmp_path / "here"
    here.mkdir()
    left = here / f".report.html.{ended.pid}.tmp"
    young, held = here / f".young.html.{ended.pid}.tmp", here / f".held.html.{os.getpid()}.tmp"
    others = [here / ".notes.tmp", here / ".mine.txt.tmp"]
    for file in (left, young, held, *others):
        file.write_text("half")
    for file in (left, held, *others):
        os.utime(file, (time.time() - 3600,) * 2)
    write_atomically(here / "report.html", b"whole")
    assert not left.exists()
    assert all(file.exists() for file in (young, held, *others))  # one may be of another machine; one is at work


@posix
def test_a_temporary_name_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("a thesis")
    (tmp_path / f".report.html.{os.getpid()}.tmp").symlink_to(tmp_path / "mine")
    write_atomically(tmp_path / "report.html", b"whole")
    assert (tmp_path / "mine").read_text() == "a thesis"
    assert (tmp_path / "report.html").read_bytes() == b"whole"
    assert not (tmp_path / "report.html").is_symlink()


@posix
def test_the_folder_is_synced_after_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, bool]] = []  # (whether it is the folder, whether the file has its name by then)

    def fsync(handle: int) -> None:
        synced.append((os.path.samestat(os.fstat(handle), tmp_path.stat()), (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "file", b"whole")
    assert synced == [(False, False), (True, True)]


def test_a_run_is_locked_while_it_works(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.lock():
        folder.begin(SETTINGS, WHERE, [2])
        folder.write(Span(0, 0, 1), unit_table(), {"seconds": 0.1})
        assert folder.missing() == [Span(0, 1, 2)]
