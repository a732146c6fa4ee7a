"""Whole networks in one file: pickled modules, TorchScript, exported programs. Loading one can run its maker's code."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foible.class_lists import from_record
from foible.disk import ordinary
from foible.errors import UserError
from foible.networks.classes import of_module
from foible.networks.load.opened import Opened, first_line, in_batches
from foible.networks.load.state_dicts import refusal

KINDS = ("pickle", "torchscript", "pt2")


class Program(nn.Module):
    """A TorchScript or exported program, known by its file: its weights alone do not say what it does."""

    def __init__(self, inner: nn.Module, sha256: str, fixed: int | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.fingerprint = sha256
        self.fixed = fixed  # the only number of images it takes at once, or None

    def forward(self, images: Tensor) -> Tensor:
        return in_batches(self.inner, images, self.fixed)

    def train(self, mode: bool = True) -> Program:
        """Left as it was exported: an exported program has no modes, and says so with an error."""
        self.training = mode
        return self


def open_whole(kind: str, file: str, trust: bool) -> Opened:
    """The network in a file of one of `KINDS`, only with `trust`."""
    path = Path(file)
    try:
        with ordinary(path).open("rb") as stream:
            if not trust:
                raise UserError(refusal(file, kind))
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the network {file!r}: {getattr(error, 'strerror', None) or error}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch on its own formats' future
            module, own = _LOADERS[kind](path, digest)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{file} could not be loaded as {kind} ({first_line(error)}): a pickle needs the code of its classes where "
            "Python finds it, and every format the torch that wrote it or a later one"
        ) from error
    return Opened(path.stem, module.eval(), classes=own)


def _pickle(path: Path, _: str) -> tuple[nn.Module, tuple[str, ...] | None]:
    found: Any = torch.load(path, map_location="cpu", weights_only=False)
    own = from_record(found, str(path)) if isinstance(found, Mapping) else None
    if isinstance(found, Mapping):
        found = next((value for value in found.values() if isinstance(value, nn.Module)), found)
    if not isinstance(found, nn.Module):
        raise UserError(
            f"{path} holds {type(found).__name__}, not a module: give weights with their architecture, as "
            f"timm:NAME?checkpoint={path}"
        )
    return found.float(), own or of_module(found, str(path))


def _torchscript(path: Path, digest: str) -> tuple[nn.Module, tuple[str, ...] | None]:
    inner = torch.jit.load(str(path), map_location="cpu").eval()
    return Program(inner, digest), of_module(inner, str(path))


def _exported(path: Path, digest: str) -> tuple[nn.Module, tuple[str, ...] | None]:
    program = torch.export.load(path)
    named = set(program.graph_signature.user_inputs)
    shapes = [node.meta["val"].shape for node in program.graph.nodes if node.op == "placeholder" and node.name in named]
    rows = shapes[0][0] if len(shapes) == 1 and len(shapes[0]) == 4 else None
    return Program(program.module(), digest, rows if type(rows) is int else None), None


_LOADERS = {"pickle": _pickle, "torchscript": _torchscript, "pt2": _exported}
