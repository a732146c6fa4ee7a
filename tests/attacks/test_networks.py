"""Files of networks that somebody else made: nothing in them runs, and nothing outside their folder is read."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from small_tasks import Task, linear_task

from foible import cli


class Payload:
    """Unpickling it makes a file: harmless, and easy to see."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


def _pickles(marker: Path, folder: Path) -> dict[str, bytes]:
    made = {f"pickle protocol {p}": pickle.dumps({"output.weight": Payload(marker)}, p) for p in range(6)}
    for name, zipped in (("torch zip", True), ("torch legacy", False)):
        torch.save(Payload(marker), folder / "x.pt", _use_new_zipfile_serialization=zipped)
        made[name] = (folder / "x.pt").read_bytes()
    (folder / "x.pt").unlink()
    return made


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return linear_task(tmp_path)


def _edit(task: Task, **changes: Any) -> None:
    """Change the first network's entry in basket.json."""
    file = task.basket / "basket.json"
    record = json.loads(file.read_text())
    record["networks"][0].update(changes)
    file.write_text(json.dumps(record))


def _refused(capsys: pytest.CaptureFixture[str], command: list[str], *said: str) -> None:
    capsys.readouterr()
    assert cli.run(command) == 2
    err = capsys.readouterr().err
    for text in said:
        assert text in err
    assert "Traceback" not in err


def test_the_payload_is_a_real_one(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "ran"))).close()
    assert (tmp_path / "ran").exists()


def test_a_pickle_in_a_basket_is_refused_and_does_not_run(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "ran"
    for kind, data in _pickles(marker, tmp_path).items():
        (task.basket / "0.safetensors").write_bytes(data)
        _edit(task, sha256=hashlib.sha256(data).hexdigest())
        why = (
            "not a safetensors file" if kind[-1] in "01" else "is a pickle"
        )  # the two oldest have no mark of their own
        _refused(capsys, task.hunt("--out", str(tmp_path / "run")), str(task.basket / "0.safetensors"), why)
        assert not marker.exists(), kind
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors", "weights.pth", "weights"])
def test_a_pickle_as_weights_is_refused_and_does_not_run(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    marker = tmp_path / "ran"
    for data in _pickles(marker, tmp_path).values():
        (tmp_path / name).write_bytes(data)
        for network in (f"softmax?weights={tmp_path / name}", f"A=softmax?weights={tmp_path / name}"):
            command = ["hunt", "--network", network, "--data", task.data, "--out", str(tmp_path / "run")]
            _refused(capsys, command, str(tmp_path / name))
        assert not marker.exists()


def test_a_pickle_where_a_network_is_named_outright(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.pt").write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    for spec in (str(tmp_path / "net.pt"), f"A={tmp_path / 'net.pt'}", f"{tmp_path / 'net.pt'}:model"):
        command = ["hunt", "--network", spec, "--data", task.data, "--out", str(tmp_path / "run")]
        _refused(capsys, command, "net.pt", "SPEC?weights=FILE.safetensors")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "file", ["../outside.safetensors", "/etc/passwd", "..", ".", "sub/0.safetensors", "a\\b", "C:x", "0\x00.st", ""]
)
def test_a_basket_cannot_point_outside_its_folder(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    (tmp_path / "outside.safetensors").write_bytes((task.basket / "0.safetensors").read_bytes())
    _edit(task, file=file)
    _refused(capsys, task.hunt("--out", str(tmp_path / "run")), "basket.json")
    assert not (tmp_path / "run").exists()


def _header(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 7,
        _header(b"{}", 2**62),
        _header(b'{"output.weight": '),
        _header(b'{"output.weight": {"dtype": "F32", "shape": [3, 144], "data_offsets": [0, 1728]}}'),
        _header(b'{"output.weight": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}}'),
        _header(b'{"output.weight": {"dtype": "F999", "shape": [1], "data_offsets": [0, 4]}}') + b"\0\0\0\0",
        _header(b"[" * 100_000),
    ],
)
def test_a_crafted_safetensors_file_is_refused(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    (task.basket / "0.safetensors").write_bytes(data)
    _edit(task, sha256=hashlib.sha256(data).hexdigest())
    _refused(capsys, task.hunt("--out", str(tmp_path / "run")), str(task.basket / "0.safetensors"))


def test_weights_that_were_swapped_are_noticed(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task.basket / "0.safetensors").write_bytes((task.basket / "1.safetensors").read_bytes())
    _refused(capsys, task.hunt("--out", str(tmp_path / "run")), "0.safetensors", "SHA-256")


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": "mlp:99999-99999-99999-99999"},
        {"spec": "resnet:1202,width=99999"},
        {"spec": "mlp:" + "9" * 5000},
        {"spec": "../../evil.py:factory"},
        {"spec": ""},
        {"spec": ["softmax"]},
        {"name": ""},
        {"name": None},
        {"name": "B"},
        {"name": "\ud800"},
        {"sha256": "x"},
        {"preprocess": {"mean": [float("nan")], "std": [1.0]}},
        {"preprocess": {"mean": [0.5, 0.5, 0.5], "std": [1, 1, 1]}},
        {"preprocess": "inside"},
        {"preprocess": {"size": [10**9, 10**9]}},
        {"accuracy": {"test": "</script>"}},
        {"seed": "x"},
    ],
)
def test_a_crafted_basket_is_refused_and_named(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    _edit(task, **changes)
    _refused(capsys, task.hunt("--trials", "16", "--workers", "1", "--out", str(tmp_path / "run")))
