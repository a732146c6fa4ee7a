from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foible.errors import UserError
from foible.findings import Findings
from foible.findings.shards import all_different
from foible.findings.tally import summarise
from foible.recipes.hunt.recipe import hunt
from foible.statistics import wilson
from foible.testing import linear_basket, linear_trials


@pytest.fixture(scope="module")
def findings() -> Findings:
    from foible.data import Dataset

    basket = linear_basket()
    trials = linear_trials(basket, 40)
    data = Dataset("blobs", "train", trials.seeds, trials.aims, ("0", "<b>1</b>", "2"), ())
    basket.classes = data.classes
    return hunt(basket, data, suspect=["A", "B"], trials=25, space="affine?degrees=9", quiet=True)


def test_filter_by_value_and_by_list(findings: Findings) -> None:
    found = findings.filter(outcome="found", suspect=["A", "B"])
    assert 0 < len(found) < len(findings) == 50
    assert set(found.column("outcome")) == {"found"}
    assert len(findings.filter(suspect="A")) == 25
    with pytest.raises(UserError, match="no column 'colour'"):
        findings.filter(colour="red")


def test_concat_puts_runs_together_and_refuses_other_tasks(findings: Findings) -> None:
    both = Findings.concat([findings.filter(suspect="A"), findings.filter(suspect="B")])
    assert both.table.equals(findings.table)
    other = Findings(
        findings.table.replace_schema_metadata({**findings.table.schema.metadata, b"foible.classes": b'["x"]'})
    )
    with pytest.raises(UserError, match="different tasks"):
        Findings.concat([findings, other])


def test_to_pandas_has_names_beside_indices(findings: Findings) -> None:
    frame = findings.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["truth_name"].tolist() == [findings.classes[i] for i in findings.column("truth")]


def test_the_notebook_view_is_inert(findings: Findings) -> None:
    view = findings._repr_html_()
    assert "<b>1</b>" not in view
    assert "&lt;b&gt;1" in view
    assert "data:image/png;base64," in view


def test_files_that_are_not_findings_are_named(findings: Findings, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no findings"):
        Findings.open(tmp_path)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="no schema_version"):
        len(Findings.open(tmp_path / "a.parquet"))
    (tmp_path / "b.parquet").write_bytes(b"PAR1 truncated")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        len(Findings.open(tmp_path / "b.parquet"))
    newer = findings.table.replace_schema_metadata({**findings.table.schema.metadata, b"foible.schema_version": b"99"})
    pq.write_table(newer, tmp_path / "c.parquet")
    with pytest.raises(UserError, match="newer Foible"):
        len(Findings.open(tmp_path / "c.parquet"))


def test_summary_counts_what_the_table_says(findings: Findings) -> None:
    rows = {row["suspect"]: row for row in summarise(findings)}
    for name in "AB":
        part = findings.filter(suspect=name)
        found = part.filter(outcome="found")
        assert rows[name]["trials"] == len(part)
        assert rows[name]["found"] == len(found)
        assert rows[name]["moves"] == pytest.approx(sum(found.column("moves")) / len(found))
        assert rows[name]["inferences_spent"] == pytest.approx(sum(found.column("forwards")) / len(found))
        assert rows[name]["inferences_as_the_paper_counts"] == pytest.approx(
            3 * sum(found.column("candidates")) / len(found)
        )


def test_wilson_against_published_values() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


SHARDS = st.lists(st.lists(st.text("ab9-é𝄞", max_size=3), max_size=6), max_size=4)


@given(SHARDS, st.booleans())
def test_an_id_that_comes_twice_is_noticed_in_whatever_order(shards: list[list[str]], ordered: bool) -> None:
    shards = [sorted(ids) if ordered else ids for ids in shards]
    every = [id for ids in shards for id in ids]
    columns = [pa.chunked_array([pa.array(ids, pa.string())]) for ids in shards]
    assert all_different(columns) == (len(set(every)) == len(every))


@pytest.mark.parametrize(
    ("shards", "different"),
    [
        ([["A-0", "A-1"], ["A-2", "A-3"]], True),
        ([["B-0", "B-1"], ["A-0", "A-1"]], True),
        ([["A-0", "A-1"], ["A-1", "A-2"]], False),
        ([["A-0", "A-0"], ["A-1"]], False),
        ([["A-0", "A-3"], ["A-1", "A-2"]], True),
        ([["A-0", "A-3"], [], ["A-1", "A-3"]], False),
    ],
)
def test_shards_side_by_side_and_inside_each_other(shards: list[list[str]], different: bool) -> None:
    assert all_different([pa.chunked_array([pa.array(ids, pa.string())]) for ids in shards]) == different


def test_classes_go_by_name_and_rows_by_slices_and_functions(findings: Findings) -> None:
    named = findings.filter(truth="<b>1</b>")
    assert 0 < len(named) == len(findings.filter(truth=1)) < len(findings)
    assert set(named.column("truth")) == {1}
    assert findings[10:20].column("id") == findings.column("id")[10:20]
    assert findings[::-7].column("id") == findings.column("id")[::-7]
    assert len(findings[60:]) == 0
    moved = findings.filter(lambda row: row["moves"] > 0, outcome="found")
    assert moved.column("id") == [row["id"] for row in findings if row["moves"] > 0 and row["outcome"] == "found"]
    assert len(findings.filter(suspect="A").filter(suspect="B")) == 0
    tagged = Findings(
        findings.table.set_column(
            findings.table.column_names.index("tags"), "tags", pa.array([["x", "y"], ["y"]] * 25, pa.list_(pa.string()))
        )
    )
    assert (len(tagged.filter(tags="x")), len(tagged.filter(tags=["x", "y"]))) == (25, 50)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"truth": "cat"}, r"no row can have truth 'cat'; known: 0, <b>1</b>, 2"),
        ({"truth": 9}, "no row can have truth 9; known: 0 to 2"),
        ({"outcome": "fund"}, "no row can have outcome 'fund'; did you mean 'found'"),
        ({"suspect": "Z"}, "no row can have suspect 'Z'.*known: A, B"),
        ({"lane": "first"}, "lane is 'first': expected a whole number"),
        ({"size": "big"}, "size is 'big': expected a number"),
        ({"after": 0.5}, "give filter a function of a row"),
    ],
)
def test_a_value_that_no_row_can_have_is_named_in_our_words(
    findings: Findings, wanted: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        findings.filter(**wanted)


def test_a_column_that_is_not_there_is_named_in_our_words(findings: Findings) -> None:
    with pytest.raises(UserError, match=r"no column 'trut'; did you mean 'truth'"):
        findings.column("trut")
    with pytest.raises(UserError, match="holds no images"):
        findings.images("truth")
    with pytest.raises(IndexError, match="row 50 of 50"):
        findings[50]
