"""A run on disk: who may begin it, who may go on with it, and what is left by those who did not finish."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_tasks import SETTINGS, WHERE, unit_table

from foible.errors import UserError
from foible.runs.folder import RunFolder
from foible.runs.record import settings_hash
from foible.runs.spans import Span

ONE, TWO = Span(0, 0, 4), Span(0, 4, 10)  # of the ten lanes of a run


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    return run


def test_the_hash_changes_with_any_setting_and_not_with_their_order() -> None:
    one = settings_hash(SETTINGS)
    assert settings_hash(dict(reversed(SETTINGS.items()))) == one
    others = [SETTINGS | {"seed": 1}, SETTINGS | {"space": "Affine"}, SETTINGS | {"more": None}, {"trials": 10}]
    assert len({one, *(settings_hash(other) for other in others)}) == 5
    assert len(one) == 12


def test_begin_makes_a_run_and_then_goes_on_with_it(folder: RunFolder) -> None:
    assert folder.known(SETTINGS) == {}
    folder.begin(SETTINGS, WHERE, [10])
    key = settings_hash(SETTINGS)
    known = {"hash": key, "whole": key, "settings": SETTINGS, "where": WHERE, "lanes": [10]}
    assert folder.config == known
    assert folder.missing() == [Span(0, 0, 10)]
    folder.write(Span(0, 3, 6), unit_table(), {"seconds": 0.5})
    assert folder.known(dict(reversed(SETTINGS.items()))) == SETTINGS
    assert folder.begin(dict(reversed(SETTINGS.items())), WHERE, [10]) == SETTINGS
    assert folder.missing() == [Span(0, 0, 3), Span(0, 6, 10)]


def test_a_run_that_failed_before_its_first_unit_may_begin_anew(folder: RunFolder) -> None:
    folder.begin(SETTINGS, WHERE, [10])
    (folder.path / "shards" / ".0.parquet.half").write_text("")
    assert folder.known(SETTINGS | {"seed": 5}) == {}
    folder.begin(SETTINGS | {"seed": 5}, WHERE, [7])
    assert folder.config["settings"]["seed"] == 5
    assert folder.missing() == [Span(0, 0, 7)]


def test_other_settings_are_refused_and_named(folder: RunFolder) -> None:
    folder.begin(SETTINGS, WHERE, [10])
    folder.write(ONE, unit_table(), {"seconds": 0.5})
    with pytest.raises(UserError, match="seed: 0 there, 5 here; budget: None there, 9 here") as error:
        folder.begin(SETTINGS | {"seed": 5, "budget": 9}, WHERE, [10])
    assert "give another --out" in str(error.value)
    assert "trials" not in str(error.value)
    assert folder.config["settings"] == SETTINGS


def test_a_basket_that_moved_is_looked_for_at_its_new_place(folder: RunFolder) -> None:
    folder.begin(SETTINGS, WHERE, [10])
    folder.begin(SETTINGS, WHERE | {"basket": ["there"]}, [10])
    assert folder.config["where"] == WHERE | {"basket": ["there"]}
    assert folder.config["settings"] == SETTINGS


def test_a_folder_of_something_else_is_left_alone(folder: RunFolder) -> None:
    (folder.path / "thesis.doc").write_text("mine")
    with pytest.raises(UserError, match="not empty and not a run: give another --out"):
        folder.begin(SETTINGS, WHERE, [10])
    assert [file.name for file in folder.path.iterdir()] == ["thesis.doc"]


def test_what_killed_processes_left_is_cleared_away(folder: RunFolder) -> None:
    (folder.path / ".config.json.4711.tmp").write_bytes(b'{"ha')  # killed while it wrote the settings
    (folder.path / "run.lock").touch()
    folder.begin(SETTINGS, WHERE, [10])
    for name in (f"shards/.{ONE.name}.parquet.4711.tmp", f"timings/.{ONE.name}.json.9.tmp", ".report.html.8.tmp"):
        (folder.path / name).write_bytes(b"PAR1")
    folder.begin(SETTINGS, WHERE, [10])
    assert not list(folder.path.rglob("*.tmp"))
    assert folder.missing() == [Span(0, 0, 10)]


@pytest.mark.parametrize("content", ["", "{", "[]", "[1]", '"x"', "{}", '{"hash": "x"}', '{"settings": 3}', "\x00"])
def test_a_damaged_config_is_named(folder: RunFolder, content: str) -> None:
    (folder.path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        folder.begin(SETTINGS, WHERE, [10])
    with pytest.raises(UserError, match=r"config\.json is damaged"):
        _ = folder.config


def test_what_is_no_run_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("nowhere", "file", ""):
        with pytest.raises(UserError, match="is not a run"):
            _ = RunFolder(tmp_path / path).config
    with pytest.raises(UserError, match="cannot make the folder"), RunFolder(tmp_path / "file").lock():
        pass


def test_the_lock_keeps_others_out_until_it_is_freed(folder: RunFolder) -> None:
    with (
        folder.lock(),
        pytest.raises(UserError, match="another process is working on the run"),
        RunFolder(folder.path).lock(),
    ):
        pass
    with pytest.raises(ZeroDivisionError), folder.lock():
        _ = 1 / 0
    with folder.lock():
        pass


def test_a_shard_is_what_was_written_with_its_timing_beside_it(folder: RunFolder) -> None:
    folder.begin(SETTINGS, WHERE, [10])
    table = pa.table({"a": [1.5, None], "b": ["x", "y"]}).replace_schema_metadata({"k": "v"})
    folder.write(ONE, table, {"seconds": 1.0})
    folder.write(TWO, table, {"seconds": 2.0})
    assert pq.read_table(folder.shard(ONE)).equals(table, check_metadata=True)
    assert folder.shard(ONE).read_bytes() == folder.shard(TWO).read_bytes()
    times = [json.loads(file.read_text()) for file in sorted((folder.path / "timings").iterdir())]
    assert times == [{"seconds": 1.0}, {"seconds": 2.0}]


def test_a_full_disk_is_named_and_leaves_nothing_half_done(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.begin(SETTINGS, WHERE, [10])
    folder.write(ONE, unit_table(), {"seconds": 0.1})
    before = folder.shard(ONE).read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for span in (ONE, TWO):
        with pytest.raises(UserError, match=rf"cannot write .*{span.name}.*No space left.*make room"):
            folder.write(span, unit_table(), {"seconds": 0.1})
    assert folder.shard(ONE).read_bytes() == before
    assert not list(folder.path.rglob("*.tmp"))
    assert folder.missing() == [TWO]


def test_a_stop_in_the_middle_of_a_write_leaves_no_temporary_file(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.begin(SETTINGS, WHERE, [10])

    def stopped(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        folder.write(ONE, unit_table(), {"seconds": 0.1})
    assert not list(folder.path.rglob("*.tmp"))


def test_a_run_that_vanished_is_a_plain_error(folder: RunFolder) -> None:
    folder.begin(SETTINGS, WHERE, [10])
    shutil.rmtree(folder.path)
    with pytest.raises(UserError, match="cannot write"):
        folder.write(ONE, unit_table(), {"seconds": 0.1})


def test_floats_are_written_as_they_pack_best(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    (tmp_path / "shards").mkdir()
    (tmp_path / "timings").mkdir()
    nested = pa.list_(pa.struct([("step", pa.int32()), ("draws", pa.list_(pa.float32()))]))
    change = pa.map_(pa.string(), pa.float32())
    table = pa.table(
        {
            "id": ["a", "b"],
            "path": pa.array([[{"step": 1, "draws": [0.5, 0.25]}], []], nested),
            "change": pa.array([[("x", 1.5)], []], change),
        }
    )
    folder.write(ONE, table, {"seconds": 0.0})
    assert pq.read_table(folder.shard(ONE)).equals(table)
    group = pq.ParquetFile(folder.shard(ONE)).metadata.row_group(0)
    encodings = {group.column(k).path_in_schema: set(group.column(k).encodings) for k in range(group.num_columns)}
    for path in ("path.list.element.draws.list.element", "change.key_value.value"):
        assert "BYTE_STREAM_SPLIT" in encodings[path]
        assert "RLE_DICTIONARY" not in encodings[path]
    assert "RLE_DICTIONARY" in encodings["id"]
