"""`foible doctor`: it tells what is there, and a broken part never stops it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

import foible
from foible import cli
from foible.cli import doctor


@pytest.fixture(scope="module")
def found() -> dict[str, object]:
    return doctor.examine()


def test_json_holds_everything(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOIBLE_DATA", raising=False)
    assert cli.run(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"versions", "platform", "devices", "extras", "data", "folders", "problems"}
    assert found["problems"] == []
    assert found["versions"]["foible"] == foible.__version__
    assert found["versions"]["torch"] == torch.__version__
    assert None not in found["versions"].values()
    assert found["devices"]["cpu"]["usable"] >= 1
    assert found["folders"]["FOIBLE_DATA"] is None
    assert found["folders"]["cache"]


def test_data_sets_are_listed_and_the_bundled_one_is_found(found: dict[str, list[dict[str, object]]]) -> None:
    rows = {row["name"]: row for row in found["data"]}
    assert rows["digits"]["found"] is True
    assert {"mnist", "fashion-mnist", "cifar10", "usps"} <= set(rows)
    for row in rows.values():
        assert row["found"] or row["how"], f"{row['name']} is missing and nothing says how to get it"


def test_every_dependency_of_the_package_is_checked() -> None:
    from importlib.metadata import requires

    needed = {line.split(">")[0].strip() for line in requires("foible") or [] if "extra ==" not in line}
    assert set(doctor.CORE) == needed


def test_text_is_plain_when_piped(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    for word in (
        "Versions",
        "Devices",
        "Optional packages",
        "Data sets",
        "Folders",
        "cpu",
        "torch",
        "digits",
    ):
        assert word in text


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    row = doctor._extra("pandas")
    assert (row["version"], row["problem"], row["install"]) == (None, None, "pip install 'foible[pandas]'")


def test_an_extra_that_fails_to_import_is_told_not_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torchvision.py").write_text(
        "print('noise')\nraise RuntimeError('operator nms does not exist\\nmore')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    row = doctor._extra("torchvision")
    assert row["version"] is None
    assert row["problem"] == "RuntimeError: operator nms does not exist"
    assert capsys.readouterr().out == ""


def test_a_missing_dependency_is_a_problem_and_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "CORE", (*doctor.CORE, "no-such-package"))
    assert cli.run(["doctor"]) == 1
    assert "pip install no-such-package" in capsys.readouterr().out


def test_a_wrong_data_folder_is_a_problem_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOIBLE_DATA", str(tmp_path / "nowhere"))
    assert cli.run(["doctor", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert len(found["problems"]) == 1
    assert "FOIBLE_DATA" in found["problems"][0]
    assert found["devices"]


def test_a_broken_part_is_told_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no driver")

    monkeypatch.setattr(doctor, "_devices", broken)
    found = doctor.examine()
    assert found["problems"] == ["broken: OSError: no driver"]
    assert found["data"]
    doctor._print(found)


def test_control_characters_are_shown_and_not_obeyed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOIBLE_DATA", str(tmp_path / "\x1b[2Jdata\n"))
    monkeypatch.setattr("platform.machine", lambda: "\x1b]0;title\x07")
    assert cli.run(["doctor"]) == 1
    said = capsys.readouterr()
    assert not {"\x1b", "\x07"} & {*said.out, *said.err}
    assert "\\x1b[2Jdata" in said.out
    assert "\\x1b]0;title" in said.out
