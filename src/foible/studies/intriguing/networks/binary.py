"""One class against the rest, on features that were learnt without any label (paper 3's classifier of Fig. 6).

A single logit z on a frozen autoencoder's features, trained by logistic regression. It is kept as the two logits (0, z)
of an `ae` network whose classes are "not X" and "X", so that it is a basket like any other.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.basket import Basket, pick_device
from foible.data import Dataset
from foible.errors import UserError
from foible.networks import training_folder
from foible.networks.files import Entry
from foible.networks.fresh import fresh_module
from foible.networks.lbfgs import Advance, linear
from foible.networks.preprocess import Preprocess
from foible.processes import one_thread
from foible.progress import Bar, progress
from foible.studies.intriguing.networks.autoencoder import Sparse, encoder_for
from foible.studies.intriguing.networks.plans import EFFORTS
from foible.studies.intriguing.networks.training import DIVISORS, error, features, put, split
from foible.text import did_you_mean

DECAY, DIVISOR = 1e-6, DIVISORS["ae"]  # λ and k of the classifier, as on AE400-10
CARS = ("automobile", "car")  # the paper's class, where the data has it


def class_of(label: str | None, data: Dataset) -> int:
    """The class that is told from the rest: by name; else cars, as in the paper; else the one in the middle."""
    if label is None:
        known = [data.classes.index(name) for name in CARS if name in data.classes]
        return known[0] if known else len(data.classes) // 2
    if label not in data.classes:
        raise UserError(
            f"label is {label!r}{did_you_mean(label, data.classes)}: {data.name} has {', '.join(data.classes[:20])}"
        )
    return data.classes.index(label)


def names_of(name: str) -> tuple[str, str]:
    return f"not {name}", name


def one_against_rest(
    training: Dataset, test: Dataset, chosen: int, out: Path, *, units: int, scale: str, seed: int, device: str,
    quiet: bool,
) -> Basket:  # fmt: skip
    """The network, from `out/basket-HASH`, or trained into it; `chosen` is a place in the training split's classes."""
    effort = EFFORTS[scale]
    record = json.loads(json.dumps({
        "class": training.classes[chosen], "data": training.name, "units": units, "scale": scale, "seed": seed,
        "decay": DECAY, "divisor": DIVISOR, "images": effort.images, "sparse": asdict(Sparse()),
        "courses": [asdict(effort.features), asdict(effort.top)],
        "data_sha256": [training.sha256, test.sha256],
    }))  # fmt: skip
    folder = out / f"basket-{hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:8]}"
    with one_thread():
        training_folder.once(
            folder, record, lambda: [_train(training, test, chosen, units, scale, seed, device, quiet)]
        )
    return Basket.open(str(folder), device=device)


def _train(
    training: Dataset, test: Dataset, chosen: int, units: int, scale: str, seed: int, device: str, quiet: bool
) -> Entry:
    effort, place, spec = EFFORTS[scale], pick_device(device), f"ae:{units}"
    channels, height, width = training.images.shape[1:]
    shape = (int(channels), int(height), int(width))
    rows = slice(0, effort.images)
    images, labels = training.floats(rows).to(place), (training.labels[rows] == chosen).long().to(place)
    if not 0 < int(labels.sum()) < len(labels):
        raise UserError(f"{training.classes[chosen]!r} is all or none of the {len(labels)} images to learn from")
    module = fresh_module(spec, shape, 2, seed).to(place)
    name = training.classes[chosen]
    with progress("Training the features and the classifier", 2, quiet=quiet) as bar:
        module.load_state_dict(encoder_for(spec, images, seed, effort.features, _noting(bar)), strict=False)
        bar.advance(1)
        logistic(module, images, labels, effort.top.iterations, _noting(bar))
        bar.advance(1)
    same = torch.tensor([test.classes.index(name) if name in test.classes else -1])
    judged = {"train": (images, labels), "test": (test.floats().to(place), (test.labels == same).long().to(place))}
    return Entry(
        name=f"AE{units}-1",
        module=module.eval(),
        preprocess=Preprocess(),
        classes=names_of(name),
        shape=shape,
        spec=spec,
        accuracy={part: 1 - error(module, *one) for part, one in judged.items()},
        seed=seed,
        training={"data": training.name, "split": "train", "images": len(images), "decay": [DECAY]},
    )


def logistic(module: nn.Module, images: Tensor, labels: Tensor, iterations: int, advance: Advance) -> None:
    """Set the last layer of `module` to (0, z), z the log-odds that labels (n,) of 0 and 1 are 1, by L-BFGS."""
    below, top = split(module)
    output = top[0]
    assert isinstance(output, nn.Linear)
    wanted = labels.float()[:, None]

    def loss(z: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(z, wanted)

    weight, bias = linear(features(below, images), 1, loss, DECAY / DIVISOR, iterations, advance)
    put(output, torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros_like(bias), bias]))


def _noting(bar: Bar) -> Advance:
    return lambda note: bar.advance(0, note)
