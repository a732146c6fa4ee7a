"""Rows that somebody made up: whatever is in the columns and in the metadata, a command ends with 0, 1 or 2."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_tasks import linear_task

from foible import cli
from foible.findings import SCHEMA

DEEP = b'{"a":' * 900 + b"1" + b"}" * 900


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    task = linear_task(folder)
    sizes = ("--suspect", "A", "--trials", "16", "--patience", "20", "--workers", "1", "--out", str(folder / "run"))
    assert cli.run(task.hunt(*sizes)) == 0
    return folder / "run"


def _commands(run: Path, shard: Path, out: Path) -> list[list[str]]:
    first = "A-000000"
    return [
        ["show", str(run)], ["show", str(run), first], ["show", str(shard)], ["report", str(run)],
        ["replay", str(run), first], ["cite", str(run)], ["suite", str(run), "--out", str(out / "suite")],
        ["export", str(run), "--all", "--to", "csv", "--out", str(out / "csv")],
    ]  # fmt: skip


def _refused(made: Path, tmp_path: Path, table: pa.Table, capsys: pytest.CaptureFixture[str], *, all: bool) -> None:
    """No command fails as we did not foresee; with `all`, every one refuses the table."""
    run = tmp_path / "run"
    shutil.copytree(made, run)
    (shard,) = (run / "shards").iterdir()
    pq.write_table(table, shard)
    for command in _commands(run, shard, tmp_path):
        code = cli.run(command)
        said = capsys.readouterr()
        assert code in ((2,) if all else (0, 1, 2)), (command, said.err)
        assert "\x1b" not in said.out + said.err, command


def _table(made: Path) -> pa.Table:
    (shard,) = (made / "shards").iterdir()
    return pq.read_table(shard)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("classes", b'"012"'), ("classes", b"[0, 1, 2]"), ("classes", b"["), ("classes", b"[" * 99_999),
        ("configs", b"[]"), ("configs", b'{"a": 3}'), ("configs", DEEP), ("configs", b"\xff"),
        ("schema_version", b"x"), ("schema_version", b"9" * 5000),
    ],
)  # fmt: skip
def test_metadata_of_wrong_types(
    key: str, value: bytes, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = _table(made)
    metadata = {**table.schema.metadata, f"foible.{key}".encode(): value}
    _refused(made, tmp_path, table.replace_schema_metadata(metadata), capsys, all=True)


@pytest.mark.parametrize(
    ("name", "value", "all"),
    [
        ("truth", 3, False), ("said", -1, False), ("consensus", 2**31 - 1, False), ("outcome", "stolen", False),
        ("outcome", None, False), ("networks", None, False), ("networks", ["A", None, "C"], False),
        ("networks", [], False), ("networks", ["A", "B"], False), ("after", None, False), ("after", [[0.5]], False),
        ("after", [[0.1, 0.2, 0.7]] * 2, False), ("before", [None] * 3, False), ("id", None, True),
        ("config", None, True), ("config", "\x1b[2J", True), ("moves", None, False), ("forwards", -5, False),
        ("change", [("rotation °", None)], False), ("tags", [None], False), ("truth", None, False),
        ("path", [{"step": 1, "draws": [0.5]}], False), ("path", [{"step": 1, "draws": None}], False),
        ("path", None, False), ("image", None, False), ("origin", None, False), ("origin_index", None, False),
        ("origin_index", -1, False), ("suspect", "\x1b[2J", False), ("versions", "[" * 5000, False),
        ("trace", [[float("nan")]], False), ("kinds", ["\x1b[2J"], False),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(
    name: str, value: Any, all: bool, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, field = _table(made), SCHEMA.field(name)
    column = pa.array([value, *table.column(name).to_pylist()[1:]], field.type)
    _refused(made, tmp_path, table.set_column(SCHEMA.get_field_index(name), field, column), capsys, all=all)


@pytest.mark.parametrize("name", ["id", "truth", "after", "path"])
def test_columns_of_other_types_twice_or_gone(
    name: str, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = _table(made)
    other = pa.array([True] * table.num_rows)
    place = SCHEMA.get_field_index(name)
    odd = (table.set_column(place, name, other), table.drop_columns([name]), table.append_column(name, other))
    for number, one in enumerate(odd):
        _refused(made, tmp_path / str(number), one, capsys, all=name == "id")


def test_columns_that_nobody_knows_are_left_out(made: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(made, run)
    (shard,) = (run / "shards").iterdir()
    table = _table(made)
    pq.write_table(table.append_column("extra", pa.array(["x"] * table.num_rows)), shard)
    assert cli.run(["export", str(run), "--all", "--to", "findings", "--out", str(tmp_path / "all.parquet")]) == 0
    assert pq.read_schema(tmp_path / "all.parquet").names == SCHEMA.names
