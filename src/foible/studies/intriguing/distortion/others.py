"""Transfer where the paper has no figures: between seeds, depths and activations, and for a convolutional network."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from foible.basket import Basket
from foible.data import Dataset
from foible.recipes.train.train import train
from foible.studies.common import Row, share_row
from foible.studies.intriguing.distortion.targets import TARGETS, every_target, some_images
from foible.transfer import select, transfer

FIRST = "sigmoid-100-100"
NETWORKS = {  # name -> (spec, which seed)
    FIRST: ("mlp:100-100,sigmoid", 0),
    "sigmoid-100-100-again": ("mlp:100-100,sigmoid", 1),
    "sigmoid-100": ("mlp:100,sigmoid", 0),
    "sigmoid-100-100-100": ("mlp:100-100-100,sigmoid", 0),
    "relu-100-100": ("mlp:100-100", 0),
    "conv": ("conv", 0),
}
GROUPS = {  # what differs from the first network -> which networks
    "seeds": ("sigmoid-100-100-again",),
    "depths": ("sigmoid-100", "sigmoid-100-100-100"),
    "activations": ("relu-100-100",),
    "a convolution": ("conv",),
}
AMPLIFIED = 0.1


def networks(data: str, out: Path, *, seed: int, device: str, quiet: bool, epochs: int | None = None) -> Basket:
    """The six, trained once into `out/others-1` and `out/others-2` (seed and seed + 1)."""
    homes = {}
    for which in (0, 1):
        folder = out / f"others-{which + 1}"
        specs = [spec for spec, of in NETWORKS.values() if of == which]
        entries = train(specs, data, seeds=[seed + which], out=folder, device=device, quiet=quiet, epochs=epochs)
        homes.update({(entry.spec, which): f"{folder}/{entry.name}" for entry in entries})
    return Basket.open([f"{name}={homes[how]}" for name, how in NETWORKS.items()], device=device)


def tensor(basket: Basket, images: Dataset, count: int, out: Path, *, seed: int, quiet: bool) -> pa.Table:
    """Everybody's distortions of `count` training images shown to everybody, as found and amplified."""
    asked = some_images(images, basket, count, seed, "distortion.others")
    sources = {}
    for name in basket.names:
        found = every_target(basket, name, asked, out, quiet=quiet)
        sources[name] = [found.source(target) for target in TARGETS]
    return transfer(sources, basket, amplifications=(None, AMPLIFIED), image_split="train", seed=seed)


def rows(table: pa.Table, target: str) -> list[Row]:
    """For everything that differs: both ways between the first network and the other, as found and amplified."""
    made = []
    for what, others in GROUPS.items():
        for size in (None, AMPLIFIED):
            how = "" if size is None else f", amplified to RMS {size:g}"
            for source, judge in [pair for other in others for pair in ((FIRST, other), (other, FIRST))]:
                (one,) = select(
                    table, kind="distortion", source=source, judge=judge, target=target, amplification=size,
                    clipped=False,
                )  # fmt: skip
                title = f"Transfer across {what} ({target} target)"
                made.append(share_row(title, f"{source} → {judge}{how}, %", None, one["errors"], one["n"]))
    return made
