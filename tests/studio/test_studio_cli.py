"""`foible label` and `foible studio` from a terminal: tasks, figures, files in and out, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import small_run

from foible import cli
from foible.findings.labels import labels_of
from foible.studio.store import Store


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> Any:
    capsys.readouterr()
    assert cli.run([*args, "--json"]) == code
    out, err = capsys.readouterr()
    return json.loads(out) if code == 0 else err


def answer_all(file: Path, choice: int = 0) -> None:
    store = Store(file)
    store.base.execute("PRAGMA synchronous = OFF")
    task = store.tasks()[0]
    for person in store.people(task):
        while keys := store.next_turns(person, 1):
            store.answer(person, keys[0], choice, 1.0, keys[0] * 2)
    store.close()


def test_a_run_from_task_to_labels(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = small_run(here / "run")
    (here / "say.txt").write_text("Say what it is.")
    label = ("label", str(run), "--annotators", "4", "--votes", "3", "--cannot-tell", "--repeats", "0.2", "--checks",
             "2", "--examples", "1", "--guideline", "say.txt", "--key", "3=d", "--limit", "10")  # fmt: skip
    told = said(capsys, *label, "--status")
    assert (told["images"], told["votes_each"], told["answers"]) == (10, 3, 0)
    assert len(told["people"]) == 4
    again = said(capsys, "label", str(run), "--status")  # the same task, whatever is left out
    assert again["votes_each"] == 3
    store = Store(here / "studio.sqlite")
    task = store.tasks()[0]
    assert task.guideline == "Say what it is."
    assert store.examples(task)
    store.close()
    answer_all(here / "studio.sqlite")
    told = said(capsys, "label", str(run), "--status")
    assert told["voted"] == 10
    assert told["people"][0]["self_consistency"][0] == told["people"][0]["self_consistency"][1] > 0
    assert cli.run(["label", str(run), "--status"]) == 0
    assert "10 of 10 images have all their votes" in capsys.readouterr().out
    for name in ("a.csv", "a.parquet", "a.json"):
        count = said(capsys, "label", str(run), "--export", name)["written"]
        assert said(capsys, "label", str(run), "--import", name)["new"] == 0
        assert count == told["answers"]
    assert said(capsys, "label", str(run), "--export", "long.csv", "--to", "cleanlab")["written"] == told["votes"]
    assert said(capsys, "import", "a.json", str(run))["labelled"] == 10
    joined = said(capsys, "label", str(run), "--take", "dawid-skene")
    assert joined["labelled"] == 10 == len(labels_of(run).labels)
    assert {*labels_of(run).labels.values()} == {"0"}


def test_any_data(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "label", "digits", "--limit", "6", "--checks", "2", "--examples", "1", "--status")
    assert told["images"] == 6
    assert len(told["classes"]) == 10
    two = said(capsys, "label", "digits", "--classes", "odd,even", "--task", "parity", "--limit", "4", "--status")
    assert [one["class"] for one in two["classes"]] == ["odd", "even"]
    assert "is of 'digits'" in said(capsys, "label", "mnist", "--task", "parity", "--status", code=2)
    assert "no run" in said(capsys, "label", "digits", "--take", "majority", code=2)
    assert (here / "studio.sqlite").exists()


@pytest.mark.parametrize(("args", "word"), [
    (("label", "digits", "--votes", "3", "--annotators", "2"), "votes"),
    (("label", "digits", "--key", "3"), "as in cat=c"),
    (("label", "nothing-like-it"), "nothing-like-it"),
    (("label", "digits", "--classes", "one"), "classes"),
    (("label", "digits", "--guideline", "none.txt"), "none.txt"),
    (("label", "digits", "--limit", "4", "--export", "answers.txt"), "answers.txt"),
    (("studio", "nowhere"), "nowhere"),
    (("studio", "--host", "0.0.0.0"), "public-url"),
    (("studio", "--public-url", "labels.example"), "public-url"),
])  # fmt: skip
def test_what_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], word: str
) -> None:
    monkeypatch.setenv("FOIBLE_STUDIO_PASSWORD", "a long password")
    assert cli.run([*args, "--port", "0"]) == 2
    assert word in capsys.readouterr().err
    assert here.exists()


def test_ctrl_c_is_the_way_to_stop(here: Path) -> None:
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from foible.cli import main; "
        "sys.argv[0] = 'foible'; main()"
    )
    command = [sys.executable, "-c", script, "label", str(small_run(here / "run")), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here) as program:
        assert program.stdout is not None
        lines = [program.stdout.readline() for _ in range(3)]
        assert lines[0].startswith("Studio: http://127.0.0.1:")
        assert "/enter/" in lines[0]
        assert "annotator 1: http://127.0.0.1:" in lines[1]
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=20)
        assert (program.returncode, out, err) == (0, "", "")


def test_help_loads_no_server() -> None:
    code = "import sys, foible.cli; sys.exit(any(name in sys.modules for name in ('starlette', 'uvicorn', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
