"""A basket on disk: `basket.json` and one safetensors file for each network. Nothing that is loaded is code."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from foible.disk import write_atomically
from foible.errors import UserError
from foible.networks import zoo
from foible.networks.features import Backbone
from foible.networks.load.state_dicts import renamed
from foible.networks.preprocess import Preprocess
from foible.networks.probe import Probe, ProbeSource, is_probe, load_probe, own_module
from foible.permission import NOTHING, Permission
from foible.records import NUMBER, PLAIN, SHAPE, TEXT, One, is_plain, is_text, read_versioned
from foible.text import some

SCHEMA_VERSION = 1
FILE = "basket.json"
NAME = One(lambda value: is_text(value) and 0 < len(value) <= 1000, "a name: text that can be written")
NETWORK = {
    "name": NAME, "spec": NAME, "file": PLAIN, "sha256": NAME, "seed?": int, "preprocess?": dict, "backbone?": dict,
    "training?": dict, "accuracy?": {str: NUMBER},
}  # fmt: skip
FORM = {"classes": [TEXT], "shape": SHAPE, "networks": [NETWORK], "config?": (None, dict)}


@dataclass(frozen=True, eq=False)
class Entry:
    """One network of a basket folder. `shape` is that of the images, (channels, height, width)."""

    name: str
    module: nn.Module
    preprocess: Preprocess
    classes: tuple[str, ...] | None
    shape: tuple[int, int, int] | None
    spec: str
    sha256: str = ""
    accuracy: dict[str, float] = field(default_factory=dict)
    seed: int = 0
    training: dict[str, Any] = field(default_factory=dict)


def save_basket(folder: str | Path, entries: Sequence[Entry], config: Mapping[str, Any] | None = None) -> list[Entry]:
    """Write the networks and, last of all, `basket.json`; the entries come back with their SHA-256.

    `config` is kept beside them: how the basket was made, for whoever wants to make it again.
    """
    folder = Path(folder)
    first = _one_task(entries)
    for entry in entries:
        if not is_plain(entry.name):
            raise UserError(f"a network is called {entry.name!r}: its name must also be a plain file name")
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: give a folder for the basket")
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    for entry in entries:
        state = {key: value.detach().cpu().contiguous() for key, value in own_module(entry.module).state_dict().items()}
        data = to_safetensors(state)
        write_atomically(folder / f"{entry.name}.safetensors", data)
        saved.append(replace(entry, sha256=hashlib.sha256(data).hexdigest()))
    record = {
        "schema_version": SCHEMA_VERSION,
        "classes": list(first.classes or ()),
        "shape": list(first.shape or ()),
        "networks": [_to_json(entry) for entry in saved],
    }
    if config is not None:
        record["config"] = dict(config)
    write_atomically(folder / FILE, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    return saved


def load_folder(
    folder: str | Path,
    *,
    may: Permission = NOTHING,
    only: str | None = None,
    opened: dict[ProbeSource, Backbone] | None = None,
) -> list[Entry]:
    """The networks of a basket folder, in eval mode on the CPU, each checked against its SHA-256.

    Probes open their backbones again, one for all that share it; `may` says whose code may be run for that.
    only: the one network of that name, as somebody's backbone; it must not be a probe itself.
    opened: backbones that are open already.
    """
    folder = Path(folder)
    record = read_record(folder)
    where = folder / FILE
    classes, shape, networks = record["classes"], record["shape"], record["networks"]
    if len(classes) < 2:
        raise UserError(f"{where}: classes must be a list of at least 2 names")
    if len(set(classes)) != len(classes):
        raise UserError(f"{where}: two classes have the same name: labels could not be told apart")
    if not networks:
        raise UserError(f"{where} lists no networks")
    size = (shape[0], shape[1], shape[2])
    if only is not None:
        networks = [one for one in networks if one["name"] == only]
        if len(networks) != 1:
            raise UserError(f"{where} lists {len(networks)} networks called {only!r}")
        if is_probe(networks[0]["spec"]):
            raise UserError(f"{only!r} in {folder} is a probe itself: give its own backbone")
    opened = {} if opened is None else opened
    entries = [_from_json(one, folder, tuple(classes), size, may, opened) for one in networks]
    _one_task(entries)
    return entries


def read_record(folder: Path) -> dict[str, Any]:
    """`basket.json` as it is, with a version that we know, and every field that something reads as it should be."""
    missing = f"{folder} is not a basket: it has no {FILE}; make one with `foible train SPEC… --out FOLDER`"
    advice = "copy the folder again or train again"
    return read_versioned(folder / FILE, FORM, SCHEMA_VERSION, missing=missing, advice=advice)


def load_weights(module: nn.Module, file: str | Path, sha256: str | None = None) -> str:
    """Put the tensors of a safetensors file into `module` and return the file's SHA-256.

    The module may be on the meta device; the weights are checked against it before anything is allocated.
    """
    file = Path(file)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the weights {file}: {error.strerror or error}") from error
    # A safetensors file may begin with any eight bytes, its header's length; then comes JSON.
    if data[8:9] != b"{" and (data.startswith(b"PK\x03\x04") or re.match(rb"\x80[\x00-\x05]", data)):
        raise UserError(
            f"{file} is a pickle (a .pt or .pth file): loading one can run any program hidden in it, and "
            "safetensors were saved here; copy the folder again or train again"
        )
    digest = hashlib.sha256(data).hexdigest()
    if sha256 is not None and digest != sha256:
        raise UserError(
            f"{file} is not the file that was saved: its SHA-256 is {digest[:12]}…, recorded is {sha256[:12]}…; "
            "copy the folder again or train again"
        )
    try:
        state = parse_safetensors(data)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not a safetensors file, or it is cut short ({error})") from error
    fit(module, state, file)
    return digest


def fit(module: nn.Module, given: Mapping[str, Tensor], file: str | Path) -> None:
    """Put a state dict into `module`, prefixes of wrappers aside. What does not fit is named: keys and shapes."""
    expected = module.state_dict()
    state = renamed(given, expected)
    for key in expected.keys() - state.keys():
        if key.endswith("num_batches_tracked"):  # absent in old checkpoints, and of no use when judging
            state[key] = torch.zeros((), dtype=torch.int64)
    missing, extra = expected.keys() - state.keys(), state.keys() - expected.keys()
    if missing or extra:
        found = [f"lacks {some(sorted(missing))}"] if missing else []
        found += [f"has unexpected {some(sorted(extra))}"] if extra else []
        raise UserError(f"{file} {' and '.join(found)}: the weights are of another architecture")
    wrong = [key for key, value in expected.items() if state[key].shape != value.shape]
    if wrong:
        shapes = [
            f"{key} has shape {tuple(state[key].shape)}, the network has {tuple(expected[key].shape)}" for key in wrong
        ]
        more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise UserError(
            f"{file}: {'; '.join(shapes[:3])}{more}: "
            "the weights are of another architecture, image size or number of classes"
        )
    for key, wanted in expected.items():
        value = state[key]
        if value.is_floating_point() != wanted.is_floating_point():
            raise UserError(f"{file}: {key} is {value.dtype}, the network has {wanted.dtype}")
        state[key] = value.to(device="cpu" if wanted.is_meta else wanted.device, dtype=wanted.dtype)
    module.load_state_dict(state, assign=True)


def _to_json(entry: Entry) -> dict[str, Any]:
    backbone = {"backbone": entry.module.source.to_json()} if isinstance(entry.module, Probe) else {}
    return {
        "name": entry.name,
        "spec": entry.spec,
        "seed": entry.seed,
        "file": f"{entry.name}.safetensors",
        "sha256": entry.sha256,
        "preprocess": entry.preprocess.to_json(),
        **backbone,
        "training": entry.training,
        "accuracy": entry.accuracy,
    }


def _from_json(
    record: dict[str, Any], folder: Path, classes: tuple[str, ...], shape: tuple[int, int, int], may: Permission,
    opened: dict[ProbeSource, Backbone],
) -> Entry:  # fmt: skip
    where = folder / FILE
    name, spec, file, sha256 = (record[key] for key in ("name", "spec", "file", "sha256"))
    seed, accuracy, training = record.get("seed", 0), record.get("accuracy", {}), record.get("training", {})
    module: nn.Module
    if is_probe(spec):
        module = load_probe(spec, record, f"{where}: network {name!r}", classes, may, opened)
    else:
        with torch.device("meta"):  # allocates nothing and draws nothing
            module = zoo.build(spec, shape, len(classes))
    load_weights(own_module(module), folder / file, sha256)
    preprocess = Preprocess.from_json(record.get("preprocess", {}))
    if len(preprocess.mean) not in (0, shape[0]):
        raise UserError(
            f"{where}: preprocess of network {name!r} has {len(preprocess.mean)} means for {shape[0]} channels"
        )
    return Entry(name, module.eval(), preprocess, classes, shape, spec, sha256, accuracy, seed, training)


def _one_task(entries: Sequence[Entry]) -> Entry:
    """The first entry, once all are known to share classes and shape, and to differ in name."""
    if not entries:
        raise UserError("a basket needs at least one network")
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two networks are called {name!r}: names in a basket must differ")
    for entry in entries:
        if entry.classes is None or entry.shape is None:
            raise UserError(f"network {entry.name!r} has no classes or no image shape: a basket folder records both")
        if (entry.classes, entry.shape) != (entries[0].classes, entries[0].shape):
            raise UserError(f"network {entry.name!r} has other classes or another image shape than {names[0]!r}")
    return entries[0]
