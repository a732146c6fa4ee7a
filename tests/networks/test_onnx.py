"""ONNX files: the same answers as the network they were made from, for every layout and batch."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foible.errors import UserError
from foible.networks.files import Entry
from foible.networks.load.specs import fingerprint, open_networks

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

WEIGHT = np.random.default_rng(0).normal(size=(3 * 4 * 5, 3)).astype(np.float32)


def make(
    file: Path,
    shape: tuple[Any, ...] = ("n", 3, 4, 5),
    *,
    nhwc: bool = False,
    kind: str = "FLOAT",
    rank: int = 2,
    **metadata: str,
) -> None:
    """A linear network as a graph: flatten, multiply. With `nhwc` its input is (n, height, width, channels)."""
    helper, proto = onnx.helper, onnx.TensorProto
    nodes, at = [], "images"
    if kind != "FLOAT":
        nodes, at = [helper.make_node("Cast", [at], ["floats"], to=proto.FLOAT)], "floats"
    if nhwc:
        nodes, at = [*nodes, helper.make_node("Transpose", [at], ["turned"], perm=[0, 3, 1, 2])], "turned"
    nodes += [helper.make_node("Flatten", [at], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["logits"])]
    out = helper.make_tensor_value_info("logits", proto.FLOAT, ["n", 3, 1][:rank])
    given = helper.make_tensor_value_info("images", getattr(proto, kind), list(shape))
    graph = helper.make_graph(nodes, "g", [given], [out], [onnx.numpy_helper.from_array(WEIGHT, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata)
    onnx.save(model, file)


def opened(file: Path, options: str = "preprocess=inside&classes=data") -> Entry:
    [entry] = open_networks(f"onnx:{file}?{options}", ("cat", "dog", "eel"), None)
    return entry


def expected(images: torch.Tensor) -> torch.Tensor:
    return images.flatten(1) @ torch.from_numpy(WEIGHT)


@pytest.mark.parametrize("rows", ["n", 1, 4])
@pytest.mark.parametrize("nhwc", [False, True])
def test_the_same_answers_whatever_the_layout_and_the_batch(rows: Any, nhwc: bool, tmp_path: Path) -> None:
    make(tmp_path / "net.onnx", (rows, 4, 5, 3) if nhwc else (rows, 3, 4, 5), nhwc=nhwc)
    entry = opened(tmp_path / "net.onnx")
    assert entry.name == "net"
    assert entry.shape == (3, 4, 5)
    assert entry.preprocess.size == (4, 5)
    for count in (1, 4, 7):
        images = torch.rand(count, 3, 4, 5)
        assert torch.allclose(entry.module(images), expected(images), atol=1e-5)


def test_sizes_that_are_left_open_are_said(tmp_path: Path) -> None:
    make(tmp_path / "net.onnx", ("n", 3, "h", "w"))
    assert opened(tmp_path / "net.onnx").preprocess.size is None
    assert opened(tmp_path / "net.onnx", "preprocess=inside&classes=data&size=5x4").shape == (3, 4, 5)
    with pytest.raises(UserError, match="does not say how its images are preprocessed"):
        opened(tmp_path / "net.onnx", "classes=data")


@pytest.mark.parametrize("kind", ["FLOAT16", "DOUBLE", "UINT8"])
def test_other_numbers(kind: str, tmp_path: Path) -> None:
    make(tmp_path / "net.onnx", kind=kind)
    entry = opened(tmp_path / "net.onnx", "scale=255&classes=data")
    images = torch.randint(0, 256, (2, 3, 4, 5)) / 255
    assert torch.allclose(entry.module(entry.preprocess(images)), expected(images * 255), atol=0.5)


def test_classes_and_their_number(tmp_path: Path) -> None:
    make(tmp_path / "net.onnx", classes=json.dumps(["x", "y", "z"]))
    assert opened(tmp_path / "net.onnx", "preprocess=inside").classes == ("x", "y", "z")
    make(tmp_path / "net.onnx", names="{0: 'x', 1: 'y', 2: 'z'}")
    assert opened(tmp_path / "net.onnx", "preprocess=inside").classes == ("x", "y", "z")
    make(tmp_path / "net.onnx", classes='["x", "y"]')
    with pytest.raises(UserError, match="3 outputs, its own list has 2 classes"):
        opened(tmp_path / "net.onnx", "preprocess=inside")


def test_the_fingerprint_is_the_file_s_and_a_copy_is_the_same(tmp_path: Path) -> None:
    make(tmp_path / "a.onnx")
    make(tmp_path / "b.onnx", extra="1")
    a, b = opened(tmp_path / "a.onnx"), opened(tmp_path / "b.onnx")
    assert a.sha256 != b.sha256
    again = copy.deepcopy(a.module).eval().requires_grad_(False).to("cpu")
    assert fingerprint(again) == a.sha256
    images = torch.rand(2, 3, 4, 5)
    assert torch.equal(again(images), a.module(images))


def test_what_is_not_a_classifier_is_named(tmp_path: Path) -> None:
    make(tmp_path / "net.onnx", ("n", 60))
    with pytest.raises(UserError, match=r"takes images: tensor\(float\).*expected one input of images"):
        opened(tmp_path / "net.onnx")
    make(tmp_path / "net.onnx", kind="INT64")
    with pytest.raises(UserError, match="expected one input of images"):
        opened(tmp_path / "net.onnx")
    for data in (b"", b"nonsense", b"\x80\x04."):
        (tmp_path / "net.onnx").write_bytes(data)
        with pytest.raises(UserError, match="is not an ONNX file"):
            opened(tmp_path / "net.onnx")
