"""`foible study frozen-features`: paper 3, Fig. 6, at our size.

The paper's features were learnt without labels (QuocNet); a binary classifier, car or not, was trained on top of them
without touching them, and images of cars were distorted until it no longer saw one. Here a sparse autoencoder's
features stand below one logit, and test images that it gets right are distorted as little as will do, both ways:
images of the class until it is not seen, and others until it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.randomness import normals, uniforms
from foible.studies.common import Result, Row, data_for, mean_row, share_row
from foible.studies.intriguing.distortion.targets import distorted
from foible.studies.intriguing.frozen_features import figures as frozen_figures
from foible.studies.intriguing.networks.autoencoder import Sparse
from foible.studies.intriguing.networks.binary import DECAY, DIVISOR, class_of, one_against_rest
from foible.transfer import from_findings, rms
from foible.transfer.sources import found_in

IMAGES = {"quick": 100, "paper": 1000}  # of each kind


@dataclass(frozen=True, eq=False)
class Flipped:
    """Test images of one kind that the classifier got right, and what became of them.

    asked: how many of the kind there were to look at; origins, images: (n, channels, height, width) in [0, 1];
    found: (n,) bool, whether the answer changed; held: (n,), and did so on pixels of 8 bits.
    """

    kind: str
    asked: int
    origins: Tensor
    images: Tensor
    found: Tensor
    held: Tensor

    @property
    def sizes(self) -> Tensor:
        """(n,): root of the mean squared change over pixels."""
        return rms(self.images - self.origins)


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    label: str | None = None,
    units: int = 400,
    images: int | None = None,
) -> Result:
    """label: the class to tell from the rest (default: cars where the data has them, else the class in the middle).
    units: features of the autoencoder. images: how many test images of each kind are distorted, at most."""
    if basket is not None:
        raise UserError("the study frozen-features trains its own network, without labels first: leave --basket away")
    source, count = data_for(data, scale), IMAGES[scale] if images is None else images
    if count < 1:
        raise UserError(f"images is {count}: expected at least 1")
    training, test = load(source, "train", quiet=quiet), load(source, "test", quiet=quiet)
    chosen = class_of(label, training)
    name = training.classes[chosen]
    if name not in test.classes:
        raise UserError(f"{name!r} is no class of the test split of {source}: give another with --set label=NAME")
    network = one_against_rest(
        training, test, chosen, out, units=units, scale=scale, seed=seed, device=device, quiet=quiet
    )
    truth = (test.labels == test.classes.index(name)).long()
    right = network.predict(test.images)[0].argmax(1) == truth
    result = Result("frozen-features", scale, _settings(source, name, units, count, len(training), network), seed)
    result.rows += _classifier_rows(name, truth, right)
    kinds = {1: f"images of {name!r} until it is not seen", 0: f"other images until {name!r} is seen"}
    task = replace(test, labels=truth, classes=network.classes)
    found = [flipped(network, task, right, wanted, kind, count, out, seed, quiet) for wanted, kind in kinds.items()]
    for one, paper in zip(found, (100.0, None), strict=True):
        result.rows += _distorted_rows(network, one, paper, seed)
    result.notes += _remarks(found, source)
    shown = [one for one in found if bool(one.found.any())]
    if shown:
        result.figures.append(frozen_figures.figure6(shown, name, out))
    result.figures.append(frozen_figures.filters(network, out))
    return result


def flipped(
    network: Basket, test: Dataset, right: Tensor, wanted: int, kind: str, count: int, out: Path, seed: int, quiet: bool
) -> Flipped:
    """Some test images whose label is `wanted` and that the network gets right (n,), drawn by the seed, each with the
    nearest image that it calls the other thing."""
    of_kind = (test.labels == wanted).nonzero()[:, 0]
    drawn = uniforms(seed, of_kind, stream="frozen-features.images", count=1)[:, 0].argsort(stable=True)
    rows, name = of_kind[drawn[:count]], network.names[0]
    if not bool(right[rows].any()):
        nothing, none = test.floats(rows[:0]), torch.zeros(0, dtype=torch.bool)
        return Flipped(kind, len(rows), nothing, nothing, none, none)
    run = distorted(
        network, name, test, out, target="any", places=rows.tolist(), split=test.split, workers=1, quiet=quiet
    )
    (one,) = from_findings(run)[name]
    held = torch.tensor([outcome == "found" for outcome in run.column("outcome")])
    return Flipped(kind, len(rows), one.origins, one.images, found_in(run.table), held)


def _classifier_rows(name: str, truth: Tensor, right: Tensor) -> list[Row]:
    table, of_class = "The classifier, test images", truth == 1
    return [
        share_row(table, "accuracy, %", None, int(right.sum()), len(right)),
        share_row(table, f"images of {name!r} recognised, %", None, int(right[of_class].sum()), int(of_class.sum())),
        share_row(table, f"others taken for {name!r}, %", None, int((~right)[~of_class].sum()), int((~of_class).sum())),
    ]


def _distorted_rows(network: Basket, one: Flipped, paper: float | None, seed: int) -> list[Row]:
    """How many flipped, how far, whether rounding to 8 bits undoes it, and what noise of the same size does."""
    table = f"Distorted: {one.kind}"
    n, sizes = len(one.found), one.sizes
    rows = [
        share_row(table, "flipped, %", paper, int(one.found.sum()), n),
        mean_row(table, "RMS of the change", None, sizes[one.found].tolist(), least=0),
    ]
    if not n:
        return rows
    before = network.predict(one.origins)[0].argmax(1)
    noise = normals(seed, torch.arange(n), stream="frozen-features.noise", count=one.origins[0].numel())
    noisy = one.origins + sizes.view(-1, 1, 1, 1) * noise.view_as(one.origins)
    changed = {
        "still flipped once rounded to 8 bits, %": one.held,
        "flipped by Gaussian noise of the same size, %": network.predict(noisy)[0].argmax(1) != before,
    }
    return rows + [
        share_row(table, what, None, int((flips & one.found).sum()), int(one.found.sum()))
        for what, flips in changed.items()
    ]


def _settings(source: str, name: str, units: int, count: int, rows: int, network: Basket) -> dict[str, Any]:
    return {
        "data": source,
        "class": f"{name!r} against the rest",
        "features": f"{units} sigmoid features of a sparse autoencoder, learnt from training images without labels",
        "sparse autoencoder": vars(Sparse()),
        "classifier": f"one logit on the frozen features, logistic regression, λ Σw²/{DIVISOR:g}, λ = {DECAY:g}",
        "images": f"up to {count} test images of each kind, drawn by the seed, of which those that it gets right",
        "method": "closest, L2, within [0, 1]",
        "network": network.names[0],
        "training images": rows,
    }


def _remarks(found: list[Flipped], source: str) -> list[str]:
    words = [
        "Paper: every image of a car that was recognised could be changed until it was not; it gives no number.",
        f"Features of {source} by an autoencoder of one layer, not QuocNet: what is repeated is that features which "
        "never saw a label do not protect a classifier on top of them.",
    ]
    for one in found:
        if one.asked > len(one.found):
            words.append(f"{one.kind}: {one.asked - len(one.found)} of {one.asked} were wrong before, and left out.")
    return words
