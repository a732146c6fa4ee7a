"""Networks from what a user writes on the command line: `[NAME=]SPEC`, one each.

SPEC is a basket folder, `BASKET/NETWORK` (one of its networks), `timm:NAME`, `torchvision:NAME`, `hf:ORG/NAME` or
`hf:./FOLDER`, `onnx:FILE`, a zoo spec with its weights (`mlp:10?weights=FILE`), `FILE.py:factory` (the user's own code,
which is run), or, only with trust, `pickle:FILE`, `torchscript:FILE` or `pt2:FILE`. What a network's files do not say
is said in options: normalising twice, or never, and classes in another order are silent mistakes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foible import specs
from foible.errors import UserError
from foible.networks import zoo
from foible.networks.classes import choose, of_module
from foible.networks.files import FILE, Entry, fit, load_folder
from foible.networks.load import hubs, programs, state_dicts
from foible.networks.load.huggingface import open_hf
from foible.networks.load.onnx import open_onnx
from foible.networks.load.opened import Opened
from foible.networks.load.options import check, preprocess, sides, truth
from foible.networks.preprocess import Preprocess
from foible.permission import HUBS, NOTHING, Permission, beside, code_sha256
from foible.text import did_you_mean

Network = nn.Module | Callable[[Tensor], Tensor]
CODE = "foible_code"  # the attribute of a network that holds the hash of the file that made it
Shape = tuple[int, int, int]

# The options of each kind, beside those of preprocessing.
OPTIONS = {
    "timm": ("checkpoint", "classes", "ema"),
    "torchvision": ("checkpoint", "classes", "ema", "preset"),
    "hf": ("classes", "prompt"),
    "onnx": ("classes",),
    "pickle": ("classes",),
    "torchscript": ("classes",),
    "pt2": ("classes",),
}


def fingerprint(network: Network) -> str:
    """SHA-256 of a network's weights, or the one it carries (`fingerprint`: that of its file).

    Of a plain callable, its name: its inside cannot be seen. What a user's file made has that file's hash behind a "+".
    """
    carried = getattr(network, "fingerprint", None)
    if isinstance(carried, str):
        return carried
    digest = hashlib.sha256()
    if not isinstance(network, nn.Module):
        return f"callable:{getattr(network, '__qualname__', type(network).__name__)}"
    for key, value in network.state_dict().items():
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    code = getattr(network, CODE, None)
    return digest.hexdigest() + (f"+{code}" if isinstance(code, str) else "")


def same_network(known: str, now: str | None) -> bool:
    """Whether a recorded fingerprint is that of a network as it is now; once the code of one was not looked at."""
    return now is not None and known in (now, now.partition("+")[0])


def open_networks(
    text: str, classes: Sequence[str] | None, shape: Shape | None, may: Permission = NOTHING
) -> list[Entry]:
    """The networks that one `[NAME=]SPEC` names, each with its classes and preprocessing.

    classes, shape: those of the data, for networks that are told to take them from there.
    may: which code may be run and which networks fetched.
    """
    name, text = specs.split_name(text)
    one = Path(text)
    if not set(":?") & set(one.name) and one.name != text and not one.exists() and (one.parent / FILE).is_file():
        return [_one_of(one, name, may)]
    if one.is_dir():
        entries = load_folder(text, may=may)
        if name is not None:
            if len(entries) != 1:
                raise UserError(
                    f"{text!r} holds {len(entries)} networks: only a basket of one can be renamed {name!r}; for one of "
                    f"them write {name}={one / entries[0].name}"
                )
            entries = [replace(entries[0], name=name)]
        return entries
    spec = specs.parse(text)
    opened = _opened(text, spec, classes, shape, may)
    how = preprocess(spec.options, opened, text)
    own = choose(spec.options.get("classes"), opened.classes, classes, opened.outputs, repr(text))
    seen: Shape | None = shape if how.size is None else (opened.channels, *how.size)
    return [Entry(name or opened.name, opened.module, how, own, seen, text, fingerprint(opened.module), {})]


def _one_of(place: Path, name: str | None, may: Permission) -> Entry:
    """`BASKET/NETWORK`: one network of a basket folder."""
    entries = {entry.name: entry for entry in load_folder(place.parent, may=may)}
    if place.name not in entries:
        hint = did_you_mean(place.name, entries)
        raise UserError(
            f"the basket {str(place.parent)!r} has no network {place.name!r}{hint}; it has {', '.join(entries)}"
        )
    return replace(entries[place.name], name=name or place.name)


def _opened(text: str, spec: specs.Spec, classes: Sequence[str] | None, shape: Shape | None, may: Permission) -> Opened:
    options, argument = spec.options, spec.argument
    if spec.is_file:
        check(options, ("checkpoint", "classes", "ema"), text)
        return _from_user_file(text, spec, may)
    if spec.name in OPTIONS:
        if not argument:
            raise UserError(f"{text!r} names no network: expected {spec.name}:NAME, see docs/networks.md")
        check(options, OPTIONS[spec.name], text)
        ema = truth(options, "ema", text)
        if spec.name in HUBS and "checkpoint" not in options and not Path(argument).is_dir():
            may.fetch(spec.name, argument)
        if spec.name == "timm":
            return hubs.open_timm(argument, options, sides(options, "size", text), ema)
        if spec.name == "torchvision":
            return hubs.open_torchvision(argument, options, ema)
        if spec.name == "hf":
            words = options.get("classes", "data" if classes else None)  # of a network that can be asked about any
            return open_hf(argument, lambda: choose(words, None, classes, None, repr(text)), options.get("prompt"))
        return open_onnx(argument) if spec.name == "onnx" else programs.open_whole(spec.name, argument, may.trust)
    if "weights" not in options:
        raise UserError(_unknown(text, spec))
    check(options, ("weights", "classes", "ema"), text)
    return _from_weights(text, spec, classes, shape)


def _unknown(text: str, spec: specs.Spec) -> str:
    kinds = [*OPTIONS, *zoo.FAMILIES]
    path = Path(text.partition("?")[0])
    hint = did_you_mean(spec.name, kinds)
    if path.suffix == ".onnx" and not spec.argument:
        hint = f"; did you mean onnx:{path}?"
    elif path.is_file():
        hint = "; a file of weights needs its architecture"
    return (
        f"{text!r} is not a basket folder, nor a spec with weights{hint}; expected a folder that `foible train` wrote, "
        "timm:NAME?checkpoint=FILE, torchvision:NAME?checkpoint=FILE, hf:FOLDER, onnx:FILE, "
        "SPEC?weights=FILE.safetensors, or FILE.py:factory?preprocess=inside&classes=FILE"
    )


def _from_user_file(text: str, spec: specs.Spec, may: Permission) -> Opened:
    network: Any = may.run(spec.name, spec.argument)
    if not isinstance(network, nn.Module):
        if not callable(network):
            raise UserError(
                f"{text!r} is {type(network).__name__}: expected a function that makes a network, or a network"
            )
        try:
            with beside(spec.name):
                network = network()
        except Exception as error:
            raise UserError(f"{text!r} failed: {type(error).__name__}: {error}") from error
    if not callable(network):
        raise UserError(f"{text!r} made {type(network).__name__}: expected a torch.nn.Module or a callable")
    own = of_module(network, text)
    if "checkpoint" in spec.options:
        if not isinstance(network, nn.Module):
            raise UserError(f"{text!r} made {type(network).__name__}: only a torch.nn.Module takes a checkpoint")
        held = state_dicts.read(spec.options["checkpoint"], truth(spec.options, "ema", text))
        fit(network, held.state, held.file)
        own = held.classes or own
    return Opened(spec.argument, _marked(network, code_sha256(spec.name)), classes=own)


class _Function:
    """A plain callable of a user's file, with the mark of that file."""

    def __init__(self, call: Callable[[Tensor], Tensor], code: str) -> None:
        self.call, self.fingerprint = call, f"{fingerprint(call)}+{code}"

    def __call__(self, images: Tensor) -> Tensor:
        return self.call(images)


def _marked(network: Network, code: str) -> Any:
    """The network, its fingerprint telling one version of its code from another."""
    if not isinstance(network, nn.Module):
        return _Function(network, code)
    setattr(network, CODE, code)
    return network


def _from_weights(text: str, spec: specs.Spec, classes: Sequence[str] | None, shape: Shape | None) -> Opened:
    plain = f"{spec.name}:{spec.argument}" if spec.argument else spec.name
    family = zoo.family_of(plain)
    held = state_dicts.read(spec.options["weights"], truth(spec.options, "ema", text))
    size = sides(spec.options, "size", text)
    if size is not None:
        shape = (shape[0] if shape else 3, *size)
    if shape is None:
        raise UserError(f"{text!r} needs the data it is for, to know its input: give --data, or size= in pixels")
    # What its last layer has; where that is not there, `fit` says what is.
    with torch.device("meta"):
        last = list(zoo.build(plain, shape, 2).state_dict())[-1]
    found = state_dicts.find(held.state, last)
    outputs = int(found.shape[0]) if found is not None and found.ndim and len(found) > 1 else len(classes or "12")
    module = zoo.build(plain, shape, outputs)
    fit(module, held.state, held.file)
    # These train on plain pixels; the others on normalised ones, which must be said.
    how = None if family.normalise else Preprocess()
    return Opened(zoo.name_of(plain), module, how, held.classes, outputs, shape[0])
