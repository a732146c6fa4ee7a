"""Fig. 5's number at full size: the mean minimal distortion of photographs for a network that the user has."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from foible.basket import Basket
from foible.basket.matching import match
from foible.data import open_data, read
from foible.errors import UserError
from foible.images import to_floats
from foible.randomness import uniforms
from foible.search.nearest import Nearest
from foible.studies.intriguing.distortion.figures import Shown
from foible.studies.intriguing.distortion.paper import FIG5_IMAGES
from foible.studies.intriguing.distortion.targets import Method, model_of
from foible.transfer import rms

BATCH = 16


@dataclass(frozen=True, eq=False)
class Photographs:
    """sizes: RMS of each that was found, of `tried` images that the network gets right."""

    network: str
    sizes: list[float]
    tried: int
    shown: Shown


def distort_photographs(
    method: Method, network: str, data: str, *, seed: int, device: str, quiet: bool, count: int = FIG5_IMAGES
) -> Photographs:
    """`count` photographs that the network gets right, each until its label is lost. `data` is read as a test split
    where it has one."""
    photographs = open_data(data, "test", quiet=quiet)
    basket = Basket.open([network], device=device, classes=photographs.classes)
    name, met = basket.names[0], match(photographs, basket)
    order = uniforms(seed, torch.arange(len(met.index)), stream="distortion.photographs", count=1)[:, 0].argsort()
    origins, labels, room = [], [], count
    for part in met.index[order].split(BATCH):
        if not room:
            break
        batch = read(met.data, part, [met.canvas])
        if not len(batch.index):
            continue
        images, truth = to_floats(batch.images[0]), met.labels[batch.index]
        right = (basket.predict(images)[0].argmax(1) == truth).nonzero()[:room, 0]
        origins.append(images[right])
        labels.append(truth[right])
        room -= len(right)
    if room == count:
        raise UserError(f"{name!r} gets no image of {data!r} right: there is nothing to distort; give data of its task")
    done: list[Nearest] = []
    for some, truth in zip(torch.cat(origins).split(BATCH), torch.cat(labels).split(BATCH), strict=True):
        done.append(method(model_of(basket, name), some.to(basket.device), truth.to(basket.device)))
    images, found = torch.cat([one.images.cpu() for one in done]), torch.cat([one.found.cpu() for one in done])
    sizes = rms(images - torch.cat(origins))[found]
    shown = Shown(f"{name}, mean RMS {float(sizes.mean()):.4f}", images[found], torch.cat(origins)[found])
    return Photographs(name, sizes.tolist(), len(found), shown)
