"""A disk that fills up: a loud error that names the file, everything finished before intact, and on it goes later."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_tasks import Task, leftovers, linear_task, program, same_table, shards

from foible import cli
from foible.findings import read_shard
from foible.recipes.export import FORMATS
from foible.runs.folder import RunFolder
from foible.runs.spans import Span

SIZES = ["--suspect", "A", "--suspect", "B", "--trials", "32", "--unit", "8", "--patience", "20"]


def _full_after(writes: int) -> Callable[[int], None]:
    """`os.fsync` for a disk with room for so many files."""
    left = iter(range(writes))

    def fsync(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode) and next(left, None) is None:  # folders are synced too
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return fsync


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """A hunt of three units, and its run."""
    folder = tmp_path_factory.mktemp("done")
    sizes = ("--suspect", "A", "--trials", "48", "--unit", "16", "--patience", "20", "--workers", "1")
    hunt = linear_task(folder).hunt(*sizes)
    assert cli.run([*hunt, "--out", str(folder / "whole")]) == 0
    return hunt, folder / "whole"


# settings; seeds; a timing and a shard for each unit; why; the report
@pytest.mark.parametrize("writes", [0, 1, 2, 3, 7, 8, 9])
def test_the_nth_write_fails(
    done: tuple[list[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    writes: int,
) -> None:  # fmt: skip
    (hunt, whole), run = done, tmp_path / "run"
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full_after(writes))
        assert cli.run([*hunt, "--out", str(run)]) == 2
    said = capsys.readouterr()
    unit = (writes - 2) // 2
    expected = {0: "config.json", 1: "seeds.safetensors", 2: "timings", 8: "why.json", 9: "report.html"}.get(
        writes, Span(0, 16 * unit, 16 * unit + 16).name
    )
    assert f"cannot write {run}" in said.err
    assert expected in said.err
    assert "No space left on device" in said.err
    assert "make room and run the same command again" in said.err
    assert said.out == ""
    assert leftovers(run) == []
    for name, data in shards(run).items():
        assert data == shards(whole)[name]
    assert len(shards(run)) == max(0, min(3, unit))
    assert cli.run([*hunt, "--out", str(run)]) == 0
    same_table(run, whole)
    assert shards(run) == shards(whole)


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_real_limit_on_file_sizes_stops_workers_the_same_way(task: Task, tmp_path: Path) -> None:
    import resource

    hunt = task.hunt(*SIZES)
    run, whole = tmp_path / "run", tmp_path / "whole"
    assert cli.run([*hunt, "--out", str(whole), "--workers", "1"]) == 0
    sizes = {name: len(data) for name, data in shards(whole).items()}
    limit = max(sizes.values()) - 1  # all but the largest shards fit

    def set_limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code, out, err = program(*hunt, "--out", run, "--workers", 2, preexec_fn=set_limit)
    assert (code, out) == (2, ""), err
    assert f"cannot write {run / 'shards' / max(sizes, key=lambda name: sizes[name])}: File too large" in err
    assert "Traceback" not in err
    assert leftovers(run) == []
    for name, data in shards(run).items():
        assert data == shards(whole)[name]
    assert len(shards(run)) < len(sizes)
    assert cli.run([*hunt, "--out", str(run), "--workers", "1"]) == 0
    same_table(run, whole)


@pytest.mark.parametrize("to", FORMATS)
def test_an_export_that_does_not_fit_leaves_nothing(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    assert cli.run([*task.hunt("--suspect", "A", "--trials", "16", "--workers", "1"), "--out", str(run)]) == 0

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        table = "pyarrow.parquet.ParquetWriter.write_table"
        writes = {"parquet": table, "findings": table, "csv": "csv.DictWriter.writerows"}
        patch.setattr(writes.get(to, "pathlib.Path.write_bytes"), full)
        assert cli.run(["export", str(run), "--to", to, "--out", str(out)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert not out.exists()
    assert leftovers(tmp_path) == []
    assert cli.run(["export", str(run), "--to", to, "--out", str(out)]) == 0


def test_a_damaged_shard_is_named_and_can_be_done_again(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    hunt = [*task.hunt("--suspect", "A", "--trials", "48", "--unit", "16", "--workers", "1"), "--out", str(run)]
    assert cli.run(hunt) == 0
    before = shards(run)
    shard = RunFolder(run).shard(Span(0, 16, 32))
    capsys.readouterr()
    commands = [hunt, ["show", str(run)], ["report", str(run)], ["replay", str(run)]]
    commands += [["export", str(run), "--to", to, "--out", str(tmp_path / "out")] for to in FORMATS]
    for data in (before[shard.name][:-100], b"", b"PAR1", before[shard.name][: len(before[shard.name]) // 2]):
        shard.write_bytes(data)
        for command in commands:
            assert cli.run(command) == 2, command
            said = capsys.readouterr()
            assert f"{shard} cannot be read as Parquet" in said.err, command
            assert "delete it and resume the run" in said.err
            assert said.out == ""
            assert leftovers(tmp_path) == [], command
    shard.unlink()
    assert cli.run(hunt) == 0
    assert shards(run) == before


def test_flipped_bits_are_named_or_harmless(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shard with a wrong byte anywhere is read, or refused by name; never a crash of ours."""
    run = tmp_path / "run"
    assert cli.run([*task.hunt("--suspect", "A", "--trials", "16", "--workers", "1"), "--out", str(run)]) == 0
    (shard,) = (run / "shards").iterdir()
    data = bytearray(shard.read_bytes())
    for place in range(0, len(data), max(1, len(data) // 150)):
        broken = bytearray(data)
        broken[place] ^= 0xFF
        shard.write_bytes(broken)
        assert cli.run(["show", str(run)]) in (0, 2), (place, capsys.readouterr().err)
    shard.write_bytes(data)
    assert read_shard(shard).num_rows == 16
