"""Reports of odd tables: nothing found, columns empty, names hostile, files damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fake_findings import (
    HOSTILE,
    MLPS,
    lost_row,
    realistic,
    rows,
    save_run,
    table_of,
    written,
)
from fake_runs import genuine
from html_page import Page

from foible.errors import UserError
from foible.findings import Findings
from foible.report import write_report
from foible.report.sample import Sample


@pytest.fixture(scope="module")
def findings() -> Findings:
    return realistic()


def test_nothing_found_says_what_to_try(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lost = [lost_row(rng, "mlp-10", MLPS, lane, 10, "exhausted") for lane in range(5)]
    page = written(table_of(lost), tmp_path)
    assert page.texts("h1") == ["No mistake found in 5 trials."]
    assert "lower peer confidence" in page.texts("p", class_="lead")[0]
    assert page.cells("mlp-10")[1:3] == ["0", "0.0 % 0.0–43.4"]
    assert page.cells("mlp-10")[4:6] == ["–", "–"]
    assert not page.texts("article")


def test_no_rows_at_all(tmp_path: Path) -> None:
    assert written(table_of([]), tmp_path).texts("h1") == ["This run has no trials yet."]


def test_rows_without_truth_origin_film_or_trace(tmp_path: Path) -> None:
    bare = {"truth": None, "origin": None, "origin_data": None, "film": None, "change": None}
    some = [
        *rows(2, **bare),
        *rows(1, **bare, trace=[]),
        *rows(1, **bare, trace=None, after=None, image=None),
    ]
    page = written(table_of([row | {"lane": lane} for lane, row in enumerate(some)]), tmp_path)
    assert "4 of 4 trials" in page.texts("h1")[0]
    assert len(page.texts("article")) == 4
    assert page.texts("ol", class_="steps")[0].count("step") == 1
    assert not page.texts("section", id="changes")


def test_one_network_alone_has_no_peers(tmp_path: Path) -> None:
    alone = rows(3, ("only",), consensus=None)
    page = written(table_of(alone), tmp_path)
    assert page.texts("h1")[0].endswith("by affine changes.")
    assert "peers" not in " ".join(page.texts("article"))


def test_ten_suspects_and_long_names(tmp_path: Path) -> None:
    names = tuple(f"network-{'long' * 30}-{n}" for n in range(10))
    some = [row for name in names for row in rows(20, (name, *(other for other in names if other != name)))]
    page = written(table_of(some, ["a" * 300, "b" * 300, *"cdefghij"]), tmp_path)
    assert len(page.texts("table", class_="heat long")) == sum("data-suspect" in a for _, a, _ in page.elements)


def test_thousand_classes_show_the_twenty_that_matter(tmp_path: Path) -> None:
    classes = [f"class number {n}" for n in range(1000)]
    some = [row | {"truth": n, "consensus": n, "said": 999 - n} for n, row in enumerate(rows(40))]
    page = written(table_of(some, classes), tmp_path)
    headings = [a for tag, a, _ in page.elements if tag == "th" and a.get("scope") == "col" and "title" in a]
    assert len(headings) == 20
    assert any("the 20 classes of 1,000" in text for text in page.texts("p"))


def test_class_outside_the_list_and_strange_pictures(tmp_path: Path) -> None:
    bomb = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + b"\x7f\xff\xff\xff" * 2 + b"\x00" * 5000
    odd = rows(1, said=77, image=b"no picture") + rows(1, image=bomb, film=bomb, origin=bomb)
    page = written(table_of(odd), tmp_path)
    assert "class 77" in page.texts("article")[1] + page.texts("article")[0]
    assert page.texts("span", class_="none").count("no image") >= 2


def test_hostile_names_are_text_only(tmp_path: Path) -> None:
    networks = (HOSTILE, "peer \"'`&<>", "\ud800half")
    config = {"space": HOSTILE, HOSTILE: HOSTILE}
    nasty = rows(3, networks, id=HOSTILE, origin_data=HOSTILE, versions=HOSTILE, change=[(HOSTILE, 2.0)])
    for row in nasty:
        row["networks"] = [*networks[:2], "peer"]
    file = write_report(Findings(table_of(nasty, [HOSTILE] * 10, config)), tmp_path / "r.html", title=HOSTILE)
    page = Page(file)
    assert page.texts("title")[0] == HOSTILE
    assert {tag for tag, _, _ in page.elements} & {"script", "iframe", "object", "link", "base"} == set()
    assert all(a["src"].startswith("data:image/") for tag, a, _ in page.elements if tag == "img")
    assert not any(name.startswith("on") for _, a, _ in page.elements for name in a)
    assert "<img src=x" not in file.read_text("utf-8")


def test_half_a_surrogate_pair_in_a_class_name(tmp_path: Path) -> None:
    assert len(written(table_of(rows(1), ["\ud800"] * 10), tmp_path).texts("article")) == 1


def test_unfinished_run_is_called_so(findings: Findings, tmp_path: Path) -> None:
    run = save_run(findings, tmp_path / "run")
    genuine(run, units=7)
    assert (
        "The run is not finished: 3 of its 7 units are here." in Page(write_report(run)).texts("p", class_="warning")[0]
    )


def test_where_the_report_goes(findings: Findings, tmp_path: Path) -> None:
    run = save_run(findings.head(3), tmp_path / "run", shards=1)
    (shard,) = (run / "shards").iterdir()
    assert write_report(shard) == shard.with_suffix(".html")
    assert write_report(str(run), tmp_path) == tmp_path / "report.html"
    assert write_report(run, tmp_path / "new" / "r.html").exists()
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["r.html"]  # nothing temporary left
    with pytest.raises(UserError, match="in memory: say where"):
        write_report(findings)
    with pytest.raises(UserError, match="holds no findings"):
        write_report(tmp_path / "nowhere")
    with pytest.raises(UserError, match="cannot"):
        write_report(run, shard / "below" / "report.html")


def test_damaged_shard_is_named_and_the_old_report_stays(findings: Findings, tmp_path: Path) -> None:
    run = save_run(findings, tmp_path / "run")
    before = write_report(run).read_bytes()
    (run / "shards" / "unit-00001.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(UserError, match="unit-00001"):
        write_report(run)
    assert (run / "report.html").read_bytes() == before


def test_shards_of_different_tasks_are_refused(tmp_path: Path) -> None:
    run = save_run(Findings(table_of(rows(2))), tmp_path / "run", shards=1)
    other = save_run(Findings(table_of(rows(2), list("abcdefghij"))), tmp_path / "other", shards=1)
    (other / "shards" / "unit-00000.parquet").rename(run / "shards" / "unit-00001.parquet")
    with pytest.raises(UserError, match="different tasks"):
        write_report(run)


def test_sample_is_exact_while_small_and_bounded_when_large() -> None:
    values = np.random.default_rng(0).normal(2, 1, 50_000).astype(np.float32)
    small, large = Sample(), Sample(limit=1000)
    for part in np.array_split(values, 37):
        large.add(part)
    small.add(values[:999])
    assert small.quartiles()[1] == pytest.approx(float(np.median(values[:999])))
    assert len(large.values) <= 1000
    assert large.seen == 50_000
    assert large.below == int((values < 0).sum())
    np.testing.assert_array_equal(large.values, values[:: large.stride])
