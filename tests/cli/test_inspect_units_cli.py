"""`foible inspect units` on the bundled digits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foible import cli


def test_rows_of_a_basket(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["inspect", "units", "--basket", str(mlps), "--network", "mlp-30", "--out", str(tmp_path), "--json"]
    assert cli.run([*command, "--layer", "activation1", "--top", "5", "--units", "3"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["settings"]["layer"] == "activation1"
    assert summary["settings"]["judge"] == "mlp-10"
    assert [len(row["index"]) for row in summary["shown"]["random"]] == [5, 5, 5]
    purities = summary["means"]["purity"]
    assert purities["random"]["mean"] > purities["chance"]["mean"] + 0.2
    assert {"units.json", "rows.parquet", "rows-random.png", "rows-random.svg"} <= {f.name for f in tmp_path.iterdir()}
    page = Path(summary["report"]).read_text("utf-8")
    assert "What excites activation1 of mlp-30" in page
    assert f"{purities['random']['mean']:.3f} (" in page
    assert page.count('<img src="data:image/png;base64,') == 2, "rows, and how alike they are"
    assert "http" not in page.partition("</style>")[2], "it needs nothing but itself"


def test_one_network_by_its_spec(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["inspect", "units", "--network", str(mlps / "mlp-30"), "--judge", str(mlps / "mlp-20")]
    assert cli.run([*command, "--data", "digits", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "mlp-30, input of output" in said
    assert "purity, natural − random" in said
    assert "coherence by mlp-20" in said
    assert "…" not in said  # nothing is cut off at 80 columns


def test_layers_are_listed(mlps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["inspect", "units", "--basket", str(mlps), "--network", "mlp-30", "--layers"]) == 0
    assert capsys.readouterr().out.splitlines() == ["flatten  784", "hidden1  30", "activation1  30", "output  10"]
    assert cli.run(["inspect", "units", "--basket", str(mlps), "--network", "mlp-30", "--layers", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][1] == {"name": "hidden1", "shape": [30]}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "give the network with --basket FOLDER --network NAME"),
        (["--basket", "B"], "which network is to be inspected"),
        (["--basket", "B", "--network", "mlp-30", "--layer", "hiden1"], "did you mean 'hidden1'"),
        (["--basket", "B", "--network", "mlp-30", "--judge", "mlp-30"], "is the network that is inspected"),
        (["--network", "B/mlp-30", "--judge", "B", "--data", "digits"], "is 3 networks: name one"),
    ],
)
def test_wrong_input(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], args: list[str], said: str
) -> None:
    given = [str(mlps) + word[1:] if word.split("/")[0] == "B" else word for word in args]
    assert cli.run(["inspect", "units", *given, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
