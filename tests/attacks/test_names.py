"""Names of classes and networks are data: inert in the report and the notebook, in file names, tables and terminals."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from small_tasks import Task, linear_task

import foible
from foible import cli
from foible.findings import Findings
from foible.recipes.export import export

TAG = "</script><img src=x onerror=alert(1)>"
FORMULA = '=HYPERLINK("http://x.example","x")'
UP = "../../etc/passwd"
MARKUP = ("[red]x[/red]", "[/]", "[link=file:///etc/passwd]y[/link]")
CONTROL = ("\x1b]0;owned\x07\x1b[2J", "a\nb\rc", "\u202etxt.exe")


def _hunted(folder: Path, classes: tuple[str, ...], names: tuple[str, ...], trials: int = 12) -> tuple[Task, Path]:
    """A run of some finds, with each network as the suspect."""
    task = linear_task(folder, classes, names)
    how = ("--trials", str(trials), "--peer-confidence", "0", "--workers", "1")
    assert cli.run(task.hunt(*how, "--out", str(folder / "run"))) == 0
    return task, folder / "run"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classes and networks carry a tag, a path and a formula."""
    return _hunted(tmp_path_factory.mktemp("hostile"), (TAG, UP, FORMULA), (FORMULA, TAG, UP), 24)[1]


class _Tags(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def _inert(text: str) -> None:
    assert TAG not in text
    assert "<img src=x" not in text
    for tag, attributes in _Tags(text).found:
        assert tag not in ("script", "iframe", "object", "embed", "base", "link"), (tag, attributes)
        assert attributes.get("http-equiv", "").lower() != "refresh"
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href"):
            link = attributes.get(name) or "#"
            assert link.startswith(("#", "data:image/")), (tag, link)


def test_all_of_it_was_found_in_each_class(hostile: Path) -> None:
    found = Findings.open(hostile).filter(outcome="found")
    assert set(found.column("suspect")) == {FORMULA, TAG, UP}
    assert {found.name_of(k) for k in found.column("truth")} == {TAG, UP, FORMULA}


def test_the_report_is_inert(hostile: Path) -> None:
    text = (hostile / "report.html").read_text("utf-8")
    _inert(text)
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in text  # shown as what it is


def test_the_reports_of_an_atlas_and_of_a_pool_are_inert(hostile: Path, tmp_path: Path) -> None:
    task = linear_task(tmp_path / "task", (TAG, UP, FORMULA), (FORMULA, TAG, UP))
    found = Findings.open(hostile).filter(outcome="found", suspect=TAG)
    images = torch.stack(found.images())  # that this network alone gets wrong
    labels, classes = np.array(found.column("truth")), np.array([TAG, UP, FORMULA])
    np.savez(tmp_path / "pool.npz", images=images.numpy(), labels=labels, classes=classes)
    runs = {"atlas": task.hunt("--trials", "24", "--atlas", "--budget", "150", "--workers", "1")}
    runs["pool"] = ["rank", "--basket", str(task.basket), "--data", f"npz:{tmp_path / 'pool.npz'}"]
    for name, command in runs.items():
        assert cli.run([*command, "--out", str(tmp_path / name)]) == 0
        assert len(Findings.open(tmp_path / name).filter(outcome="found")) > 0
        text = (tmp_path / name / "report.html").read_text("utf-8")
        _inert(text)
        assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in text
        assert cli.run(["show", str(tmp_path / name)]) == 0


def test_the_notebook_view_is_inert(hostile: Path) -> None:
    view = Findings.open(hostile)._repr_html_()
    _inert(view)
    assert "&lt;img src=x" in view


def test_a_folder_export_stays_in_its_folder_and_reads_back(hostile: Path, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "out"
    before = {file for file in tmp_path.rglob("*") if file.is_file()}
    assert cli.run(["export", str(hostile), "--to", "folder", "--out", str(out)]) == 0
    after = {file for file in tmp_path.rglob("*") if file.is_file()}
    assert all(file.resolve().is_relative_to(out.resolve()) for file in after - before)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", part) for file in after for part in file.relative_to(out).parts)
    back = foible.load(f"folder:{out}")
    found = Findings.open(hostile).filter(outcome="found")
    assert len(back) == len(found)
    assert len(back.classes) == 3
    assert back.problems == ()


@pytest.mark.parametrize("to", ["csv", "folder"])
def test_a_spreadsheet_runs_nothing_and_numbers_stay_numbers(hostile: Path, tmp_path: Path, to: str) -> None:
    assert cli.run(["export", str(hostile), "--to", to, "--out", str(tmp_path / "out"), "--all"]) == 0
    file = tmp_path / "out" if to == "csv" else tmp_path / "out" / "findings.csv"
    with file.open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 72
    findings = Findings.open(hostile)
    negative = 0
    for row, stored in zip(rows, findings, strict=True):
        for name, cell in row.items():
            number = re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", cell)
            assert number or not cell.startswith(("=", "+", "-", "@", "\t", "\r")), (name, cell)
        assert row["suspect"] in (stored["suspect"], f"'{stored['suspect']}")
        assert float(row["rotation °"]) == dict(stored["change"])["rotation °"]
        assert int(row["moves"]) == stored["moves"]
        negative += row["rotation °"].startswith("-")
    assert negative > 0  # and those were left alone
    assert {row["truth"] for row in rows} == {TAG, UP, f"'{FORMULA}"}


def test_other_ways_to_begin_a_formula(tmp_path: Path) -> None:
    classes = ("@SUM(1+1)*cmd|' /C calc'!A0", "\t=1+1", "-2+3+cmd|' /C calc'!A0")
    _, run = _hunted(tmp_path, classes, ("A", "B", "C"))
    export(run, "csv", tmp_path / "out.csv", everything=True)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["truth"] for row in rows} == {f"'{name}" for name in classes}


def test_names_of_columns_are_not_formulas_either(hostile: Path, tmp_path: Path) -> None:
    """Parquet files travel: their column `change` may say anything."""
    table = Findings.open(hostile).head(5).table
    place = table.column_names.index("change")
    bad = pa.array([[("=1+1", 2.0), ("suspect", 7.0)]] * 5, table.schema.field("change").type)
    pq.write_table(table.set_column(place, table.schema.field("change"), bad), tmp_path / "bad.parquet")
    export(tmp_path / "bad.parquet", "csv", tmp_path / "out.csv", everything=True)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as handle:
        header, *rows = csv.reader(handle)
    assert not any(name.startswith("=") for name in header)
    assert all(len(row) == len(header) for row in rows)
    assert {row[header.index("suspect")] for row in rows} == {f"'{FORMULA}"}


@pytest.mark.parametrize("name", ["findings.csv", "CON", "train", ".hidden", "a" * 300, "unlabelled", "é"])
def test_awkward_class_names_make_a_folder_that_reads_back(tmp_path: Path, name: str) -> None:
    _, run = _hunted(tmp_path, (name, "test", "UNLABELLED"), ("A", "B", "C"))
    assert cli.run(["export", str(run), "--to", "folder", "--out", str(tmp_path / "out")]) == 0
    homes = [home.name.lower() for home in (tmp_path / "out").iterdir() if home.is_dir()]
    assert len(set(homes)) == 3  # also where upper and lower case are one
    assert "con" not in homes
    assert (tmp_path / "out" / "findings.csv").is_file()
    assert len(foible.load(f"folder:{tmp_path / 'out'}")) == len(Findings.open(run).filter(outcome="found"))


@pytest.mark.parametrize("names", [MARKUP, CONTROL])
def test_a_terminal_shows_names_and_obeys_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, run = _hunted(tmp_path, names, names[::-1])
    said = capsys.readouterr()
    assert str(run) in said.out
    first = Findings.open(run).filter(outcome="found")[0]["id"]
    for command in (["show", str(run)], ["show", str(run), first]):
        assert cli.run(command) == 0, capsys.readouterr().err
        text = capsys.readouterr().out
        said = type(said)(said.out + text, said.err)
        if names is MARKUP:
            assert any(name in text for name in names), text
    everything = said.out + said.err
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", everything), ascii(everything)
    for command in (["show", str(run), names[0]], ["replay", str(run), names[1]]):  # in errors too
        assert cli.run(command) == 2
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", capsys.readouterr().err)


def test_hostile_rows_replay(hostile: Path) -> None:
    assert cli.run(["replay", str(hostile)]) == 0
    assert cli.run(["show", str(hostile), f"{UP}-000000", "--json"]) == 0
