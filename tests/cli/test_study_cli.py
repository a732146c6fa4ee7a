"""`foible study`: what it prints, and what it says of wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from foible import cli
from foible.studies import STUDIES, own_options

Capture = pytest.CaptureFixture[str]


def test_alone_it_lists_the_studies(capsys: Capture) -> None:
    assert cli.run(["study"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in STUDIES)
    assert cli.run(["study", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["studies"]
    assert [one["name"] for one in listed] == list(STUDIES)


def test_it_prints_paper_beside_measured_and_where_the_files_are(capsys: Capture, tmp_path: Path) -> None:
    options = ["--set", "steps=2", "--set", "replicates=1", "--set", "side=16"]
    assert cli.run(["study", "checkerboard", "--out", str(tmp_path / "a"), *options]) == 0
    text = capsys.readouterr().out
    for word in ("paper", "measured", "95 % interval", "Figure 3", "12 units", "table.md", "figure4.png"):
        assert word in text
    assert cli.run(["study", "checkerboard", "--json", "--out", str(tmp_path / "b"), *options]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert err == ""
    assert record.pop("out") == str(tmp_path / "b")
    assert record == json.loads((tmp_path / "b" / "result.json").read_text())


@pytest.mark.parametrize("name", STUDIES)
def test_help_of_a_study_tells_of_its_own_options(name: str, capsys: Capture) -> None:
    assert cli.run(["study", name, "--help"]) == 0
    common, own = capsys.readouterr().out.split(f"Options of {name} alone:")
    assert "--scale" in common
    flags, about = own.strip().split("\n\n", 1)
    _, options = own_options(name)
    for option in options:
        assert f"--{option.replace('_', '-')}" in flags
        assert re.search(rf"\b{option}\b", about), option


def test_help_without_a_study_is_of_all(capsys: Capture) -> None:
    assert cli.run(["study", "--help"]) == 0
    assert "alone" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["chekerboard"], "did you mean 'checkerboard'"),
        (["checkerboard", "--scale", "large"], "expected quick or paper"),
        (["checkerboard", "--data", "mnist"], "leave out --data"),
        (["checkerboard", "--set", "steps"], "expected KEY=VALUE"),
        (["checkerboard", "--set", "step=3"], "did you mean 'steps'"),
        (["table1", "--set", "space=swaps?x=1"], "swaps"),
        (["table1", "--basket", "nowhere"], "nowhere"),
    ],
)
def test_wrong_input_is_exit_2_and_says_what_to_do(
    args: list[str], said: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["study", *args]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
