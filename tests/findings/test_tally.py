"""What a run came to: trials with several finds, gradients, and how many different mistakes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foible.cells import cell_of
from foible.findings import OUTCOMES, SCHEMA, Findings, with_metadata
from foible.findings.tally import cells_of, distinct, row_by_row, summarise
from foible.statistics import wilson


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


def test_images_are_counted_as_well_as_trials(tmp_path: Path) -> None:
    """Five trials of three images, in two shards; two of the images were made wrong, one of them twice."""
    trials = [(0, 7, "found"), (1, 8, "exhausted"), (2, 9, "exhausted"), (3, 7, "found"), (4, 8, "found")]
    rows = [{"lane": lane, "origin_index": index, "outcome": outcome} for lane, index, outcome in trials]
    (tmp_path / "shards").mkdir()
    for number, part in enumerate((rows[:3], rows[3:])):
        pq.write_table(findings(*part).table, tmp_path / "shards" / f"{number}.parquet")
    for counted in (summarise(findings(*rows)), summarise(tmp_path)):
        wanted = {"trials": 5, "solved": 3, "images": 3, "images_solved": 2}
        assert {key: counted[0][key] for key in wanted} == wanted
    none = summarise(findings({"lane": 0}, {"lane": 1, "outcome": "exhausted"}))[0]
    assert (none["images"], none["images_solved"]) == (2, 1), "a trial that begins with no image counts as one"


def test_rows_without_a_lane_are_trials_each() -> None:
    assert summarise(findings({"lane": None}, {"lane": None}))[0]["trials"] == 2


@pytest.mark.parametrize("same", [True, False])
def test_another_config_is_another_trial(same: bool) -> None:
    row = summarise(findings({"lane": 0}, {"lane": 0, "config": "c" if same else "d"}))[0]
    assert row["trials"] == (1 if same else 2)


def odd_rows(count: int) -> Findings:
    """Rows of every sort, with nulls wherever there may be any."""
    draw = random.Random(7)
    some = []
    for lane in range(count):
        steps = draw.choice([None, 0, 1, 1, 1, 2, 3])
        least = (
            None if steps is None else [[draw.random() for _ in range(draw.choice([0, 2, 3]))] for _ in range(steps)]
        )
        some.append(
            {
                "config": draw.choice("cde"), "suspect": draw.choice("AB"), "lane": draw.choice([lane // 3, None]),
                "networks": draw.choice([["A", "B"], ["B", "A", "C"]]), "outcome": draw.choice(OUTCOMES),
                "label_from": draw.choice([None, "label", "consensus"]), "truth": draw.choice([None, 0, 2]),
                "consensus": draw.choice([None, 1]), "said": draw.choice([None, 0, 1, 2]),
                "moves": draw.choice([0, 3, 4, 16, 90]), "candidates": draw.randrange(99), "least_path": least,
                "forwards": draw.randrange(10**6), "backwards": draw.choice([None, 7]),
                "size": draw.choice([None, 0.5, 1.0, 2.0, 3.9, 7.0]),
                "kinds": draw.choice([None, [], ["x"], ["y", "x"]]),
            }
        )  # fmt: skip
    table = pa.Table.from_pylist(some, schema=SCHEMA)
    return Findings(with_metadata(table, ["0", "1", "2"], {"c": {}, "d": {"search": "map-elites?x=1"}, "e": {}}))


@pytest.mark.parametrize("own", [False, True])
def test_cells_of_many_rows_are_those_of_each(own: bool) -> None:
    found = odd_rows(2000).filter(outcome="found")
    cells, which = cells_of(found.table, own)
    assert [cells[number] for number in which] == [cell_of(row, own) for row in found]
    assert cells == list(dict.fromkeys(cell_of(row, own) for row in found))


def test_the_counts_are_those_of_a_count_by_hand() -> None:
    some = odd_rows(2000)
    rows = [row for row in some if row["suspect"] == "B"]
    finds = [row for row in rows if row["outcome"] == "found"]
    (told,) = [row for row in summarise(some) if row["suspect"] == "B"]
    trials = [(row["config"], row["lane"] if row["lane"] is not None else row) for row in rows]
    solved = [(row["config"], row["lane"] if row["lane"] is not None else row) for row in finds]
    assert told["trials"] == len({repr(trial) for trial in trials})
    assert told["solved"] == len({repr(trial) for trial in solved})
    assert told["found"] == len(finds)
    assert told["found"] + told["exhausted"] + told["invalid"] == len(rows)
    assert told["moves"] == sum(row["moves"] for row in finds) / len(finds)
    assert told["backwards_spent"] == sum(row["backwards"] or 0 for row in finds) / len(finds)
    counted = sum(row["candidates"] * len(row["networks"]) for row in finds)
    assert told["inferences_as_the_paper_counts"] == counted / len(finds)
    assert told["all_inferences"] == sum(row["forwards"] for row in rows)
    assert told["cells"] == len({cell_of(row, own=row["config"] == "d") for row in finds})


def test_costs_row_by_row() -> None:
    each = row_by_row(findings(*ATLAS, {"suspect": "B", "moves": 9, "outcome": "exhausted"}))
    assert list(each) == ["A", "B"]
    assert each["A"]["found"].tolist() == [1, 1, 1, 1, 0, 0, 1]
    assert each["A"]["counted"].tolist() == [20] * 7
    assert (each["B"]["moves"].tolist(), each["B"]["found"].tolist()) == ([9], [0])


def test_distinct_rows_in_the_order_of_their_first() -> None:
    first, number = distinct(np.array([5, 1, 5, 1, 5]), np.array([0, 0, 0, 2, 1]))
    assert first.tolist() == [0, 1, 3, 4]
    assert number.tolist() == [0, 1, 0, 2, 3]
    assert [part.tolist() for part in distinct(np.array([], np.int64))] == [[], []]


def test_nothing_to_count() -> None:
    assert summarise(findings().head(0)) == []
