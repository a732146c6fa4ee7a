"""Exports that meet each other, or what was there before; and cells that a spreadsheet would run."""

from __future__ import annotations

import csv
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_tasks import leftovers

from foible import UserError, cli
from foible.findings import SCHEMA, Findings, with_metadata
from foible.images import encode_png
from foible.recipes import export as exports
from foible.recipes.export import export


def _findings(count: int = 3, classes: tuple[str, ...] = ("a", "b"), **changed: Any) -> Findings:
    """A few rows made up by the schema."""
    rows = [
        dict.fromkeys(SCHEMA.names)
        | {
            "id": f"A-{number:06d}", "config": "0123456789ab", "suspect": "A", "networks": ["A", "B"], "lane": number,
            "outcome": "found", "tags": [], "image": encode_png(np.full((1, 4, 4), number, np.uint8)), "truth": 0,
            "consensus": 0, "said": 1, "before": [[0.9, 0.1]] * 2, "after": [[0.2, 0.8]] * 2, "moves": 0,
            "candidates": 0, "forwards": 0, "backwards": 0, "path": [], "trace": [], "point": [], "change": [],
        }
        | changed
        for number in range(count)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    return Findings(with_metadata(table, classes, {"0123456789ab": {"recipe": "hunt"}}))


def test_a_second_export_to_one_place_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    findings, out = _findings(), tmp_path / "out"
    begun, go_on = threading.Event(), threading.Event()
    whole = exports._WRITERS["folder"]

    def slow(*args: Any) -> int:
        count: int = whole(*args)
        begun.set()
        go_on.wait(60)
        return count

    written: list[int] = []
    monkeypatch.setitem(exports._WRITERS, "folder", slow)
    first = threading.Thread(target=lambda: written.append(export(findings, "folder", out)))
    first.start()
    try:
        assert begun.wait(60)
        monkeypatch.setitem(exports._WRITERS, "folder", whole)
        with pytest.raises(UserError, match=r"another process is exporting to .*: wait for it, or give another --out"):
            export(findings, "folder", out)
    finally:
        go_on.set()
        first.join(60)
    assert written == [3]
    assert len(list(out.rglob("*.png"))) == 3
    assert leftovers(tmp_path) == []
    assert [file.name for file in tmp_path.iterdir()] == ["out"]  # no lock stays


@pytest.mark.parametrize("to", exports.FORMATS)
def test_what_is_there_already_is_not_touched(tmp_path: Path, to: str) -> None:
    out = tmp_path / "out"
    assert export(_findings(), to, out) == 3
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(UserError, match="exists already"):
        export(_findings(5), to, out)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_what_a_killed_export_left_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".out.part" / "a").mkdir(parents=True)
    (tmp_path / ".out.part" / "a" / "old.png").write_bytes(b"half")
    (tmp_path / ".out.lock").touch()
    assert export(_findings(), "folder", tmp_path / "out") == 3
    assert len(list((tmp_path / "out").rglob("*.png"))) == 3
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


WHOLE = encode_png(np.zeros((1, 9, 9), np.uint8))
FORMULAS = (
    "=1+1", "\uff1dcmd", "\uff0b1", "\uff0dA1", "\uff20SUM(1)", "\t=1", "\r=1", "\n=1", "  =1", "\u200b=1",
    "\ufeff=1", "\xa0=1", "\ufe66A1",
)  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS, ids=[ascii(text) for text in FORMULAS])
def test_no_cell_begins_like_a_formula(tmp_path: Path, text: str) -> None:
    findings = _findings(1, (text, "b - c = d"), suspect=text, origin_file=text)
    assert export(findings, "csv", tmp_path / "out.csv") == 1
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["suspect"], row["truth"], row["origin_file"]) == (f"'{text}",) * 3
    assert row["said"] == "b - c = d"


@pytest.mark.parametrize("to", ["folder", "hf", "parquet", "label-studio", "fiftyone"])
@pytest.mark.parametrize(
    "bad",
    [b"<svg onload=alert(1)>", b"GIF89a", WHOLE[:-20], WHOLE + b"<script>"],
    ids=["svg", "gif", "cut", "more"],
)
def test_only_png_is_written_as_png(tmp_path: Path, to: str, bad: bytes) -> None:
    with pytest.raises(UserError, match="the image of 'A-000000' cannot be read"):
        export(_findings(image=bad), to, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_program_refuses_it_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_findings(image=b"no picture").table, tmp_path / "run.parquet")
    assert cli.run(["export", str(tmp_path / "run.parquet"), "--out", str(tmp_path / "out")]) == 2
    assert "the image of 'A-000000' cannot be read (it is no PNG)" in capsys.readouterr().err
