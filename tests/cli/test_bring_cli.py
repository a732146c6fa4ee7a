"""The first hour's mistakes: each is said in a line that names it, and nothing is begun."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from small_tasks import linear_task

from foible import cli, train
from foible.findings import Findings

CODE = """
import torch
from torch import nn
from foible.networks import zoo
from safetensors.torch import load_file

def _made(top=1.0, turned=0):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = zoo.build("mlp:20", (1, 28, 28), 10)
            self.inner.load_state_dict(load_file("basket/mlp-20.safetensors"))
        def forward(self, images):
            return self.inner(images / top).roll(turned, 1)
    return Net().eval()

def bytes_(): return _made(top=255.0)
def turned(): return _made(turned=3)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A basket of two digit networks, checkpoints of them in other shapes, and a user's file."""
    home = tmp_path_factory.mktemp("home")
    train(["mlp:20", "mlp:30"], "digits", out=home / "basket", quiet=True)
    state = load_file(home / "basket" / "mlp-20.safetensors")
    torch.save({"state_dict": {f"module.{key}": value for key, value in state.items()}}, home / "wrapped.pth")
    torch.save(torch.nn.Linear(2, 2), home / "whole.pt")
    (home / "nine.txt").write_text("\n".join("012345678"))
    (home / "words.txt").write_text("\n".join(f"word {k}" for k in range(10)))
    (home / "mine.py").write_text(CODE)
    (home / "empty").mkdir()
    return home


def _run(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, str, str]:
    code = cli.run([str(arg) for arg in args])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out, said.err


@pytest.mark.parametrize(
    ("network", "data", "says"),
    [
        ("new=mlp:30?weights=wrapped.pth&classes=data", "digits", "another architecture"),
        ("new=mlp:20?weights=wrapped.pth", "digits", "classes=FILE"),
        ("new=mlp:20?weights=wrapped.pth&classes=nine.txt", "digits", "9"),
        ("new=mlp:20?weights=whole.pt&classes=data", "digits", "run code|can run"),
        ("new=pickle:whole.pt?preprocess=inside&classes=data", "digits", "--trust"),
        ("new=mlp:20?weights=wrapped.pth&classes=words.txt", "digits", "share 0 classes"),
        ("new=hf:nobody/nothing", "digits", "hf:"),
        ("new=onnx:nowhere.onnx", "digits", "nowhere.onnx"),
        ("new=basket/mlp-21", "digits", "did you mean 'mlp-20'"),
        ("new=basket", "digits", "only a basket of one can be renamed"),
        ("new=basket/mlp-20", "folder:empty", "empty"),
        ("new=basket/mlp-20", "csv:nowhere.csv", "nowhere.csv"),
    ],
)
def test_what_cannot_be(
    home: Path, network: str, data: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    code, _, said = _run(
        capsys, "compare", "--network", "old=basket/mlp-30", "--network", network, "--data", data, "--out", "run"
    )
    assert code == 2, said
    assert any(part in said for part in says.split("|")), said
    assert not Path("run").exists()


def test_a_wrapped_state_dict_is_the_network_itself(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    code, out, _ = _run(
        capsys, "compare", "--network", "old=basket/mlp-20", "--network", "new=mlp:20?weights=wrapped.pth&classes=data",
        "--data", "digits", "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    assert code == 0
    flips = json.loads(out)["flips"]
    assert (flips["broken"], flips["fixed"]) == (0, 0)


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ("new=mine.py:bytes_?preprocess=inside&classes=data", "scale=255"),
        ("new=mine.py:turned?preprocess=inside&classes=data", "classes in another order"),
    ],
)
def test_a_network_near_chance_is_told_why(
    home: Path, tmp_path: Path, network: str, says: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(home)
    code, out, said = _run(
        capsys, "compare", "--network", "old=basket/mlp-20", "--network", network, "--data", "digits",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0
    assert "WARNING: " in said
    assert says in said
    assert re.search(r"Worst classes, in points: \d -\d+\.\d \(n = \d+\)", " ".join(out.split()))


def test_photographs_of_mixed_sizes_and_networks_of_different_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare, hunt, suite, gate and export through the command line alone."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    for number in range(60):
        label = "dark" if number % 2 else "bright"
        home = tmp_path / "photos" / ("test" if number < 20 else "train") / label
        home.mkdir(parents=True, exist_ok=True)
        height, width = random.integers(20, 60, 2)
        middle = 100 if label == "dark" else 150
        pixels = random.normal(middle, 25, (height, width, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(home / f"{number}.jpg")
    (tmp_path / "photos" / "test" / "dark" / "torn.jpg").write_bytes(b"\xff\xd8\xff torn")
    for size in (8, 12, 16):
        assert _run(capsys, "train", "mlp:8", "--data", f"folder:photos?size={size}", "--out", f"n{size}")[0] == 0
    networks = [word for size in (8, 12, 16) for word in ("--network", f"n{size}=n{size}")]
    code, out, _ = _run(capsys, "compare", *networks, "--data", "folder:photos", "--out", "runs/compare", "--json")
    assert code == 0
    summary = json.loads(out)
    assert (summary["images"], summary["unreadable"], summary["canvas"]["size"]) == (20, 1, [16, 16])
    assert "torn.jpg" in Path("runs/compare/unreadable.txt").read_text("utf-8")
    assert json.loads(_run(capsys, "show", "runs/compare", "--json")[1])["flips"] == summary["flips"]
    code, out, said = _run(capsys, "replay", "runs/compare", "--json")
    assert code == 0, said
    replayed = json.loads(out)
    assert replayed["replayed"] == summary["findings"] > 0
    assert (replayed["differ"], replayed["largest_difference"] < 1e-5) == ([], True)
    code, _, said = _run(
        capsys, "hunt", *networks, "--data", "folder:photos", "--trials", "10", "--patience", "20", "--workers", "1",
        "--out", "runs/hunt",
    )  # fmt: skip
    assert code == 0, said
    assert "a canvas of 16×16" in said
    assert "2 peers: findings may be" in said
    row = Findings.open("runs/hunt")[0]
    assert row["origin_file"].endswith(".jpg")
    assert _run(capsys, "suite", "runs/compare", "runs/hunt", "--out", "suite")[0] == 0
    code, out, said = _run(capsys, "gate", "--suite", "suite", "--network", "new=n16", "--json")
    assert code in (0, 1), said
    assert json.loads(out)["verdict"] in ("pass", "fail", "inconclusive")
    assert _run(capsys, "export", "runs/hunt", "--to", "hf", "--all", "--out", "export")[0] == 0
    assert _run(capsys, "report", "suite")[0] == 0


def test_peers_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = linear_task(tmp_path)
    code, _, said = _run(capsys, *task.hunt("--suspect", "A", "--peers", "A", "--out", str(tmp_path / "run")))
    assert code == 2
    assert "both suspect and peer" in said
    quick = ("--trials", "8", "--workers", "1", "--patience", "30")
    code, _, said = _run(capsys, *task.hunt("--suspect", "A", "--peers", "C", *quick, "--out", str(tmp_path / "run")))
    assert code == 0, said
    assert Findings.open(tmp_path / "run").column("networks") == [["A", "C"]] * 8


def test_a_comparison_on_a_canvas_of_its_own_replays(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    networks = ("--network", "old=basket/mlp-20", "--network", "new=basket/mlp-30")
    run = tmp_path / "run"
    assert _run(capsys, "compare", *networks, "--data", "digits", "--canvas", "32", "--out", run)[0] == 0
    found = Findings.open(run)
    assert {tuple(image.shape) for image in found.images()} == {(1, 32, 32)}
    code, out, said = _run(capsys, "replay", run, "--json")
    assert code == 0, said
    assert json.loads(out)["replayed"] == len(found) > 0
