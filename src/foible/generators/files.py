"""A generator on disk: `generator.json` and its weights as safetensors. Nothing that is loaded is code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_safetensors

from foible.disk import write_atomically
from foible.errors import FoibleError, UserError
from foible.generators.base import Drawer, Shape
from foible.generators.build import build
from foible.networks.files import load_weights
from foible.records import COUNT, NUMBER, PLAIN, POSITIVE, SHAPE, TEXT, read_versioned

SCHEMA_VERSION = 1
FILE = "generator.json"
WEIGHTS = "generator.safetensors"
CURVES = {str: {str: [NUMBER]}}  # by split, by loss, one an epoch
MEASURES = {
    "images": POSITIVE, "error": (None, NUMBER), "mean_image_error": NUMBER, "divergence": [NUMBER], "active": COUNT,
    "spread": NUMBER,
}  # `foible.generators.health.Measures`  # fmt: skip
FORM = {
    "spec": TEXT, "shape": SHAPE, "latent": POSITIVE, "file": PLAIN, "sha256": TEXT, "config": dict, "training": dict,
    "history": CURVES, "measures": (None, MEASURES), "collapsed": (None, TEXT),
}  # fmt: skip
ADVICE = "copy the folder again or train again"


class Collapsed(FoibleError):
    """A generator that was trained to its end and is of no use: exit code 1. Its files are there to be looked at."""

    exit_code = 1


def save(folder: Path, model: Drawer, record: Mapping[str, Any]) -> None:
    """Write the weights and, last of all, `generator.json`."""
    data = _weights(model)
    write_atomically(folder / WEIGHTS, data)
    about = {
        "schema_version": SCHEMA_VERSION, "spec": model.spec, "shape": list(model.shape), "latent": model.latent,
        "file": WEIGHTS, "sha256": hashlib.sha256(data).hexdigest(), **record,
    }  # fmt: skip
    write_atomically(folder / FILE, (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode())


def read_record(folder: Path) -> dict[str, Any]:
    """`generator.json`, with a version that we know, and every field as it should be."""
    missing = (
        f"{folder} is not a generator: it has no {FILE}; make one with `foible generator train vae:10 --out FOLDER`"
    )
    return read_versioned(folder / FILE, FORM, SCHEMA_VERSION, missing=missing, advice=ADVICE)


def load_folder(folder: Path, *, collapsed: bool = False) -> Drawer:
    """The generator in a folder, on the CPU, checked against its SHA-256; one that collapsed only if `collapsed`."""
    record = read_record(folder)
    if record["collapsed"] is not None and not collapsed:
        raise Collapsed(f"the generator {folder} is of no use: {record['collapsed']}")
    shape: Shape = (record["shape"][0], record["shape"][1], record["shape"][2])
    with torch.device("meta"):  # allocates nothing and draws nothing
        model = build(record["spec"], shape)
    if model.latent != record["latent"]:
        raise UserError(f"{folder / FILE}: latent is {record['latent']}, and {record['spec']!r} has {model.latent}")
    load_weights(model, folder / record["file"], record["sha256"])
    model.spec = str(folder.resolve())
    return opened(model, record["spec"], record["sha256"])


def opened(model: Drawer, kind: str, sha256: str | None = None) -> Drawer:
    """Ready to be asked: with its fingerprint, in eval mode, and its weights ask for no gradients.

    kind: as `vae:10`. sha256: of its weights, where they have been saved.
    """
    sha256 = sha256 or hashlib.sha256(_weights(model)).hexdigest()
    model.fingerprint = hashlib.sha256(json.dumps([kind, list(model.shape), sha256]).encode()).hexdigest()
    return model.eval().requires_grad_(False)


def _weights(model: Drawer) -> bytes:
    return to_safetensors({key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()})
