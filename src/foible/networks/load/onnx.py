"""ONNX files, run by onnxruntime on the CPU. A graph is data: loading one runs no code. It has no gradients here."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foible import class_lists
from foible.disk import ordinary
from foible.errors import UserError
from foible.networks.load.opened import Opened, first_line, in_batches, optional
from foible.text import some

MOST_BYTES = 2**31  # of a protobuf file; larger weights stand in files beside it
TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8,
}


class Graph(nn.Module):
    """Images (n, channels, height, width) to logits (n, classes), through an onnxruntime session."""

    def __init__(self, session: Any, sha256: str, layout: str, fixed: int | None) -> None:
        super().__init__()
        self.session = session
        self.fingerprint = sha256
        self.input = session.get_inputs()[0].name
        self.dtype = TYPES[session.get_inputs()[0].type]
        self.output = _output(session).name
        self.layout = layout
        self.fixed = fixed

    def forward(self, images: Tensor) -> Tensor:
        return in_batches(self._run, images, self.fixed)

    def _run(self, images: Tensor) -> Tensor:
        pixels = images.permute(0, 2, 3, 1) if self.layout == "NHWC" else images
        given = pixels.detach().float().cpu().contiguous().numpy()
        if self.dtype == np.uint8:
            given = given.round().clip(0, 255)
        [found] = self.session.run([self.output], {self.input: given.astype(self.dtype)})
        return torch.from_numpy(np.asarray(found, np.float32)).to(images.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self  # a session cannot be copied, and holds nothing that judging changes


def open_onnx(file: str) -> Opened:
    """The network of an ONNX file; its input size and class list are taken from the graph where it has them."""
    runtime = optional("onnxruntime", "onnxruntime", f"onnx:{file}")
    path = Path(file)
    try:
        if ordinary(path).stat().st_size > MOST_BYTES:
            raise UserError(f"{file} has {path.stat().st_size} bytes: an ONNX file has less than {MOST_BYTES}")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the network {file!r}: {getattr(error, 'strerror', None) or error}") from error
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    settings.inter_op_num_threads = 1
    settings.log_severity_level = 4  # what matters comes as an exception
    try:
        session = runtime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise UserError(f"{file} is not an ONNX file that onnxruntime can run ({first_line(error)})") from error
    try:
        return _described(session, path, digest)
    except UserError:
        raise
    except Exception as error:  # names and metadata that are no text
        raise UserError(f"{file}: its inputs, outputs or metadata cannot be read ({first_line(error)})") from error


def _described(session: Any, path: Path, digest: str) -> Opened:
    """The network of an open session, with what its graph says of it."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in TYPES:
        given = some([f"{one.name}: {one.type} {one.shape}" for one in inputs])
        raise UserError(f"{path} takes {given}: expected one input of images (n, channels, height, width), of floats")
    rows, *sides = (side if isinstance(side, int) and side > 0 else None for side in inputs[0].shape)
    layout = "NHWC" if sides[2] in (1, 3) and sides[0] not in (1, 3) else "NCHW"
    height, width, channels = sides if layout == "NHWC" else (sides[1], sides[2], sides[0])
    outputs = _output(session).shape[-1]
    return Opened(
        path.stem,
        Graph(session, digest, layout, rows),
        classes=class_lists.from_record(session.get_modelmeta().custom_metadata_map, str(path)),
        outputs=outputs if isinstance(outputs, int) else None,
        channels=channels or 3,
        size=(height, width) if height and width else None,
    )


def _output(session: Any) -> Any:
    """The first output that can be logits, (n, classes)."""
    found = [one for one in session.get_outputs() if len(one.shape or ()) == 2]
    if not found:
        given = some([f"{one.name} {one.shape}" for one in session.get_outputs()])
        raise UserError(f"the ONNX file's outputs are {given}: expected logits (n, classes)")
    return found[0]
