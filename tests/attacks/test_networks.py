"""Files of networks that somebody else made: nothing in them runs, and nothing outside their folder is read."""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_tasks import Task, linear_task

from foible import cli
from foible.errors import UserError
from foible.networks.load import state_dicts
from foible.networks.load.specs import open_networks
from foible.permission import Permission
from foible.testing import linear_network


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
    "wrapped",
    [
        lambda state, payload: {"state_dict": state, "args": payload},
        lambda state, payload: {"state_dict": state, "classes": ["a", payload]},
        lambda state, payload: {"state_dict": state | {"extra": payload}},
        lambda state, payload: {"state_dict": state, "args": argparse.Namespace(hook=payload)},
        lambda state, payload: {"state_dict": state, "ema": {"x": payload}},
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_payload_beside_good_weights_does_not_run(wrapped: Any, zipped: bool, tmp_path: Path) -> None:
    file, marker = tmp_path / "w.pt", tmp_path / "ran"
    layer = linear_network(0)[1]  # type: ignore[index]
    state = {"output.weight": layer.weight.detach(), "output.bias": layer.bias.detach()}
    torch.save(wrapped(state, Payload(marker)), file, _use_new_zipfile_serialization=zipped)
    (tmp_path / "mine.py").write_text("from torch import nn\ndef net():\n    return nn.Linear(1, 1)\n")
    for spec in (
        f"softmax?weights={file}&classes=data",
        f"{tmp_path / 'mine.py'}:net?preprocess=inside&checkpoint={file}",
    ):
        for trust in (False, True):  # trust is for files named as pickle:, not for weights
            with pytest.raises(UserError, match="can run any program hidden in it"):
                open_networks(spec, ("0", "1", "2"), (1, 12, 12), Permission.typed(spec, trust=trust))
    assert not marker.exists()


def test_what_is_let_through_is_let_through_for_one_file_only(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())
    torch.save({"w": torch.zeros(1), "args": argparse.Namespace(x=1)}, tmp_path / "w.pt")
    assert list(state_dicts.read(tmp_path / "w.pt").state) == ["w"]
    assert set(torch.serialization.get_safe_globals()) == before


@pytest.mark.parametrize("kind", ["pickle", "torchscript", "pt2"])
def test_files_that_run_code_are_not_opened_without_trust(
    kind: str, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, marker = tmp_path / "net.pt", tmp_path / "ran"
    torch.save(Payload(marker), file)
    spec = f"A={kind}:{file}?preprocess=inside&classes=data"
    command = ["hunt", "--network", spec, "--data", task.data, "--out", str(tmp_path / "run")]
    _refused(capsys, command, str(file), "can run any program hidden in it", "--trust")
    assert not marker.exists()


def test_names_in_a_file_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\nerror: all is well"
    save_file({evil: torch.zeros(1)}, tmp_path / "w.safetensors")
    torch.save({evil: 1}, tmp_path / "w.pt")
    for file in ("w.safetensors", "w.pt"):
        with pytest.raises(UserError) as caught:
            open_networks(f"softmax?weights={tmp_path / file}&classes=data", ("0", "1"), (1, 12, 12))
        assert "owned" in str(caught.value)
        assert str(caught.value).isprintable()


def test_an_onnx_file_cannot_read_outside_its_folder(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, proto = onnx.helper, onnx.TensorProto
    (tmp_path / "secret.bin").write_bytes(bytes(48))
    for location in ("../secret.bin", str(tmp_path / "secret.bin")):
        weight = proto(name="w", data_type=proto.FLOAT, dims=[4, 3], data_location=proto.EXTERNAL)
        weight.external_data.add(key="location", value=location)
        nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
        given, made = (
            helper.make_tensor_value_info(n, proto.FLOAT, s) for n, s in (("x", ["n", 1, 2, 2]), ("y", ["n", 3]))
        )
        graph = helper.make_graph(nodes, "g", [given], [made], [weight])
        (tmp_path / "in").mkdir(exist_ok=True)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (tmp_path / "in" / "net.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(UserError, match="is not an ONNX file that onnxruntime can run"):
            open_networks(f"onnx:{tmp_path / 'in' / 'net.onnx'}?preprocess=inside&classes=data", ("0", "1", "2"), None)


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
