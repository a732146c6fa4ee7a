"""`foible inspect spectrum`: what it prints, what it writes, and what it says of wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foible import cli

Capture = pytest.CaptureFixture[str]


def test_bounds_alone_need_no_data(mlps: Path, capsys: Capture, tmp_path: Path) -> None:
    args = ["inspect", "spectrum", "--basket", str(mlps), "--network", "mlp-10", "--out", str(tmp_path)]
    assert cli.run(args) == 0
    text = capsys.readouterr().out
    for word in ("hidden1", "784×10", "lower", "upper", "No change of an image grows by more than", "spectrum.json"):
        assert word in text
    assert "distortion" not in text
    assert (tmp_path / "spectrum.png").is_file()


def test_with_data_growth_stands_beside(mlps: Path, capsys: Capture, tmp_path: Path) -> None:
    args = ["inspect", "spectrum", "--network", f"{mlps}/mlp-20", "--data", "digits", "--images", "6"]
    assert cli.run([*args, "--json", "--out", str(tmp_path / "a")]) == 0
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert err == ""
    assert record.pop("out") == str(tmp_path / "a")
    page = Path(record.pop("report")).read_text("utf-8")
    assert all(f"{one['gain']:.3g}</td>" in page for one in record["growth"][:-1])
    assert record["words"][0] in page
    assert record == json.loads((tmp_path / "a" / "spectrum.json").read_text())
    assert [one["stage"] for one in record["growth"]] == ["hidden1", "output", "network"]
    assert record["growth"][-1]["distortion"] > record["growth"][-1]["noise"]
    assert cli.run([*args, "--out", str(tmp_path / "b")]) == 0
    text = capsys.readouterr().out
    for word in ("hidden1", "distortion", "noise", "gain", "The most damage is done in"):
        assert word in text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "--basket FOLDER"),
        (["--basket", "nowhere"], "nowhere"),
        (["--basket", "MLPS"], "say which"),
        (["--basket", "MLPS", "--network", "mlp-11"], "did you mean"),
        (["--basket", "MLPS", "--network", "mlp-10", "--grid", "0"], "--grid is 0"),
        (["--basket", "MLPS", "--network", "mlp-10", "--data", "digits", "--images", "-1"], "--images is -1"),
    ],
)
def test_wrong_input_is_exit_2_and_says_what_to_do(
    args: list[str], said: str, mlps: Path, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run(["inspect", "spectrum", *(str(mlps) if arg == "MLPS" else arg for arg in args)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
