"""A run holds its own units and nothing else: what another run made, a copy or a strange file is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_tasks import Task, linear_task

from foible import cli
from foible.errors import UserError
from foible.findings import SCHEMA, Findings
from foible.recipes.compare.recipe import compare
from foible.recipes.rank.recipe import rank
from foible.runs.folder import RunFolder
from foible.runs.record import settings_hash, whole_hash
from foible.runs.spans import Span

SIZES = ("--suspect", "A", "--trials", "32", "--unit", "16", "--patience", "20", "--workers", "1")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return linear_task(tmp_path_factory.mktemp("task"))


@pytest.fixture(scope="module")
def whole(task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _made(task, tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be broken."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def _hunt(task: Task, run: Path, *more: str) -> list[str]:
    return [*task.hunt(*SIZES, *more), "--out", str(run)]


def _made(task: Task, run: Path, *more: str) -> Path:
    assert cli.run(_hunt(task, run, *more)) == 0
    return run


def _readers(run: Path, out: Path) -> list[list[str]]:
    """Every command that counts what a run holds."""
    exports = [["export", str(run), "--to", to, "--out", str(out / to)] for to in ("csv", "findings")]
    suite = ["suite", str(run), "--out", str(out / "suite")]
    return [["show", str(run)], ["report", str(run)], ["replay", str(run)], ["cite", str(run)], suite, *exports]


def _unit(run: Path, number: int) -> Path:
    return RunFolder(run).shard(Span(0, 16 * number, 16 * number + 16))


def _another_runs_unit(task: Task, run: Path) -> Path:
    other = _made(task, run.with_name("other"), "--seed", "5")
    shutil.copy(_unit(other, 1), _unit(run, 1))
    return _unit(run, 1)


def _another_unit_more(task: Task, run: Path) -> Path:
    del task
    shutil.copy(_unit(run, 1), _unit(run, 2))
    return _unit(run, 2)


def _a_copy_in_place_of_a_unit(task: Task, run: Path) -> Path:
    del task
    shutil.copy(_unit(run, 0), _unit(run, 1))
    return _unit(run, 1)


def _a_copy_beside(task: Task, run: Path) -> Path:
    del task
    copy = _unit(run, 1).with_name(f"{_unit(run, 1).stem} (copy).parquet")
    shutil.copy(_unit(run, 1), copy)
    return copy


def _a_comparisons_unit(task: Task, run: Path) -> Path:
    other = run.with_name("other")
    compare(str(task.basket), task.data, split="train", out=other, quiet=True)
    shutil.copy(RunFolder(other).shards()[0], _unit(run, 1))
    return _unit(run, 1)


def _rows_of_another_run(task: Task, run: Path) -> Path:
    """The right settings in the file, and another run's hash in its rows."""
    del task
    table = pq.read_table(_unit(run, 1))
    place, hashes = SCHEMA.get_field_index("config"), pa.array(["0123456789ab"] * table.num_rows)
    pq.write_table(table.set_column(place, "config", hashes), _unit(run, 1))
    return _unit(run, 1)


def _settings_changed(task: Task, run: Path) -> Path:
    """The right hash, and other settings under it."""
    del task
    table = pq.read_table(_unit(run, 1))
    configs = json.loads(table.schema.metadata[b"foible.configs"])
    for settings in configs.values():
        settings["seed"] = 7
    metadata = {**table.schema.metadata, b"foible.configs": json.dumps(configs).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), _unit(run, 1))
    return _unit(run, 1)


STRANGE = (
    _another_runs_unit, _another_unit_more, _a_copy_in_place_of_a_unit, _a_copy_beside, _a_comparisons_unit,
    _rows_of_another_run, _settings_changed,
)  # fmt: skip


@pytest.mark.parametrize("put", STRANGE, ids=lambda put: put.__name__.strip("_"))
def test_what_is_not_the_runs_own_is_named(
    put: Callable[[Task, Path], Path], task: Task, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = put(task, run)
    capsys.readouterr()
    for command in [*_readers(run, tmp_path), _hunt(task, run)]:  # the last one resumes
        assert cli.run(command) == 2, command
        said = capsys.readouterr()
        assert str(file) in said.err, command
        assert "delete it" in said.err, command
    with pytest.raises(UserError, match="delete it"):
        Findings.open(run)
    file.unlink()
    assert cli.run(_hunt(task, run)) == 0
    assert len(Findings.open(run)) == 32


def test_a_run_that_nobody_touched_is_read(run: Path, tmp_path: Path) -> None:
    (run / "shards" / f".{_unit(run, 1).name}.4711.tmp").write_bytes(b"PAR1")  # somebody was killed here
    for command in _readers(run, tmp_path):
        assert cli.run(command) == 0, command
    for file in (_unit(run, 1), tmp_path / "findings", tmp_path / "suite"):  # findings without a run
        assert cli.run(["show", str(file)]) == 0


def test_a_shard_that_says_nothing_of_its_run_is_done_again(task: Task, run: Path) -> None:
    before = _unit(run, 1).read_bytes()
    pq.write_table(pq.read_table(_unit(run, 1)).replace_schema_metadata(), _unit(run, 1))
    assert RunFolder(run).missing() == [Span(0, 16, 32)]
    assert cli.run(_hunt(task, run)) == 0
    assert _unit(run, 1).read_bytes() == before


def test_a_ranking_of_another_pool_is_named(task: Task, tmp_path: Path) -> None:
    def ranked(out: str, **more: Any) -> Findings:
        return rank(str(task.basket), task.data, out=tmp_path / out, realism="none", unit=16, quiet=True, **more)

    ranked("run")
    ranked("other", peer_confidence=0.6)
    shutil.copy(_unit(tmp_path / "other" / "ranking", 1), _unit(tmp_path / "run" / "ranking", 1))
    with pytest.raises(UserError, match="belongs to another run"):
        ranked("run")


@pytest.mark.parametrize(("name", "value"), [("budget", 64), ("seed", 9)])
@pytest.mark.parametrize("hashed", [False, True])
def test_edited_settings_do_not_become_a_mixture(
    name: str, value: int, hashed: bool, task: Task, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _unit(run, 1).unlink()
    config = json.loads((run / "config.json").read_text())
    config["settings"][name] = value
    if hashed:
        config |= {"hash": settings_hash(config["settings"]), "whole": whole_hash(config["settings"])}
    (run / "config.json").write_text(json.dumps(config))
    capsys.readouterr()
    for command in (_hunt(task, run), [*_hunt(task, run), f"--{name}", str(value)], ["show", str(run)]):
        assert cli.run(command) == 2, command
        said = capsys.readouterr().err
        assert "other settings" in said or "changed" in said, said
    assert len(list((run / "shards").iterdir())) == 1


@pytest.mark.parametrize("lanes", [16, 48])
def test_an_edited_number_of_lanes_is_set_right(
    lanes: int, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _made(task, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"lanes": [lanes]}))
    capsys.readouterr()
    assert cli.run(["show", str(run)]) == (2 if lanes < 32 else 0)
    assert cli.run(["suite", str(run), "--out", str(tmp_path / "suite")]) == 2
    assert cli.run(_hunt(task, run)) == 0
    assert RunFolder(run).config["lanes"] == [32]
    assert len(Findings.open(run)) == 32
