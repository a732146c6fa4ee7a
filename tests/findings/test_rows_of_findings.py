from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from foible.data import Dataset, Photographs, open_data
from foible.findings import SCHEMA
from foible.findings.rows import (
    agreed,
    answered,
    as_column,
    as_pngs,
    as_table,
    cost,
    ended,
    identity,
    known,
    origin,
    unmoved,
    walked,
)
from foible.search.task import Accepted

CPU = torch.device("cpu")


def test_a_table_is_the_union_of_its_sections_and_the_later_wins() -> None:
    table = as_table({"id": ["a", "b"], "said": [1, 2]}, unmoved(2), {"said": [3, 4]}, count=2)
    assert table.schema == SCHEMA
    assert table.column("said").to_pylist() == [3, 4]
    assert table.column("path").to_pylist() == [[], []]
    assert table.column("film").null_count == 2  # in no section


def test_a_column_that_there_is_not_is_refused() -> None:
    with pytest.raises(KeyError, match="findings have no column colour"):
        as_table({"id": ["a"], "colour": ["red"]}, count=1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (7, [7, 7]),
        (None, [None, None]),
        ([1, None], [1, None]),
        (torch.tensor([1, 2]), [1, 2]),
        (pa.array([1, 2], pa.int64()), [1, 2]),
    ],
)
def test_a_column_takes_one_value_for_all_rows_or_one_each(values: object, expected: list[int | None]) -> None:
    made = as_column("said", values, 2)
    assert made.type == pa.int32()
    assert made.to_pylist() == expected


def test_ids_name_the_suspect_of_each_row_and_which_of_several_it_is() -> None:
    rows = identity([["A", "B"], ["B", "A"]], [7, 12], config="x", device=CPU)
    assert rows["id"] == ["A-000007", "B-000012"]
    assert rows["suspect"] == ["A", "B"]
    assert json.loads(rows["versions"])["device"] == "cpu"
    rows = identity([["A", "B"]] * 2, [7, 7], config="x", device=CPU, which=["cat", "dog"])
    assert rows["id"] == ["A-000007-cat", "A-000007-dog"]


def _origins(data: Dataset | Photographs, index: list[int]) -> list[list[object]]:
    table = as_table(
        origin(data, index, as_pngs(torch.zeros(len(index), 1, 2, 2, dtype=torch.uint8))), count=len(index)
    )
    return [table.column(f"origin_{part}").to_pylist() for part in ("data", "split", "index", "file")]


def test_the_origin_is_where_the_data_has_it(tmp_path: Path) -> None:
    images = torch.zeros(3, 1, 2, 2, dtype=torch.uint8)
    made = Dataset("made", "test", images, torch.zeros(3, dtype=torch.int64), ("a", "b"))
    assert _origins(made, [2, 0]) == [["made"] * 2, ["test"] * 2, [2, 0], [None, None]]
    for name in ("x", "y", "z"):
        (tmp_path / f"{name}.png").write_bytes(as_pngs(images)[0].as_py())
    spec = f"folder:{tmp_path}"
    read = open_data(spec, "test", labelled=False, quiet=True)
    assert _origins(read, [2, 0]) == [[spec] * 2, ["test"] * 2, [2, 0], ["z.png", "x.png"]]


def test_the_consensus_is_what_the_peers_have_in_common() -> None:
    said = torch.tensor([[0, 1, -1, 2], [1, 1, 2, -1], [1, 0, 2, -1]])
    probabilities = torch.full((3, 4, 3), 1 / 3)
    truth = torch.tensor([0, 1, 2, -1])
    table = as_table(answered(probabilities, probabilities, said, truth=truth, label_from="label"), count=4)
    assert table.column("said").to_pylist() == [0, 1, None, 2]
    assert table.column("consensus").to_pylist() == [1, None, 2, None]
    assert table.column("truth").to_pylist() == [0, 1, 2, None]
    assert [(len(row), len(row[0])) for row in table.column("after").to_pylist()] == [(3, 3)] * 4
    given = answered(probabilities, probabilities, said, truth=None, label_from="consensus", consensus=truth)
    table = as_table(given, count=4)
    assert table.column("consensus").to_pylist() == [0, 1, 2, None]
    assert table.column("truth").null_count == 4


def test_nobody_agrees_on_nothing() -> None:
    assert agreed(torch.empty(0, 2, dtype=torch.int64)).tolist() == [-1, -1]
    assert known(torch.tensor([-1, 3])).to_pylist() == [None, 3]


def test_a_way_has_its_start_before_its_moves() -> None:
    accepted = Accepted(
        row=torch.tensor([0, 0, 2]), step=torch.tensor([4, 9, 1]), draws=torch.tensor([[0.25], [0.5], [0.75]]),
        trace=torch.tensor([[0.5, 0.5], [0.25, 0.5], [0.125, 0.5]]),
    )  # fmt: skip
    moves = torch.tensor([2, 0, 1])
    start, traces = torch.ones(3, 2), [[[1, 1], [0.5, 0.5], [0.25, 0.5]], [[1, 1]], [[1, 1], [0.125, 0.5]]]
    table = as_table(walked(accepted, moves, start, torch.arange(3)), cost(5, moves=moves), count=3)
    assert table.column("trace").to_pylist() == traces
    some = walked(accepted, moves, start, torch.tensor([0, 2]))
    assert some["trace"].to_pylist() == [traces[0], None, traces[2]]
    assert some["path"].equals(walked(accepted, moves, start, torch.arange(3))["path"])
    assert table.column("path").to_pylist()[2] == [{"step": 1, "draws": [0.75]}]
    assert table.column("moves").to_pylist() == [2, 0, 1]
    costs = [table.column(name).to_pylist()[0] for name in ("candidates", "forwards", "backwards")]
    assert costs == [1, 5, 0]


def test_rows_without_tags_have_an_empty_list_of_them() -> None:
    pngs = as_pngs(torch.zeros(2, 1, 2, 2, dtype=torch.uint8))
    table = as_table(ended(["found", "exhausted"], pngs, score=torch.tensor([1.0, -1.0])), count=2)
    assert table.column("tags").to_pylist() == [[], []]
    assert table.column("score").to_pylist() == [1, -1]
    assert table.column("realism").null_count == 2
