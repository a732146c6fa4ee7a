"""Networks from what a user writes on the command line: `[NAME=]SPEC`, one each.

SPEC is a basket folder, a zoo spec with its weights (`mlp:10?weights=FILE.safetensors`), or `FILE.py:factory`, the
user's own code, which is run. Preprocessing is said outright: normalising twice, or never, is a silent mistake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from foible import specs
from foible.errors import UserError
from foible.networks import zoo
from foible.networks.files import Entry, load_folder, load_weights
from foible.networks.preprocess import Preprocess

Network = nn.Module | Callable[[Tensor], Tensor]


def fingerprint(network: Network) -> str:
    """SHA-256 of a network's weights; of a plain callable, its name (its inside cannot be seen)."""
    digest = hashlib.sha256()
    if not isinstance(network, nn.Module):
        return f"callable:{getattr(network, '__qualname__', type(network).__name__)}"
    for key, value in network.state_dict().items():
        digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def split_name(text: str) -> tuple[str | None, str]:
    """`NAME=SPEC` or `SPEC`; the `=` of options, which follow a `?`, does not count."""
    head, equals, tail = text.partition("=")
    if equals and "?" not in head and "/" not in head and ":" not in head:
        return head, tail
    return None, text


def open_networks(text: str, classes: Sequence[str] | None, shape: tuple[int, int, int] | None) -> Iterable[Entry]:
    """The networks that one `[NAME=]SPEC` names."""
    name, text = split_name(text)
    if Path(text).is_dir():
        entries = load_folder(text)
        if name is not None:
            if len(entries) != 1:
                raise UserError(f"{text!r} holds {len(entries)} networks: only a basket of one can be renamed {name!r}")
            entries = [replace(entries[0], name=name)]
        return entries
    spec = specs.parse(text)
    if spec.is_file:
        return [_from_user_file(text, spec, name, classes, shape)]
    weights = spec.options.get("weights")
    if weights is None:
        raise UserError(
            f"{text!r} is not a basket folder, nor a spec with weights: expected a folder that `foible train` wrote, "
            "SPEC?weights=FILE.safetensors, or FILE.py:factory?preprocess=inside"
        )
    return [_from_weights(text, spec, weights, name, classes, shape)]


def _preprocess_from(options: Mapping[str, str], text: str) -> Preprocess:
    """`preprocess=inside`, or mean and std as numbers between commas, and size as N or WIDTHxHEIGHT."""
    known = ("preprocess", "mean", "std", "size")
    for key in options:
        if key not in (*known, "weights"):
            hint = specs.did_you_mean(key, known)
            raise UserError(f"{text!r} has no option {key!r}{hint}; it takes {', '.join(known)}")
    if "preprocess" in options:
        if options["preprocess"] != "inside" or len(options.keys() & set(known)) > 1:
            raise UserError(f"{text!r}: expected preprocess=inside alone, or mean=, std= and size= without preprocess=")
        return Preprocess()
    if not options.keys() & set(known):
        raise UserError(
            f"{text!r} does not say how its images are preprocessed: add ?preprocess=inside if the network takes "
            "pixels in [0, 1] and normalises itself, or ?mean=0.5,0.5,0.5&std=0.2,0.2,0.2&size=224"
        )
    try:
        numbers = {key: tuple(float(v) for v in options[key].split(",")) for key in ("mean", "std") if key in options}
        size = [int(v) for v in options["size"].split("x")] if "size" in options else []
    except ValueError as error:
        raise UserError(f"cannot read the preprocessing of {text!r}: {error}") from error
    return Preprocess(numbers.get("mean", ()), numbers.get("std", ()), (size[-1], size[0]) if size else None)


def _from_user_file(
    text: str,
    spec: specs.Spec,
    name: str | None,
    classes: Sequence[str] | None,
    shape: tuple[int, int, int] | None,
) -> Entry:
    network = specs.from_file(spec.name, spec.argument)
    preprocess = _preprocess_from(spec.options, text)
    if not isinstance(network, nn.Module):
        if not callable(network):
            raise UserError(
                f"{text!r} is {type(network).__name__}: expected a function that makes a network, or a network"
            )
        try:
            network = network()
        except Exception as error:
            raise UserError(f"{text!r} failed: {type(error).__name__}: {error}") from error
    if not callable(network):
        raise UserError(f"{text!r} made {type(network).__name__}: expected a torch.nn.Module or a callable")
    called = name or spec.argument
    return Entry(
        called,
        network,
        preprocess,
        tuple(classes) if classes else None,
        shape,
        text,
        fingerprint(network),
        {},
    )


def _from_weights(
    text: str,
    spec: specs.Spec,
    weights: str,
    name: str | None,
    classes: Sequence[str] | None,
    shape: tuple[int, int, int] | None,
) -> Entry:
    if not classes or not shape:
        raise UserError(f"{text!r} needs the data it is for, to know its input and classes: give --data")
    plain = f"{spec.name}:{spec.argument}" if spec.argument else spec.name
    module = zoo.build(plain, shape, len(classes))
    load_weights(module, weights)
    said = dict(spec.options)
    if not zoo.family_of(plain).normalise and not said.keys() - {"weights"}:
        said["preprocess"] = "inside"  # these train on plain pixels; the others on normalised ones, which must be said
    preprocess = _preprocess_from(said, text)
    return Entry(name or zoo.name_of(plain), module, preprocess, tuple(classes), shape, text, fingerprint(module), {})
