"""`foible data` and `foible data get`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from data_files import grey, picture, write_folder, write_idx
from typer.testing import CliRunner

from foible import cli
from foible.cli.data import app
from foible.errors import UserError


def test_the_list_says_what_is_there_and_how_to_get_the_rest(home: Path) -> None:
    write_idx(home / "mnist", grey(2), [0, 1])
    hostile = "[red]x"
    write_folder(home / hostile, {"a/x.png": picture(), "b/x.png": picture()})
    result = CliRunner().invoke(app, [], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    for text in (
        "digits",
        "bundled",
        str(home / "mnist"),
        "foible data get usps",
        "folder:PATH",
        f"folder:{hostile}",
    ):
        assert text in result.output


def test_the_list_as_json(home: Path) -> None:
    result = CliRunner().invoke(app, ["--json"])
    summary = json.loads(result.stdout)
    assert [row["spec"] for row in summary["data_sets"]] == [
        "digits",
        "mnist",
        "fashion-mnist",
        "cifar10",
        "usps",
    ]
    assert summary["foible_data"] == str(home)
    assert set(summary["forms"]) == {"folder", "parquet", "csv", "webdataset", "npz", "celeba"}


def test_get_says_where_it_is(home: Path) -> None:
    write_idx(home / "mnist", grey(2), [0, 1])
    assert str(home / "mnist") in CliRunner().invoke(app, ["get", "mnist"], env={"COLUMNS": "300"}).output
    summary = json.loads(CliRunner().invoke(app, ["get", "mnist", "--json"]).stdout)
    assert summary == {"name": "mnist", "folder": str(home / "mnist"), "train": 60_000, "test": 10_000}


@pytest.mark.usefixtures("home")
def test_get_of_an_unknown_name_is_the_users_mistake() -> None:
    result = CliRunner().invoke(app, ["get", "imagenet"])
    assert isinstance(result.exception, UserError)


def test_help_teaches() -> None:
    output = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output
    assert "folder:PATH" in output
    assert "FOIBLE_DATA" in output
    assert "SHA-256" in CliRunner().invoke(app, ["get", "--help"], env={"COLUMNS": "120"}).output


def test_ones_own_data_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    for name, count in (("cat", 3), ("dog", 2)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (20, 30)).save(tmp_path / "photos" / name / f"{number}.png")
    assert cli.run(["data", f"folder:{tmp_path / 'photos'}"]) == 0
    out = capsys.readouterr().out
    assert "5 images, of their own sizes, 2 classes" in out
    assert "cat 3, dog 2" in out
    assert cli.run(["data", "look", "digits", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["split"] for one in told["splits"]] == ["train", "test"]
    assert sum(one["images"] for one in told["splits"]) == 1797
    assert cli.run(["data", "folder:nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
