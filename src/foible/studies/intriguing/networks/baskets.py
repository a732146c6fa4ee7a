"""Paper 3's networks on MNIST: the six of Table 1, and the three of Table 3 that learnt two halves of the images.

    basket = paper_networks("mnist", Path("runs/distortion"), scale="paper", seed=0)
    records(basket)["N100-100-10"].errors  # {"train": 0.0, "test": 1.7}, in percent

They go into `out/basket`, in the form of every basket, and are opened and not trained again when they are there.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, pick_device
from foible.data import Dataset, load
from foible.errors import UserError
from foible.networks import training_folder
from foible.networks.files import Entry, load_folder
from foible.networks.fresh import fresh_module
from foible.networks.lbfgs import Advance
from foible.networks.preprocess import Preprocess
from foible.processes import one_thread
from foible.progress import Bar, progress
from foible.recipes.train.fleets import meet
from foible.studies.intriguing.networks.autoencoder import Sparse, encoder_for
from foible.studies.intriguing.networks.plans import EFFORTS, TABLE1, TABLE3, Effort, Plan, parts, settings
from foible.studies.intriguing.networks.training import error, learn


@dataclass(frozen=True)
class Record:
    """A network's errors in percent, by part of the data ("train" or "P1" and "P2", and "test"), and its settings."""

    name: str
    spec: str
    errors: dict[str, float]
    settings: dict[str, Any]


@dataclass(frozen=True)
class SplitInfo:
    """Table 3. halves: rows of the training split, by name; errors in percent: network -> P1, P2 and test."""

    halves: dict[str, range]
    errors: dict[str, dict[str, float]]


def paper_networks(
    data: str, out: Path, *, scale: str = "paper", seed: int = 0, device: str = "auto", quiet: bool = False
) -> Basket:
    """The six networks of Table 1, from `out/basket`, or trained into it."""
    return _basket(TABLE1, data, Path(out), scale, seed, device, quiet)


def split_networks(
    data: str, out: Path, *, scale: str = "paper", seed: int = 0, device: str = "auto", quiet: bool = False
) -> tuple[Basket, SplitInfo]:
    """M1 and M1′, which learnt the first half P1 of the training images, and M2, which learnt the second, P2."""
    basket = _basket(TABLE3, data, Path(out), scale, seed, device, quiet)
    found = records(basket)
    rows = int(next(iter(found.values())).settings["images of the split"])
    halves = {name: part for name, part in parts(TABLE3, rows).items() if name != "train"}
    return basket, SplitInfo(halves, {name: one.errors for name, one in found.items()})


def records(basket: Basket | str | Path) -> dict[str, Record]:
    """What each network of a basket of ours came to, by name."""
    if isinstance(basket, Basket):
        if not basket.source:
            raise UserError("this basket is in no folder: give one that was opened from a folder")
        basket = basket.source[0]
    return {
        one.name: Record(
            one.name,
            one.spec,
            {part: round(100 * (1 - share), 6) for part, share in one.accuracy.items()},
            one.training,
        )
        for one in load_folder(basket)
    }


def _basket(plans: Sequence[Plan], data: str, out: Path, scale: str, seed: int, device: str, quiet: bool) -> Basket:
    """The networks of `plans` in `out/basket`; where that is of other settings, in `out/basket-HASH` beside it."""
    if scale not in EFFORTS:
        raise UserError(f"scale is {scale!r}: expected {' or '.join(EFFORTS)}")
    training, test = load(data, "train", quiet=quiet), load(data, "test", quiet=quiet)
    record = {
        "networks": [asdict(plan) for plan in plans], "data": data, "scale": scale, "seed": seed,
        **settings(scale), "data_sha256": [training.sha256, test.sha256],
    }  # fmt: skip
    record = json.loads(json.dumps(record))
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    folder = out / "basket"
    try:
        training_folder.is_finished(folder, record)
    except UserError:
        folder = out / f"basket-{digest[:8]}"
    made = training_folder.once(
        folder, record, lambda: train_networks(plans, training, test, EFFORTS[scale], seed, device=device, quiet=quiet)
    )
    if made is None and not quiet:
        print(f"{folder} already holds these networks: nothing to train", file=sys.stderr)
    return Basket.open(str(folder), device=device)


def train_networks(
    plans: Sequence[Plan], training: Dataset, test: Dataset, effort: Effort, seed: int, *, device: str = "auto",
    quiet: bool = False,
) -> list[Entry]:  # fmt: skip
    """Each network of `plans` on its part of the training images, with its errors on all parts."""
    place = pick_device(device)
    rows = len(training) if effort.images is None else min(effort.images, len(training))
    pieces = {
        name: (
            training.floats(slice(part.start, part.stop)).to(place),
            training.labels[part.start : part.stop].to(place),
        )
        for name, part in parts(plans, rows).items()
    }
    judged = pieces | {"test": (test.floats().to(place), meet(test, training.classes).to(place))}
    if judged["test"][0].shape[1:] != training.images.shape[1:]:
        raise UserError(
            f"test images have shape {tuple(test.images.shape[1:])}, training images {tuple(training.images.shape[1:])}"
        )
    entries = []
    with progress("Training the paper's networks", len(plans), quiet=quiet) as bar, one_thread():
        for plan in plans:
            entries.append(_train(plan, judged, training, effort, seed, _noting(bar, plan.name)))
            bar.advance(1)
    return entries


def _noting(bar: Bar, name: str) -> Advance:
    return lambda note: bar.advance(0, f"{name}: {note}")


def _train(
    plan: Plan, judged: Mapping[str, tuple[Tensor, Tensor]], training: Dataset, effort: Effort, seed: int,
    advance: Advance,
) -> Entry:  # fmt: skip
    (images, labels), seed = judged[plan.part], (seed + plan.twin) % 2**32
    channels, height, width = training.images.shape[1:]
    shape = (int(channels), int(height), int(width))
    module = fresh_module(plan.spec, shape, len(training.classes), seed).to(images.device)
    pretrained = plan.spec.startswith("ae:")
    if pretrained:
        module.load_state_dict(encoder_for(plan.spec, images, seed, effort.features, advance), strict=False)
    course = effort.course(plan.spec)
    learn(module, plan.decay, plan.divisor, images, labels, course, seed, advance)
    module = module.eval()
    return Entry(
        name=plan.name,
        module=module,
        preprocess=Preprocess(),
        classes=training.classes,
        shape=shape,
        spec=plan.spec,
        accuracy={part: 1 - error(module, *split) for part, split in judged.items()},
        seed=seed,
        training={
            "data": training.name,
            "split": "train",
            "part": plan.part,
            "images": len(images),
            "images of the split": sum(len(part[0]) for name, part in judged.items() if name != "test"),
            "decay": list(plan.decay),
            "divisor": plan.divisor,
            "course": asdict(course),
            "autoencoder": asdict(effort.features) | asdict(Sparse()) if pretrained else None,
            "device": images.device.type,
            "torch": torch.__version__,
        },
    )
