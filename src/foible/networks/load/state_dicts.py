"""Weights that a training script saved: a state dict, alone or in one of the usual wrappers. Nothing in them is run.

They are read with `weights_only=True`, which makes tensors and plain Python values and refuses everything else; NumPy's
numbers are let through, and `argparse.Namespace`, which timm's saver keeps its arguments in: it only holds them.
"""

from __future__ import annotations

import argparse
import pickle
import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from foible import class_lists
from foible.disk import ordinary
from foible.errors import UserError
from foible.networks.load.opened import first_line
from foible.text import shown, some

PLAIN = ("state_dict", "model_state_dict", "model", "net", "network", "module")
AVERAGED = ("state_dict_ema", "model_ema", "ema_state_dict", "ema")
PREFIX = re.compile(r"(?:module|_orig_mod|model)\.")
# Numbers of NumPy, such as a best accuracy, are made of these; NumPy 1 called the first by another name.
_NUMBER: Any = np.float64(0).__reduce__()[0]
_HARMLESS: list[Any] = [
    argparse.Namespace,
    _NUMBER,
    (_NUMBER, "numpy.core.multiarray.scalar"),
    np.dtype,
    *{type(np.dtype(kind)) for kind in "efdbhilqBHILQ?"},
]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A state dict as its file has it (prefixes included), and the class list beside it, where there is one."""

    file: Path
    state: dict[str, Tensor]
    classes: tuple[str, ...] | None


def read(file: str | Path, ema: bool = False) -> Checkpoint:
    """The weights of a safetensors, .pt, .pth, .ckpt or .bin file. `ema`: the moving average, where it has both."""
    file = Path(file)
    try:
        with ordinary(file).open("rb") as stream:
            start = stream.read(9)
    except (OSError, ValueError, UserError) as error:
        raise UserError(f"cannot read the weights {file}: {getattr(error, 'strerror', None) or error}") from error
    if start[8:] != b"{":  # after eight bytes of length, the header of a safetensors file is JSON
        return _from_torch(file, ema)
    try:
        with safe_open(file, framework="pt") as opened:
            found: dict[str, Any] = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
            metadata = opened.metadata() or {}
    except (SafetensorError, ValueError, KeyError, TypeError, OSError) as error:
        raise UserError(f"{file} is not a safetensors file, or it is cut short ({error})") from error
    if ema:
        raise UserError(f"{file} is a safetensors file, which holds one set of weights: leave ema=true out")
    return Checkpoint(file, found, class_lists.from_record(metadata, str(file)))


def find(state: Mapping[str, Tensor], key: str) -> Tensor | None:
    """The tensor called `key`, whatever wrappers' prefixes stand before it."""
    return next((value for name, value in state.items() if _bare(name, key)), None)


def renamed(state: Mapping[str, Tensor], expected: Iterable[str]) -> dict[str, Tensor]:
    """The state without the prefixes of its wrappers (`module.`, `_orig_mod.`, `model.`), as far as that helps."""
    wanted = set(expected)
    best = dict(state)
    current = dict(state)
    while any(PREFIX.match(key) for key in current):
        current = {PREFIX.sub("", key, count=1) if PREFIX.match(key) else key: value for key, value in current.items()}
        if len(wanted & current.keys()) > len(wanted & best.keys()):
            best = current
    if "n_averaged" not in wanted:
        best.pop("n_averaged", None)  # torch's AveragedModel counts here
    return best


def _bare(name: str, key: str) -> bool:
    return name.endswith(key) and re.fullmatch(rf"(?:{PREFIX.pattern})*", name[: len(name) - len(key)]) is not None


def _from_torch(file: Path, ema: bool) -> Checkpoint:
    kind = kind_of(file)
    if kind is not None:
        raise UserError(refusal(file, kind))
    try:
        with torch.serialization.safe_globals(_HARMLESS):
            found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(refusal(file, "pickle", _globals(file))) from error
    except Exception as error:
        raise UserError(
            f"{file} is neither a safetensors file nor a PyTorch checkpoint that can be read, or it is cut short "
            f"({first_line(error)}): expected a state dict saved with safetensors or torch.save"
        ) from error
    if isinstance(found, torch.nn.Module):
        raise UserError(refusal(file, "pickle"))
    state = _unwrapped(found, ema, file)
    return Checkpoint(file, state, class_lists.from_record(found, str(file)) if isinstance(found, Mapping) else None)


def _unwrapped(found: Any, ema: bool, file: Path, depth: int = 0) -> dict[str, Tensor]:
    """The state dict inside: under the wrappers' names, and then the tensors of that dictionary."""
    if not isinstance(found, Mapping) or depth > 3:
        raise UserError(f"{file} holds {type(found).__name__}: expected a state dict, names and tensors")
    averaged = next((key for key in AVERAGED if _holds_tensors(found.get(key))), None)
    plain = next((key for key in PLAIN if _holds_tensors(found.get(key))), None)
    if ema and averaged is None:
        raise UserError(
            f"{file} has no moving average of its weights ({' or '.join(AVERAGED)}): leave ema=true out; it has "
            f"{some(sorted(map(str, found)))}"
        )
    inner = averaged if ema or plain is None else plain
    if inner is not None:
        return _unwrapped(found[inner], False, file, depth + 1)
    state = {key: value for key, value in found.items() if isinstance(key, str) and isinstance(value, Tensor)}
    if not state:
        keys = [str(key) for key in found]
        raise UserError(
            f"{file} holds no weights: expected names and tensors, alone or under {' or '.join(PLAIN[:3])}; it has "
            f"{some(sorted(keys)) or 'nothing'}"
        )
    for key, value in state.items():
        if value.layout != torch.strided or value.is_meta or value.is_quantized or value.is_nested:
            raise UserError(
                f"{file}: {shown(key)} is {value.dtype}, {value.layout}, on {value.device}: expected plain tensors of "
                "numbers; save the weights dense and not quantised"
            )
    return state


def _holds_tensors(value: Any, depth: int = 2) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return any(isinstance(one, Tensor) or (depth and _holds_tensors(one, depth - 1)) for one in value.values())


def kind_of(file: Path) -> str | None:
    """`torchscript` or `pt2` where a file is one: its own archive says so, and nothing of it is loaded."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
    except (zipfile.BadZipFile, OSError, ValueError):
        return None
    if "constants.pkl" in names or any(name.startswith("code/") for name in names):
        return "torchscript"
    return "pt2" if "archive_format" in names or "serialized_exported_program.json" in names else None


_WHAT = {
    "pickle": "a pickle that holds more than weights",
    "torchscript": "a TorchScript program",
    "pt2": "an exported program (.pt2)",
}


def refusal(file: str | Path, kind: str, holds: Iterable[str] = ()) -> str:
    """Why a file that can run code is not loaded, and what to do instead."""
    inside = some(sorted(holds), 3)
    return (
        f"{file} is {_WHAT[kind]}{f' ({inside})' if inside else ''}: loading it can run any program hidden in it, so "
        "foible does not. Save the weights alone, torch.save(model.state_dict(), 'weights.pt'), and give them with "
        "their architecture: timm:NAME?checkpoint=weights.pt, torchvision:NAME?checkpoint=weights.pt or "
        f"FILE.py:factory?checkpoint=weights.pt. Or, where you trust whoever made it: {kind}:{file} with --trust"
    )


def _globals(file: Path) -> list[str]:
    """Names of what the pickle would call; found by reading it, not by running it."""
    try:
        return list(torch.serialization.get_unsafe_globals_in_checkpoint(str(file)))
    except Exception:
        return []
