"""Minimal distortions towards every wrong label, and the three readings of "minimal": best, random and worst target.

Paper 3's D(x, l) belongs to a label l; which l its averages are over, it does not say. Each network's distortions are a
run of `foible distort` below the study's folder, so a study that was stopped goes on, and one that is done costs
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.matching import match
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import Findings
from foible.networks.files import FILE
from foible.randomness import integers, uniforms
from foible.recipes.distort.methods import Method, read_method
from foible.recipes.distort.recipe import distort
from foible.runs.record import settings_hash
from foible.studies.intriguing.networks.baskets import records
from foible.transfer import Source, rms
from foible.transfer.sources import READINGS, found_in, one_each, points_in

TARGETS = READINGS
MANY = 5000  # searches from which on it pays to start worker processes


@dataclass(frozen=True, eq=False)
class Asked:
    """Images to distort: those of `data` at `places` (n,). origins: (n, channels, height, width) in [0, 1]; labels:
    (n,); targets: (n, k), the other classes in turn; drawn: (n,), which of the k is the random one."""

    data: Dataset
    places: Tensor
    origins: Tensor
    labels: Tensor
    targets: Tensor
    drawn: Tensor

    def head(self, count: int) -> Asked:
        parts = (self.places, self.origins, self.labels, self.targets, self.drawn)
        return Asked(self.data, *(part[:count] for part in parts))


@dataclass(frozen=True, eq=False)
class Distorted:
    """What became of n images and k targets. images: (n, k, channels, height, width); found: (n, k);
    sizes: (n, k), RMS over the pixels, infinite where nothing was found; gradients: mean a row."""

    asked: Asked
    images: Tensor
    found: Tensor
    sizes: Tensor
    gradients: float

    def taken(self, target: str) -> tuple[Tensor, Tensor, Tensor]:
        """(images (n, …), found (n,), sizes (n,)) at that target."""
        rows, place = torch.arange(len(self.sizes)), one_each(target, self.sizes, self.found, self.asked.drawn)
        return self.images[rows, place], self.found[rows, place], self.sizes[rows, place]

    def source(self, target: str) -> Source:
        """As `foible.transfer` takes it."""
        return Source(self.taken(target)[0], self.asked.origins, self.asked.labels, target=target)

    def found_sizes(self, target: str) -> list[float]:
        """The RMS of those that were found."""
        _, found, sizes = self.taken(target)
        return [float(size) for size in sizes[found]]


def some_images(data: Dataset, basket: Basket, count: int, seed: int, stream: str) -> Asked:
    """`count` images of the data, drawn without order, each with every class but its own as a target."""
    met = match(data, basket)
    order = uniforms(seed, torch.arange(len(met.index)), stream=stream, count=1)[:, 0].argsort(stable=True)
    index = met.index[order[:count]]
    labels, classes = met.labels[index], len(basket.classes)
    others = torch.arange(classes - 1).expand(len(index), -1)
    drawn = integers(seed, torch.arange(len(index)), high=classes - 1, stream=f"{stream}.target", count=1)[:, 0]
    random = (labels + 1 + drawn) % classes
    targets = others + (others >= labels[:, None])
    return Asked(data, index, data.floats(index), labels, targets, random - (random > labels).long())


def learnt_rows(basket: Basket, rows: int) -> int:
    """How many images of the training split, from its beginning, the networks learnt from; all where none says less."""
    if not basket.source or len(basket.source) > 1 or not (Path(basket.source[0]) / FILE).is_file():
        return rows
    said = [one.settings.get("images of the split", rows) for one in records(basket).values()]
    return min([rows, *(number for number in said if isinstance(number, int))])


def first_rows(data: Dataset, rows: int) -> Dataset:
    """The first images of a data set."""
    return data if rows >= len(data) else replace(data, images=data.images[:rows], labels=data.labels[:rows])


def distorted(
    basket: Basket, name: str, data: str | Dataset, out: Path, *, quiet: bool = True, **options: Any
) -> Findings:
    """What `foible distort` finds for one network, in floats: a run in `out/distorted`, named by all it depends on.

    options: of `foible.distort`; `workers` among them.
    """
    how = {"lattice": False, **options}
    known = {**how, "method": read_method(how.get("method", "closest")), "network": basket.fingerprints[name]}
    known |= {"data": data if isinstance(data, str) else data.sha256, "device": basket.device.type, "workers": None}
    folder = out / "distorted" / f"{name}-{settings_hash(known)[:8]}"
    return distort(basket.only([name]), data, source=name, out=folder, quiet=quiet, **how)


def every_target(
    basket: Basket, name: str, asked: Asked, out: Path, *, method: str | Method = "closest", quiet: bool = True
) -> Distorted:
    """Distort every image towards every one of its targets."""
    (n, k), data = asked.targets.shape, asked.data
    many = n * k > MANY and basket.device.type == "cpu"  # worker processes open the data by its name
    found = distorted(
        basket, name, data.name if many else data, out, method=method, target="each", places=asked.places.tolist(),
        wrong=True, split=data.split, workers=None if many else 1, quiet=quiet,
    )  # fmt: skip
    table = found.table
    images, reached = points_in(table, (n * k, *asked.origins.shape[1:])), found_in(table)
    sizes = rms(images - asked.origins.repeat_interleave(k, 0)).masked_fill(~reached, torch.inf)
    spent = torch.tensor(table.column("backwards").to_numpy()).double().mean()
    return Distorted(asked, images.view(n, k, *images.shape[1:]), reached.view(n, k), sizes.view(n, k), float(spent))


def counted(value: int | None, default: int, what: str, most: int) -> int:
    """An option that counts images, checked."""
    number = default if value is None else value
    if number < 1:
        raise UserError(f"{what} is {number}: expected at least 1")
    return min(number, most)
