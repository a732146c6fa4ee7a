"""`foible suite` and `foible gate`: exit codes, files for pipelines, and what they say to wrong input."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import numpy as np
import pytest
from safetensors.torch import load, save
from small_tasks import SPACE, linear_task

from foible import cli
from foible.networks.files import load_folder

QUICK = ["--trials", "40", "--patience", "40", "--workers", "1", "--space", SPACE]


def _run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    code = cli.run([str(arg) for arg in args])
    said = capsys.readouterr()
    return code, said.out, said.err


def _json(capsys: pytest.CaptureFixture[str], *args: object, code: int = 0) -> Any:
    got, out, err = _run(capsys, *args, "--json")
    assert got == code, err
    return json.loads(out)


def _wrong(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    code, out, err = _run(capsys, *args)
    assert (code, out) == (2, ""), err
    assert "Traceback" not in err
    return err


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders old, new, lost (which takes class 2 for 0), a basket of peers, data.npz, and a suite."""
    home = tmp_path_factory.mktemp("gate")
    made = linear_task(home, names=("old", "new", "P1"))
    assert len(load_folder(made.basket)) == 3
    record = json.loads((made.basket / "basket.json").read_text())
    for name, network in zip(("old", "new", "lost", "P1"), [0, 1, 1, 2], strict=True):
        folder = home / name
        folder.mkdir()
        data = (made.basket / f"{network}.safetensors").read_bytes()
        if name == "lost":
            state = load(data)
            state["output.bias"][2] = -1000.0
            data = save(state)
        (folder / "w.safetensors").write_bytes(data)
        one = {"name": name, "spec": "softmax", "file": "w.safetensors", "sha256": hashlib.sha256(data).hexdigest()}
        (folder / "basket.json").write_text(json.dumps({**record, "networks": [one]}))
    hunt = ["hunt", "--basket", str(made.basket), "--data", made.data, *QUICK, "--out", str(home / "hunt")]
    assert cli.run(hunt) == 0
    compare = ["compare", "--basket", str(made.basket), "--data", made.data, "--split", "train"]
    assert cli.run([*compare, "--out", str(home / "compare")]) == 0
    assert cli.run(["suite", str(home / "hunt"), str(home / "compare"), "--out", str(home / "suite")]) == 0
    return home


def test_a_suite_and_its_summary(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = _json(capsys, "suite", task / "hunt", "--out", tmp_path / "suite", "--per-class", 3)
    assert made["tags"]["anchor"] == 9
    assert made["rows"] == 9 + made["tags"]["hunt"]
    again = _json(capsys, "suite", task / "hunt", "--out", tmp_path / "suite", "--per-class", 5, "--add")
    assert again["added"] == 6
    code, out, _ = _run(capsys, "suite", task / "hunt", "--out", tmp_path / "other", "--most", 10)
    assert code == 0
    assert "10 images (10 added): 5 anchor, 5 hunt" in out.replace("\n", " ")


def test_rows_of_a_suite_can_be_looked_at(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = _json(capsys, "gate", "--suite", task / "suite", "--network", f"new={task / 'lost'}", "--old", "new", code=1)
    row = _json(capsys, "show", task / "suite" / "suite.parquet", lost["broken"][0])
    assert row["id"] == lost["broken"][0]
    # The one that is not old is new, whatever it is called; and the output says how to look at what broke.
    given = [f"cand={task / 'lost'}", task / "lost"]
    for one in given:
        code, out, _ = _run(capsys, "gate", "--suite", task / "suite", "--network", one, "--old", "new")
        assert code == 1
        assert f"foible show {task / 'suite'} {lost['broken'][0]}" in out
    shown = out.partition("To look at one: foible ")[2].splitlines()[0]
    assert lost["broken"][0] in _run(capsys, *shown.split())[1]


def test_pass_and_fail_leave_by_their_exit_codes(
    task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = ["gate", "--suite", task / "suite", "--network", f"old={task / 'new'}", "--tolerance", 10]
    files = ["--junit", tmp_path / "deep" / "gate.xml", "--markdown", tmp_path / "gate.md"]
    code, out, err = _run(capsys, *gate, "--network", f"new={task / 'new'}", *files)
    assert (code, "WARNING" in err) == (0, False)
    assert out.startswith("pass: new against old")
    assert (tmp_path / "gate.md").read_text("utf-8").startswith("## ✅ foible gate: pass")
    code, out, err = _run(capsys, *gate, "--network", f"new={task / 'lost'}", *files)
    assert code == 1
    assert out.startswith("fail: new against old")
    assert "class 2" in out
    assert (tmp_path / "gate.md").read_text("utf-8").startswith("## ❌ foible gate: fail")
    failed = [
        case.get("name")
        for case in xml.parse(tmp_path / "deep" / "gate.xml").iter("testcase")
        if len(case.findall("failure"))
    ]
    assert failed == ["drawn images", "2"]


def test_inconclusive_warns_and_strict_fails(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _json(capsys, "suite", task / "hunt", "--out", tmp_path / "small", "--most", 6)
    gate = ["gate", "--suite", tmp_path / "small", "--network", f"new={task / 'new'}", "--old", "new"]
    for more, code in (([], 0), (["--strict"], 1)):
        got, out, err = _run(capsys, *gate, *more, "--json", "--junit", tmp_path / "gate.xml")
        assert got == code
        assert json.loads(out)["verdict"] == "inconclusive"
        assert "WARNING: inconclusive" in err
        (suite,) = xml.parse(tmp_path / "gate.xml").getroot()
        assert suite.get("failures") == str(code)


def test_old_by_record(task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = ["gate", "--suite", task / "suite", "--network", f"new={task / 'lost'}"]
    recorded = _json(capsys, *gate, "--old", "new", code=1)
    judged = _json(capsys, *gate, "--network", f"old={task / 'new'}", code=1)
    assert recorded["checks"] == judged["checks"]
    assert (recorded["recorded"], judged["recorded"]) == (True, False)


def test_the_nightly_tier(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = ["gate", "--hunt", "--network", f"old={task / 'old'}", "--network", f"P1={task / 'P1'}"]
    gate += ["--data", f"npz:{task / 'data.npz'}", "--split", "train", *QUICK, "--peer-confidence", "0.4"]
    lost = _json(capsys, *gate, "--network", f"new={task / 'lost'}", "--out", tmp_path / "lost", code=1)
    assert [check["name"] for check in lost["checks"] if check["verdict"] == "fail" and check["kind"] == "class"] == [
        "2"
    ]
    twin = [*gate, "--network", f"new={task / 'old'}", "--out", tmp_path / "twin", "--tolerance", 20]
    first = _json(capsys, *twin)
    assert first["verdict"] == "pass"
    assert (tmp_path / "twin" / "hunt" / "config.json").exists()
    assert _json(capsys, *twin) == first
    assert json.loads((tmp_path / "twin" / "gate.json").read_text()) == first


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give --suite SUITE"),
        (["--suite", "SUITE", "--hunt"], "one of the two"),
        (["--suite", "SUITE", "--data", "digits"], "--data goes with --hunt"),
        (["--hunt"], "--hunt needs --data"),
        (["--suite", "SUITE"], "no network is called 'new' (given none): expected --network new=SPEC"),
        (["--suite", "SUITE", "--network", "old=NEW"], "no network is called 'new' (given old)"),
        (
            ["--suite", "SUITE", "--network", "A=NEW", "--network", "B=NEW"],
            "no network is called 'new' (given A, B)",
        ),
        (["--suite", "SUITE", "--network", "new=NEW", "--tolerance", "-1"], "tolerance is -1"),
        (["--suite", "SUITE", "--network", "new=NEW", "--class-tolerance", "1000"], "class-tolerance is 1000"),
        (["--suite", "SUITE", "--network", "new=NEW", "--old", "nobody"], "no row of the suite records"),
        (["--suite", "HUNT", "--network", "new=NEW"], "is not a suite: it has no suite.json"),
        (["--hunt", "--data", "DATA", "--split", "train", "--network", "new=NEW"], "needs old, new and a peer"),
        (["--hunt", "--data", "DATA", "--network", "new=NEW", "--old", "x"], "OLD as a network"),
    ],
)  # fmt: skip
def test_wrong_input(
    task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    places = {"SUITE": task / "suite", "NEW": task / "P1", "HUNT": task / "hunt", "DATA": f"npz:{task / 'data.npz'}"}
    for word, place in places.items():
        options = [option.replace(word, str(place)) if word in option else option for option in options]
    err = _wrong(capsys, "gate", *options, "--out", tmp_path / "out")
    assert said in err


def test_a_changed_suite_is_refused(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _json(capsys, "suite", task / "hunt", "--out", tmp_path / "suite")
    file = tmp_path / "suite" / "suite.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    said = _wrong(capsys, "gate", "--suite", tmp_path / "suite", "--network", f"new={task / 'new'}")
    assert "is not the file that was frozen" in said


def test_a_suite_of_other_classes(task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = linear_task(tmp_path / "other", classes=("x", "y", "z"), names=("new",))
    said = _wrong(capsys, "gate", "--suite", task / "suite", "--network", other.basket)
    assert "the suite has 0, 1, 2, the networks x, y, z" in said


def test_hostile_names_stay_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classes = ("<script>alert(1)</script>", "a|b `c` @all", "]]>&amp;\x1b[31m")
    named = linear_task(tmp_path, classes=classes, names=("new", "[bold]x", "z"))
    arrays = dict(np.load(tmp_path / "data.npz"))
    assert tuple(arrays["classes"].tolist()) == classes
    run = ["compare", "--basket", named.basket, "--data", named.data, "--split", "train", "--out", tmp_path / "run"]
    assert _run(capsys, *run)[0] == 0
    _json(capsys, "suite", tmp_path / "run", "--out", tmp_path / "suite")
    (tmp_path / "one").mkdir()
    lone = linear_task(tmp_path / "one", classes=classes, names=("new",))
    gate = ["gate", "--suite", tmp_path / "suite", "--network", lone.basket, "--old", "[bold]x"]
    code, out, _ = _run(capsys, *gate, "--junit", tmp_path / "gate.xml", "--markdown", tmp_path / "gate.md")
    assert code in (0, 1)
    assert "[bold]x" in out
    assert "\x1b[31m" not in out
    names = {case.get("name") for case in xml.parse(tmp_path / "gate.xml").iter("testcase")}
    assert {"<script>alert(1)</script>", "a|b `c` @all", "]]>&amp;\\x1b[31m"} <= names
    text = (tmp_path / "gate.md").read_text("utf-8")
    assert "<script" not in text
    assert "@all" not in text
