"""What a run came to: trials with several finds, gradients, and how many different mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foible.findings import SCHEMA, Findings, with_metadata
from foible.summary import summarise, wilson


def findings(*rows: dict[str, Any]) -> Findings:
    usual = {
        "config": "c", "suspect": "A", "networks": ["A", "B"], "outcome": "found", "truth": 1, "consensus": 1,
        "said": 0, "moves": 2, "candidates": 10, "forwards": 30, "backwards": 4, "size": 1.5, "kinds": ["shift"],
    }  # fmt: skip
    table = pa.Table.from_pylist([usual | row for row in rows], schema=SCHEMA)
    return Findings(with_metadata(table, ["0", "1", "2"], {"c": {}}))


ATLAS = (
    {"lane": 0}, {"lane": 0, "said": 2}, {"lane": 0, "kinds": ["rotation"]}, {"lane": 1, "size": 5.0},
    {"lane": 2, "outcome": "exhausted"}, {"lane": 3, "outcome": "invalid"}, {"lane": 3},
)  # fmt: skip


def test_a_trial_with_several_finds_is_one_trial() -> None:
    (row,) = summarise(findings(*ATLAS))
    assert {key: row[key] for key in ("trials", "solved", "found", "exhausted", "invalid")} == {
        "trials": 4, "solved": 3, "found": 5, "exhausted": 1, "invalid": 1,
    }  # fmt: skip
    assert row["success"] == 0.75
    assert (row["low"], row["high"]) == wilson(3, 4)


def test_different_mistakes_are_counted() -> None:
    (row,) = summarise(findings(*ATLAS))
    assert (row["pairs"], row["cells"]) == (2, 4)
    none = summarise(findings({"lane": 0, "outcome": "exhausted"}))[0]
    assert (none["pairs"], none["cells"], none["inference_equivalents"]) == (0, 0, None)


def test_a_gradient_counts_as_two_further_inferences() -> None:
    (row,) = summarise(findings(*ATLAS))
    assert row["inferences_spent"] == 30
    assert row["backwards_spent"] == 4
    assert row["inference_equivalents"] == 38
    assert row["all_inferences"] == 7 * 30
    assert row["all_inference_equivalents"] == 7 * 38


def test_shards_and_memory_agree_and_old_files_are_read(tmp_path: Path) -> None:
    both = findings(*ATLAS[:4]), findings({"lane": 7}, {"lane": 8, "outcome": "exhausted"})
    (tmp_path / "shards").mkdir()
    for number, part in enumerate(both):
        old = part.table.drop(["size", "kinds", "least_path", "score"]) if number else part.table
        version = {**(part.table.schema.metadata or {}), b"foible.schema_version": b"1" if number else b"3"}
        pq.write_table(old.replace_schema_metadata(version), tmp_path / "shards" / f"{number}.parquet")
    assert summarise(tmp_path)[0]["trials"] == 4
    assert summarise(tmp_path)[0]["cells"] == 5  # without kinds and size, what remains is a cell of its own
    whole = Findings.concat(both)
    assert summarise(whole)[0]["found"] == summarise(tmp_path)[0]["found"] == 5


def test_rows_without_a_lane_are_trials_each() -> None:
    assert summarise(findings({"lane": None}, {"lane": None}))[0]["trials"] == 2


@pytest.mark.parametrize("same", [True, False])
def test_another_config_is_another_trial(same: bool) -> None:
    row = summarise(findings({"lane": 0}, {"lane": 0, "config": "c" if same else "d"}))[0]
    assert row["trials"] == (1 if same else 2)
