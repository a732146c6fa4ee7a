"""`foible hunt`: networks, spaces and settings by flags, its answers, and what it says to wrong ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import Task, linear_task, shards

import foible
from foible import cli
from foible.findings import Findings
from foible.permission import Permission
from foible.recipes.train.train import train
from foible.testing import check_space

SWAPS = '''
"""Swap two neighbouring pixels: a space of one's own."""
from typing import NamedTuple
from torch import Tensor


class Points(NamedTuple):
    image: Tensor  # (n, channels, height, width), with all swaps so far
    swaps: Tensor  # (n,) how many


class Swaps:
    draws = 2

    def __init__(self, reach: int = 3):
        self.reach = reach

    def start(self, seeds):
        return Points(seeds, seeds.new_zeros(len(seeds)))

    def move(self, points, u):
        flat = points.image.flatten(2).clone()
        first = (u[:, 0] * flat.shape[2]).long()
        second = (first + 1 + (u[:, 1] * self.reach).long()) % flat.shape[2]
        one = first[:, None, None].expand(-1, flat.shape[1], 1)
        other = second[:, None, None].expand(-1, flat.shape[1], 1)
        a, b = flat.gather(2, one), flat.gather(2, other)
        flat.scatter_(2, one, b).scatter_(2, other, a)
        return Points(flat.view_as(points.image), points.swaps + 1)

    def render(self, points):
        return points.image

    def describe(self, points):
        return {"swaps": points.swaps}
'''

FACTORY = """
import torch
from safetensors.torch import load_file
from pathlib import Path
from foible.networks import zoo

def twenty():
    network = zoo.build("mlp:20", (1, 28, 28), 10)
    network.load_state_dict(load_file(Path(__file__).with_name("weights.safetensors")))
    return network

def broken():
    raise RuntimeError("no weights today")

number = 3
"""

QUICK = ["--data", "digits", "--trials", "24", "--patience", "40", "--workers", "1"]


def _ok(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    """The JSON that a command answers with."""
    capsys.readouterr()
    code = cli.run([*map(str, args), "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return answer


def _wrong(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    """What a command says to wrong input; nothing goes to standard output."""
    capsys.readouterr()
    code = cli.run([*map(str, args)])
    said = capsys.readouterr()
    assert code == 2, said.err
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err


def test_the_answer_is_what_is_on_disk(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    answer = _ok(capsys, "hunt", "--basket", mlps, "--suspect", "mlp-10", "--suspect", "mlp-30", *QUICK, "--out", run)
    assert [row["suspect"] for row in answer["suspects"]] == ["mlp-10", "mlp-30"]
    assert answer["run"] == str(run)
    assert Path(answer["report"]).read_text("utf-8").startswith("<!")
    findings = Findings.open(run)
    for row in answer["suspects"]:
        part = findings.filter(suspect=row["suspect"])
        assert row["trials"] == len(part) == 24
        assert row["found"] == len(part.filter(outcome="found")) > 0
        assert row["found"] + row["exhausted"] + row["invalid"] == 24
        assert 0 <= row["low"] <= row["success"] <= row["high"] + 1e-9 <= 1 + 1e-9
        assert row["all_inferences"] == sum(part.column("forwards"))
    before = shards(run)
    again = _ok(capsys, "hunt", "--basket", mlps, "--suspect", "mlp-10", "--suspect", "mlp-30", *QUICK, "--out", run)
    assert again == answer
    assert shards(run) == before


def test_the_table_for_people(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["hunt", "--basket", str(mlps), "--suspect", "mlp-20", *QUICK, "--out", str(tmp_path / "run")]
    assert cli.run(command) == 0
    said = capsys.readouterr()
    assert "mlp-20" in said.out
    assert str(tmp_path / "run" / "report.html") in said.out.replace("\n", "")
    assert "Hunting: 24/24" in said.err


def test_unit_sizes_draw_the_same_numbers(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """16, 64 and 250 trials a unit: the same seed image and the same uniforms at every step of every lane.

    So the rows are the same too, and the hash of the settings. A matrix product's last bit may hang on a row's
    place in its batch, so that the odd lane may go another way on another machine; what it draws may not.
    """
    tables = []
    for unit in (16, 64, 250):
        run = tmp_path / str(unit)
        command = ["hunt", "--basket", mlps, "--suspect", "mlp-10", "--trials", 250, "--patience", 30]
        _ok(capsys, *command, "--workers", 1, "--unit", unit, "--out", run)
        assert len(shards(run)) == -(-250 // unit)
        tables.append(Findings.open(run))
    first, *others = tables
    assert len({key for table in tables for key in table.configs}) == 1
    drawn = [{move["step"]: move["draws"] for move in path} for path in first.column("path")]
    for other in others:
        for name in ("id", "suspect", "lane", "origin", "origin_index", "truth", "before", "versions"):
            assert other.column(name) == first.column(name), name
        for ours, path in zip(drawn, other.column("path"), strict=True):
            theirs = {move["step"]: move["draws"] for move in path}
            assert all(ours[step] == theirs[step] for step in ours.keys() & theirs.keys())
        for name in ("image", "outcome", "said", "candidates", "forwards", "path", "point", "after"):
            same = sum(a == b for a, b in zip(first.column(name), other.column(name), strict=True))
            assert same >= 247, name
        for ours, theirs in zip(first, other, strict=True):
            if ours["path"] == theirs["path"] and ours["trace"] is not None:
                assert np.allclose(ours["trace"], theirs["trace"], atol=1e-5)


def test_a_space_in_a_users_own_file(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(SWAPS)
    check_space(Permission(trust=True).run(str(tmp_path / "mine.py"), "Swaps")())
    monkeypatch.chdir(tmp_path)
    command = ["hunt", "--basket", mlps, "--suspect", "mlp-10", "--trials", 8, "--patience", 80, "--workers", 1]
    answer = _ok(capsys, *command, "--space", "mine.py:Swaps?reach=30", "--out", "run")
    assert answer["suspects"][0]["found"] > 0
    findings = Findings.open("run")
    (settings,) = findings.configs.values()
    assert settings["space"] == "mine.py:Swaps?reach=30"
    for row in findings.filter(outcome="found"):
        assert dict(row["change"]) == {"swaps": row["moves"]}
        assert sorted(foible.images.decode_png(row["image"]).flatten().tolist()) == sorted(
            foible.images.decode_png(row["origin"]).flatten().tolist()
        )  # swaps keep every pixel's value
    monkeypatch.chdir("/")
    assert "names code" in _wrong(capsys, "replay", tmp_path / "run")
    assert _ok(capsys, "replay", tmp_path / "run", "--trust")["replayed"] == 8
    (tmp_path / "mine.py").write_text(SWAPS.replace("first + 1", "first + 2"))
    said = _wrong(capsys, *command, "--space", f"{tmp_path / 'mine.py'}:Swaps?reach=30", "--out", tmp_path / "run")
    assert "space_sha256" in said


def test_networks_one_by_one_are_the_basket(
    mlps: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zoo spec with weights, a file of the user's, and a basket folder: the same networks, the same findings."""
    (tmp_path / "mine.py").write_text(FACTORY)
    (tmp_path / "weights.safetensors").write_bytes((mlps / "mlp-20.safetensors").read_bytes())
    train("mlp:30", "digits", epochs=10, out=tmp_path / "thirty", quiet=True)
    monkeypatch.chdir(tmp_path)
    networks = [
        f"mlp:10?weights={mlps / 'mlp-10.safetensors'}&classes=data",
        "mlp-20=mine.py:twenty?preprocess=inside&classes=data",
        "thirty",
    ]
    flags = [part for network in networks for part in ("--network", network)]
    options = ["--unit", 32, "--trials", 50, "--patience", 60, "--peer-confidence", 0.3, "--workers", 1]
    _ok(capsys, "hunt", *flags, "--data", "digits", *options, "--out", tmp_path / "run")
    ours, theirs = Findings.open(tmp_path / "run"), Findings.open(run)
    apart = ["config"]  # the settings know a network by its code too
    assert ours.table.drop_columns(apart).equals(theirs.table.drop_columns(apart))
    monkeypatch.chdir("/")  # the run remembers where its networks lie
    assert _ok(capsys, "replay", tmp_path / "run", "--trust")["differ"] == []


def test_relative_weights_are_found_from_elsewhere(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mlps)
    flags = [
        "--network",
        "mlp:10?weights=mlp-10.safetensors&classes=data",
        "--network",
        "B=mlp:20?weights=mlp-20.safetensors&classes=data",
    ]
    _ok(capsys, "hunt", *flags, "--suspect", "B", *QUICK, "--out", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert _ok(capsys, "replay", "run")["replayed"] == 24


def test_a_folder_whose_name_has_an_equals_sign(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "rate=0.1"
    home.mkdir()
    for file in mlps.iterdir():
        if file.is_file():
            (home / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    _ok(capsys, "hunt", "--basket", "./rate=0.1", "--suspect", "mlp-10", *QUICK, "--out", "run")
    monkeypatch.chdir("/")
    assert _ok(capsys, "replay", tmp_path / "run")["replayed"] == 24


def test_preprocessing_that_is_said_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network of the zoo that was trained on normalised pixels gets them, or an error: never silently others."""
    entry = train("mlp4", "digits", epochs=2, out=tmp_path / "B", quiet=True)[0]
    assert entry.preprocess.mean
    weights = f"classes=data&weights={tmp_path / 'B' / 'mlp4.safetensors'}"
    _ok(capsys, "hunt", "--network", tmp_path / "B", *QUICK, "--out", tmp_path / "folder")
    mean, std = entry.preprocess.mean[0], entry.preprocess.std[0]
    _ok(capsys, "hunt", "--network", f"mlp4?{weights}&mean={mean}&std={std}", *QUICK, "--out", tmp_path / "said")
    ours, theirs = Findings.open(tmp_path / "said"), Findings.open(tmp_path / "folder")
    assert ours.column("before") == theirs.column("before")
    said = _wrong(capsys, "hunt", "--network", f"mlp4?{weights}", *QUICK, "--out", tmp_path / "silent")
    assert "does not say how its images are preprocessed" in said


def test_other_preprocessing_is_another_run(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(FACTORY)
    (tmp_path / "weights.safetensors").write_bytes((mlps / "mlp-20.safetensors").read_bytes())
    network = f"{tmp_path / 'mine.py'}:twenty"
    _ok(capsys, "hunt", "--network", f"{network}?preprocess=inside&classes=data", *QUICK, "--out", tmp_path / "run")
    other = f"{network}?mean=0.0&std=0.9&classes=data"
    said = _wrong(capsys, "hunt", "--network", other, *QUICK, "--out", tmp_path / "run")
    assert "was made with other settings" in said


def test_other_labels_are_another_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = linear_task(tmp_path)
    hunt = [*task.hunt("--suspect", "A", *QUICK[2:]), "--out", tmp_path / "run"]
    _ok(capsys, *hunt)
    file = tmp_path / "data.npz"
    arrays = dict(np.load(file))
    arrays["labels"][:20] = (arrays["labels"][:20] + 1) % 3
    np.savez(file, **arrays)
    assert "was made with other settings" in _wrong(capsys, *hunt)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("mine.py:twenty", "does not say how its images are preprocessed: add ?preprocess=inside"),
        ("mine.py:twenty?preprocess=imagenet", "preprocess"),
        ("mine.py:twenty?preprocess=inside&mean=0.5&std=0.5", "mean"),
        ("mine.py:twenty?preproces=inside", "preproces"),
        ("mine.py:twenty?preprocess=inside&colour=red", "colour"),
        ("mine.py:twenty?mean=x&std=1", "cannot read the preprocessing"),
        ("mine.py:twenty?mean=0.5", "1 means and 0 standard deviations"),
        ("mine.py:twenty?mean=0.5,0.5&std=1,1&classes=data", "channels"),
        ("mine.py:twenty?mean=0.5&std=0", "std"),
        ("mine.py:twenty?size=axb", "cannot read the preprocessing"),
        ("mine.py:twenty?size=8&mean=0&std=1&classes=data", "cannot take images of shape (16, 1, 8, 8)"),
        ("mine.py:twentyone?preprocess=inside", "did you mean 'twenty'?"),
        ("mine.py:broken?preprocess=inside", "RuntimeError: no weights today"),
        ("mine.py:number?preprocess=inside", "is int: expected a function that makes a network"),
        ("mine.py?preprocess=inside", "names a file but nothing in it"),
        ("nowhere.py:net?preprocess=inside", "there is no file 'nowhere.py'"),
        ("mlp:10", "is not a basket folder, nor a spec with weights"),
        ("mlp:10?weights=nowhere.safetensors", "cannot read the weights nowhere.safetensors"),
        ("mlp:10?weights=weights.safetensors", "another architecture"),
        ("mpl:20?weights=weights.safetensors", "did you mean 'mlp'?"),
        ("mlp:20?weights=weights.safetensors&colour=red", "colour"),
        ("mlp:20?weights", "expected ?key=value"),
        ("nowhere", "is not a basket folder"),
        (".", "it has no basket.json"),
    ],
)
def test_wrong_networks_are_named(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    spec: str, said: str,
) -> None:  # fmt: skip
    (tmp_path / "mine.py").write_text(FACTORY)
    (tmp_path / "weights.safetensors").write_bytes((mlps / "mlp-20.safetensors").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert said in _wrong(capsys, "hunt", "--network", spec, *QUICK, "--out", tmp_path / "run")
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trials", "0"], "trials is 0: expected at least 1"),
        (["--trials", "1.5"], "--trials"),
        (["--unit", "-4"], "unit is -4: expected at least 1"),
        (["--patience", "0"], "patience is 0"),
        (["--budget", "0"], "budget is 0"),
        (["--workers", "-1"], "workers is -1"),
        (["--workers", "0"], "workers is 0"),
        (["--seed", "x"], "--seed"),
        (["--split", "tset"], "did you mean 'test'"),
        (["--device", "tpu"], "device is 'tpu': expected auto, cpu or cuda"),
        (["--precision", "fp8"], "expected float32 or bf16"),
        (["--suspect", "mlp-11"], "no network 'mlp-11' in the basket; did you mean 'mlp-10'?"),
        (["--suspect", "mlp-10", "--suspect", "mlp-10"], "mlp-10"),
        (["--space", "afine"], "did you mean 'affine'"),
        (["--space", "affine?degrees=x"], "expected float"),
        (["--space", "affine?degrees=nan"], "degrees is nan"),
        (["--space", "affine?degrees"], "expected ?key=value"),
        (["--objective", "disent"], "did you mean 'dissent'"),
        (["--objective", "nowhere.py:Mine"], "there is no file 'nowhere.py'"),
        (["--search", "hill-climb?width=x"], "expected int"),
        (["--peer-confidence", "1.5"], "peer_confidence is 1.5: expected a probability"),
        (["--peer-confidence", "nan"], "peer_confidence is nan"),
        (["--data", "mnits"], "did you mean 'mnist'"),
        (["--data", "npz:nowhere.npz"], "nowhere.npz"),
        (["--data", "folder:/dev/null"], "/dev/null"),
        (["--network", "mlp:10?weights=x"], "--basket FOLDER, or with --network"),
        (["--trails", "5"], "--trials"),
        (["extra"], "extra"),
    ],
)
def test_wrong_options_are_named(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert said in _wrong(capsys, "hunt", "--basket", mlps, *QUICK, "--out", tmp_path / "run", *options)
    assert not (tmp_path / "run" / "config.json").exists()


def test_no_network_at_all_and_data_of_another_task(
    mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--basket FOLDER, or with --network" in _wrong(capsys, "hunt", "--out", tmp_path / "run")
    task = linear_task(tmp_path)
    said = _wrong(capsys, "hunt", "--basket", mlps, "--data", task.data, "--out", tmp_path / "run")
    assert "is classified right by all of mlp-10, mlp-20, mlp-30" in said


def test_where_a_run_cannot_go(mlps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    hunt = ["hunt", "--basket", mlps, "--suspect", "mlp-10", *QUICK, "--out"]
    assert "cannot make the folder" in _wrong(capsys, *hunt, tmp_path / "file" / "run")
    assert "cannot make the folder" in _wrong(capsys, *hunt, tmp_path / "file")
    assert "not empty and not a run" in _wrong(capsys, *hunt, tmp_path)
    _ok(capsys, *hunt, tmp_path / "run")
    said = _wrong(capsys, *hunt, tmp_path / "run", "--seed", 4)
    assert "seed: 0 there, 4 here" in said
    assert "give another --out" in said


def test_changed_weights_do_not_go_on_with_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task: Task = linear_task(tmp_path)
    hunt = [*task.hunt("--suspect", "A", *QUICK[2:]), "--out", tmp_path / "run"]
    _ok(capsys, *hunt)
    record = json.loads((task.basket / "basket.json").read_text())
    first, second, _ = record["networks"]
    first["file"], first["sha256"] = second["file"], second["sha256"]
    (task.basket / "basket.json").write_text(json.dumps(record))
    assert "networks:" in _wrong(capsys, *hunt)
    assert "network 'A' is not the one" in _wrong(capsys, "replay", tmp_path / "run")


def test_a_hunt_leaves_torchs_threads_as_they_were(mlps: Path, tmp_path: Path) -> None:
    torch.set_num_threads(2)
    try:
        foible.hunt(
            mlps, "digits", suspect="mlp-10", trials=16, patience=10, out=tmp_path / "run", workers=1, quiet=True
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert os.listdir(tmp_path) == ["run"]  # noqa: PTH208 (names alone)
