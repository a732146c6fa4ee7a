"""What `foible hunt` cannot do is said in one line, with exit code 2; and its help names every way to hunt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_tasks import linear_task

from foible import cli
from foible.testing import linear_network

NO_SLOPE = """
import torch
from foible.testing import linear_network

class Deaf(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = linear_network(0)

    def forward(self, images):
        return torch.from_numpy(self.inner(images).detach().numpy())
"""


def _wrong(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """The one line of ours, which is the last."""
    capsys.readouterr()
    code = cli.run([*map(str, args)])
    said = capsys.readouterr()
    assert (code, said.out) == (2, ""), said.err
    assert "Traceback" not in said.err
    lines = [line for line in said.err.splitlines() if line.startswith("foible: ")]
    assert len(lines) == 1
    assert said.err.splitlines()[-1] == lines[0]
    return lines[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--realism", "nonsense"], "realism is 'nonsense': expected patches, network:SPEC or none"),
        (["--realism", "network:"], "realism is 'network:'"),
        (["--realism", "network:nowhere"], "'nowhere' is not a basket folder"),
        (["--realism", "network:basket/B"], "is 'B' of the basket: give one that is not under test"),
        (["--space", "nosuch+affine"], "unknown space 'nosuch'"),
        (["--space", "affine+photometrik"], "did you mean 'photometric'"),
        (["--space", "affine+"], "has an empty part"),
        (["--space", "affine+swaps?few=1"], "no option 'few'"),
        (["--space", "affine+nowhere.py:Mine"], "there is no file 'nowhere.py'"),
        (["--search", "gradiant"], "did you mean 'gradient'"),
        (["--search", "gradient+genetic"], "unknown search"),
        (["--search", "gradient", "--patience", "5"], "no option 'patience'"),
        (["--atlas", "--search", "genetic"], "an atlas is drawn by the search 'map-elites'"),
        (["--pool", "folder:my photos", "--top", "5"], "foible rank --basket basket --data "),
        (["--pool=folder:photos"], "--data=folder:photos"),
    ],
)
def test_wrong_before_anything_begins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    task = linear_task(tmp_path)
    monkeypatch.chdir(tmp_path)
    hunt = ["hunt", "--basket", "basket", "--data", task.data]
    assert said in _wrong(capsys, *hunt, "--out", "run", *options)
    assert not Path("run", "config.json").exists()


@pytest.mark.parametrize("search", ["gradient", "strategy", "pbil"])
def test_a_search_of_boxes_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str], search: str) -> None:
    hunt = linear_task(tmp_path).hunt("--trials", "4", "--workers", "1", "--search", search)
    for number, space in enumerate(("swaps", "swaps+affine")):
        said = _wrong(capsys, *hunt, "--space", space, "--out", tmp_path / str(number))
        assert "use" in said
        assert "hill-climb or genetic" in said


@pytest.mark.parametrize("workers", [1, 2])
def test_a_network_without_a_slope(tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: int) -> None:
    task = linear_task(tmp_path)
    (tmp_path / "mine.py").write_text(NO_SLOPE)
    networks = ["--network", f"mine={tmp_path / 'mine.py'}:Deaf?preprocess=inside&classes=data"]
    networks += ["--network", f"B={task.basket}/B"]
    options = ["--data", task.data, "--search", "gradient", "--trials", 32, "--unit", 16, "--workers", workers]
    said = _wrong(capsys, "hunt", *networks, *options, "--out", tmp_path / "run")
    assert "network 'mine' gives no gradient: use the search hill-climb or strategy" in said


def test_an_onnx_network_has_no_slope(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(linear_network(0).state_dict()["1.weight"].t().numpy().copy(), "w")
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
    given = helper.make_tensor_value_info("x", number, ["n", 1, 12, 12])
    graph = helper.make_graph(nodes, "g", [given], [helper.make_tensor_value_info("y", number, ["n", 3])], [weight])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "net.onnx"
    )
    task = linear_task(tmp_path)
    networks = ["--network", f"onnx:{tmp_path / 'net.onnx'}?preprocess=inside&classes=data"]
    networks += ["--network", f"B={task.basket}/B"]
    hunt = ["hunt", *networks, "--data", task.data, "--trials", 8, "--workers", 1]
    said = _wrong(capsys, *hunt, "--search", "gradient", "--suspect", "B", "--out", tmp_path / "run")
    assert "network 'net' gives no gradient" in said
    assert cli.run([*map(str, hunt), "--search", "strategy", "--out", str(tmp_path / "other")]) == 0


def test_the_help_names_every_way_to_hunt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert cli.run(["hunt", "--help"]) == 0
    told = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    for flag in ("--unlabelled", "--atlas", "--no-shrink", "--realism"):
        assert f"{flag} " in told, flag
    for words in ("--search gradient", "patches, network:SPEC", "rank unlabelled images as they are: foible rank"):
        assert words in told, words
