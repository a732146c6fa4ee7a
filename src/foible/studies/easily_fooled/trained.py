"""Paper 5's networks, trained as Sec. C.1 says: SGD with momentum 0.9, 64 images a step, weight decay 0.0005, and a
rate of 0.01 that falls by Caffe's inverse policy (γ 0.0001, power 0.75).

    basket = networks_for(["lenet-caffe"], "mnist", Path("runs/fooling"), seeds=[0, 1], steps=10_000)

Each goes into a basket folder of its own in `out/networks`, and is opened and not trained again when it is there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.basket import Basket, pick_device
from foible.data import Dataset, load
from foible.errors import UserError
from foible.networks import training_folder, zoo
from foible.networks.files import Entry
from foible.networks.fresh import fresh_module
from foible.networks.loop import Place, Schedule, Turn, descent, enough, loop
from foible.networks.preprocess import Preprocess, statistics
from foible.processes import one_thread
from foible.progress import progress
from foible.recipes.train.fleets import meet

RATE, MOMENTUM, DECAY, BATCH, INVERSE = 0.01, 0.9, 5e-4, 64, (1e-4, 0.75)  # Sec. C.1
STEPS = 10_000  # of Caffe's LeNet; the paper does not say
JUDGED = 2048  # images at once


def networks_for(
    specs: Sequence[str], data: str, out: Path, *, seeds: Sequence[int], steps: int, device: str, quiet: bool,
    given: str | None = None,
) -> Basket:  # fmt: skip
    """Every spec with each of the seeds; or those of `given`, a basket folder, or specs with blanks between them."""
    if given is not None:
        test = load(data, "test", quiet=True)
        channels, height, width = test.images.shape[1:]
        return Basket.open(given.split(), device=device, classes=test.classes, shape=(channels, height, width))
    training, test = load(data, "train", quiet=quiet), load(data, "test", quiet=quiet)
    folders = [
        trained(spec, seed, training, test, out / "networks", steps=steps, device=device, quiet=quiet)
        for spec in specs
        for seed in seeds
    ]
    return Basket.open([str(folder) for folder in folders], device=device)


def trained(
    spec: str, seed: int, training: Dataset, test: Dataset, out: Path, *, steps: int, device: str, quiet: bool,
    name: str | None = None,
) -> Path:  # fmt: skip
    """The folder in `out` that holds this network as a basket; trained where it is not there yet.

    name: of the network (default: of its spec, and -sSEED). A folder of other settings is left as it is, and another
    is made beside it.
    """
    name = name or f"{zoo.name_of(spec)}-s{seed}"
    record = {
        "spec": spec, "seed": seed, "name": name, "steps": steps, "batch": BATCH, "rate": RATE, "momentum": MOMENTUM,
        "weight_decay": DECAY, "inverse": list(INVERSE), "data": training.name,
        "data_sha256": [training.sha256, test.sha256],
    }  # fmt: skip
    folder = out / name
    try:
        training_folder.is_finished(folder, record)
    except UserError:
        folder = out / f"{name}-{hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:8]}"
    training_folder.once(
        folder, record, lambda: [train_one(spec, seed, training, test, steps=steps, device=device, quiet=quiet,
                                           name=name)]
    )  # fmt: skip
    return folder


def train_one(
    spec: str, seed: int, training: Dataset, test: Dataset, *, steps: int, device: str, quiet: bool, name: str
) -> Entry:
    """One network, trained for at least so many steps: whole epochs."""
    place = pick_device(device)
    channels, height, width = training.images.shape[1:]
    shape = (channels, height, width)
    images, labels = training.images.to(place), training.labels.to(place)
    how = statistics(training.images) if zoo.family_of(spec).normalise else Preprocess()
    module = fresh_module(spec, shape, len(training.classes), seed).to(place).train()
    batch = min(BATCH, len(images))
    schedule = Schedule(len(images), batch, enough(1, steps, len(images), batch), RATE, inverse=INVERSE)
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)

    def loss(rows: Tensor) -> Tensor:
        said: Tensor = module(how(images.index_select(0, rows).float() / 255))
        return F.cross_entropy(said, labels.index_select(0, rows))

    inner, done = descent(optimiser, loss), 0
    drawn = torch.random.fork_rng(devices=[place] if place.type == "cuda" else [])  # by dropout
    with one_thread(), drawn, progress(f"Training {name}", schedule.steps, quiet=quiet) as bar:
        torch.manual_seed(seed)

        def step(turn: Turn) -> Tensor:
            nonlocal done
            done += 1
            if done % 50 == 0 or done == schedule.steps:
                bar.advance(done % 50 or 50)
            return inner(turn)

        loop(schedule, Place.start([seed], place), step)
    if not all(bool(weight.isfinite().all()) for weight in module.parameters()):
        raise UserError(f"network {name!r} diverged: its weights are no longer numbers after {schedule.steps} steps")
    module.eval()
    accuracy = {
        split: right_share(module, how, one.images, meet(one, training.classes), place)
        for split, one in (("train", training), ("test", test))
    }
    told: dict[str, Any] = {
        "data": training.name, "split": "train", "images": len(images), "batch": batch, "optimiser": "sgd",
        "momentum": MOMENTUM, "rate": RATE, "decay": "inverse", "weight_decay": DECAY, "epochs": schedule.epochs,
        "steps": schedule.steps, "torch": torch.__version__,
    }  # fmt: skip
    return Entry(
        name=name, module=module.cpu(), preprocess=how, classes=training.classes, shape=shape, spec=spec,
        accuracy=accuracy, seed=seed, training=told,
    )  # fmt: skip


@torch.no_grad()
def right_share(module: Any, how: Preprocess, images: Tensor, labels: Tensor, device: torch.device) -> float:
    """The share of images (uint8) that the network gives its label."""
    right = sum(
        (module(how(images[at : at + JUDGED].to(device).float() / 255)).argmax(1).cpu() == labels[at : at + JUDGED])
        .sum()
        .item()
        for at in range(0, len(images), JUDGED)
    )
    return float(right) / len(images)
