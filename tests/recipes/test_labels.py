"""What people said comes back: Label Studio and CSV into a run, findings that do not hold, and who passes them over."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import foible
from foible import cli
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import Findings
from foible.findings.labels import LABELS, labels_of
from foible.recipes.export import export
from foible.recipes.labels import _meant, import_labels
from foible.recipes.suite.suite import make_suite


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, basket: Basket, data: Dataset) -> Path:
    folder = tmp_path_factory.mktemp("labels") / "run"
    foible.hunt(basket, data, suspect="A", trials=24, out=folder, realism="none", shrink=False, quiet=True)
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "run")


def found(run: Path) -> list[dict[str, Any]]:
    return list(Findings.open(run).filter(outcome="found"))


def answered(finding: str, *labels: str, **more: Any) -> dict[str, Any]:
    """A task as Label Studio exports it, with an annotation for each label."""
    results = [{"value": {"choices": [label]}, "from_name": "label", "type": "choices"} for label in labels]
    annotations = [{"result": [result], "was_cancelled": False} | more for result in results]
    return {"id": 7, "annotations": annotations, "data": {"image": "/data/x.png", "finding": finding}}


def test_label_studio_says_which_findings_hold(run: Path, tmp_path: Path) -> None:
    first, second, third, fourth, *_ = found(run)
    tasks = [
        answered(first["id"], str(first["truth"]), str(first["said"]), str(first["truth"])),  # two of three
        answered(second["id"], str(second["said"])),  # people side with the suspect
        answered(third["id"], "0", "1"),  # a draw
        answered(fourth["id"], "0", was_cancelled=True),
        {"annotations": [{"result": [None, {"value": 3}]}, "?"], "data": {"finding": fourth["id"]}},
    ]
    (tmp_path / "labels.json").write_text(json.dumps(tasks))
    before = {file.name: file.read_bytes() for file in (run / "shards").iterdir()}
    labels = import_labels(tmp_path / "labels.json", run)
    assert labels.told == {"labelled": 2, "hold": 1, "fail": 1, "dropped": 0}
    assert (labels.holds, labels.fails) == ({first["id"]}, {second["id"]})
    assert labels_of(run) == labels
    assert {file.name: file.read_bytes() for file in (run / "shards").iterdir()} == before


def test_what_is_dropped_is_passed_over(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = found(run)[1]
    (tmp_path / "labels.csv").write_text(f"id,label\n{bad['id']},{bad['said']}\n")
    all_of_them = len(found(run))
    make_suite([run], tmp_path / "whole", per_class=0)
    assert cli.run(["import", str(tmp_path / "labels.csv"), str(run), "--drop", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["labelled"], told["fail"], told["dropped"]) == (1, 1, 1)
    assert export(run, "folder", tmp_path / "out") == all_of_them - 1
    make_suite([run], tmp_path / "suite", per_class=0)
    images = [Findings.open(tmp_path / name / "suite.parquet").column("image") for name in ("whole", "suite")]
    assert bad["image"] in images[0]
    assert bad["image"] not in images[1]
    assert cli.run(["show", str(run)]) == 0
    said = "1 image of this run was labelled by people: 0 findings hold, 1 do not; 1 dropped."
    assert said in capsys.readouterr().out
    assert cli.run(["report", str(run)]) == 0
    page = (run / "report.html").read_text("utf-8")
    assert said in page
    assert bad["id"] not in page.partition('id="gallery"')[2].partition("</ul>")[0]


def test_later_labels_join_earlier_ones(run: Path, tmp_path: Path) -> None:
    first, second, *_ = found(run)
    (tmp_path / "one.csv").write_text(f"id,finding,label\n1,{first['id']},{first['said']}\n")  # Label Studio's CSV
    (tmp_path / "two.json").write_text(json.dumps([{"finding": second["id"], "label": str(second["truth"])}]))
    import_labels(tmp_path / "one.csv", run, drop=True)
    labels = import_labels(tmp_path / "two.json", run)
    assert labels.told == {"labelled": 2, "hold": 1, "fail": 1, "dropped": 1}
    (tmp_path / "one.csv").write_text(f"id,label\n{first['id']},{first['truth']}\n")
    assert import_labels(tmp_path / "one.csv", run).told == {"labelled": 2, "hold": 2, "fail": 0, "dropped": 0}


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.csv", "id,label\nnobody,0\n", "labels 'nobody', which is no finding of"),
        ("a.csv", "name,label\nx,0\n", r"has the columns name, label: expected id \(or finding\) and label"),
        ("a.json", "{}", "is no export of Label Studio"),
        ("a.json", "[]", "there is no label in this file"),
        ("a.txt", "", "is neither .json nor .csv"),
        ("a.csv", "id,label\nA-000000,7\n", r"no class of the run: '7' \(A-000000\); its 3 classes are 0, 1, 2\. "),
    ],
)
def test_what_cannot_be_joined_is_refused(run: Path, tmp_path: Path, name: str, text: str, match: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=match):
        import_labels(tmp_path / name, run)
    assert not (run / LABELS).exists()


def test_what_people_write_is_understood(run: Path, tmp_path: Path) -> None:
    """Semicolons, as spreadsheets of some countries have them, other spellings of a class, and that nobody can tell."""
    first, second, third, *_ = found(run)
    lines = ["id;label", f"{first['id']}; {first['truth']} ", f"{second['id']};Cannot tell", f"{third['id']};"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    assert import_labels(tmp_path / "a.csv", run).told == {"labelled": 1, "hold": 1, "fail": 0, "dropped": 0}
    names = ("custard apple", "grey-fox")
    given = [("a", "Custard_Apple"), ("b", "custard apple"), ("c", "grey fox"), ("d", "?")]
    assert _meant(given, names, "x.csv") == {
        "custard apple": "custard apple", "grey-fox": "grey-fox", "Custard_Apple": "custard apple",
        "grey fox": "grey-fox",
    }  # fmt: skip
    with pytest.raises(UserError, match=r"'fog' \(e\), 'dog' \(f\)"):
        _meant([*given, ("e", "fog"), ("f", "dog")], names, "x.csv")


@pytest.mark.parametrize("text", ["", "[]", '{"labels": {"a": 3}}'])
def test_a_file_that_is_not_ours_is_no_label(run: Path, text: str) -> None:
    (run / LABELS).write_text(text)
    assert not labels_of(run).labels
