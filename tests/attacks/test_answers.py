"""The answers of a comparison: a bit that flipped, a file that is gone, or one too many is seen."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_tasks import linear_task

from foible import cli
from foible.errors import UserError
from foible.recipes.compare.ranked import ranked
from foible.recipes.compare.recipe import compare
from foible.recipes.suite.suite import make_suite

OPTIONS: dict[str, Any] = {"split": "train", "unit": 20, "quiet": True}


@pytest.fixture
def basket(tmp_path: Path) -> str:
    """Networks, and data that they do not get all right."""
    task = linear_task(tmp_path)
    data = dict(np.load(tmp_path / "data.npz"))
    noise = np.random.default_rng(0).normal(0, 0.4, data["images"].shape)
    data["images"] = np.clip(data["images"] + noise, 0, 1).astype(data["images"].dtype)
    np.savez(tmp_path / "data.npz", **data)
    return str(task.basket)


def _compare(basket: str, run: Path) -> dict[str, Any]:
    return compare(basket, f"npz:{Path(basket).parent / 'data.npz'}", out=run, **OPTIONS)


def _answers(run: Path) -> list[Path]:
    return sorted((run / "answers").glob("*.parquet"))


def test_every_flipped_bit_is_seen(basket: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    before = _compare(basket, run)
    rng = random.Random(0)
    for _ in range(40):
        file = rng.choice(_answers(run))
        whole = file.read_bytes()
        broken, bit = bytearray(whole), rng.randrange(8 * len(whole))
        broken[bit // 8] ^= 1 << bit % 8
        file.write_bytes(broken)
        with pytest.raises(UserError, match=f"{file}.*run the same comparison again"):
            _compare(basket, run)
        file.write_bytes(whole)
    assert _compare(basket, run) == before


def test_a_file_that_is_gone_is_missed_and_can_be_made_again(
    basket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    before = _compare(basket, run)
    file = _answers(run)[1]
    file.unlink()
    with pytest.raises(UserError, match=f"{file} is missing"):
        _compare(basket, run)
    assert cli.run(["suite", str(run), "--out", str(tmp_path / "suite")]) == 2
    assert f"{file} is missing" in capsys.readouterr().err
    (run / "shards" / file.name).unlink()
    assert _compare(basket, run) == before


def test_answers_of_another_unit_or_of_none_are_seen(basket: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    _compare(basket, run)
    first, second = _answers(run)[:2]
    kept = second.read_bytes()
    shutil.copy(first, second)
    with pytest.raises(UserError, match="by its SHA-256"):
        make_suite([run], tmp_path / "suite")
    second.write_bytes(kept)
    shutil.copy(first, run / "answers" / "unit-000009.parquet")
    with pytest.raises(UserError, match="unit-000009"):
        make_suite([run], tmp_path / "suite")


def _without_sums(run: Path) -> None:
    """The run as an earlier version wrote it."""
    for shard in (run / "shards").iterdir():
        table = pq.read_table(shard)
        metadata = {k: v for k, v in table.schema.metadata.items() if k != b"foible.answers_sha256"}
        pq.write_table(table.replace_schema_metadata(metadata), shard)


def test_runs_without_sums_are_read(basket: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    before = _compare(basket, run)
    _without_sums(run)
    assert _compare(basket, run) == before
    assert make_suite([run], tmp_path / "suite")["rows"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("said", [0]), ("said", [0, 1, 99]), ("said", None), ("said", [0, None, 1]), ("label", 99), ("label", -5),
        ("index", None), ("index", -1), ("said", "x"), ("label", "x"), ("index", 0.5),
    ],
)  # fmt: skip
def test_answers_that_do_not_fit_are_named(
    name: str, value: Any, basket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    _compare(basket, run)
    _without_sums(run)
    file = _answers(run)[0]
    table = pq.read_table(file)
    kind = table.schema.field(name).type if not isinstance(value, str | float) else None
    column = pa.array([value] * table.num_rows, kind)
    pq.write_table(table.set_column(table.column_names.index(name), name, column), file)
    if name == "said":  # a suite draws without looking at it
        with pytest.raises(UserError, match=str(file)):
            ranked(run)
        return
    assert cli.run(["suite", str(run), "--out", str(tmp_path / "suite")]) == 2
    assert str(file) in capsys.readouterr().err


def test_the_sum_is_of_the_file_as_it_lies_there(basket: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    _compare(basket, run)
    for file in _answers(run):
        noted = pq.read_schema(run / "shards" / file.name).metadata[b"foible.answers_sha256"].decode()
        assert noted == hashlib.sha256(file.read_bytes()).hexdigest()
    assert json.loads((run / "compare.json").read_text())["images"] == 60
