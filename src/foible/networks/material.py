"""The images that a fleet learns from and is tested on, on the device: batches of them, and the share it gets right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.networks.fleet import Fleet
from foible.networks.preprocess import Preprocess

GATHERED = 2**27  # pixels at most of images that are gathered for each member, at a time


@dataclass(frozen=True, eq=False)
class Material:
    """The data, on the device. images: uint8 (n, channels, height, width); labels: (n,).

    soft: (n, classes), a distribution for each image, which is learnt in place of its label.
    """

    images: Tensor
    labels: Tensor
    test: tuple[Tensor, Tensor] | None
    classes: int
    soft: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.images.shape[1:]
        return channels, height, width


def batches(
    material: Material,
    index: Tensor,
    preprocess: Preprocess,
    change: Callable[[Tensor], Tensor] = lambda images: images,
) -> tuple[Tensor, Tensor]:
    """Each member's images (K, batch, channels, height, width), preprocessed, and labels (K, batch) or distributions
    (K, batch, classes); `index` is (K, batch).

    `change` is done to all of them, (K * batch, channels, height, width) in [0, 1], before.
    """
    flat = index.reshape(-1)
    images = preprocess(change(material.images.index_select(0, flat).to(torch.float32) / 255))
    labels = (material.labels if material.soft is None else material.soft).index_select(0, flat)
    return images.view(*index.shape, *images.shape[1:]), labels.view(*index.shape, *labels.shape[1:])


def accuracies(
    fleet: Fleet, images: Tensor, labels: Tensor, preprocess: Preprocess, *, rough: bool = False
) -> list[float]:
    """The share of images that each member gets right. rough: a GPU may round as in training."""
    return [count / len(images) for count in rights(fleet, images, labels, preprocess, rough=rough)]


def rights(
    fleet: Fleet, images: Tensor, labels: Tensor, preprocess: Preprocess,
    *, rough: bool = False, own: Tensor | None = None,
) -> list[int]:  # fmt: skip
    """How many images each member gets right: of all, or of its own, whose numbers are `own` (K, n)."""
    right = torch.zeros(len(fleet.seeds), dtype=torch.long, device=fleet.device)
    for some, logits in _asked(fleet, images, preprocess, rough=rough, own=own):
        right += (logits.argmax(2) == labels[some]).sum(1)
    counts: list[int] = right.tolist()
    return counts


def margins(fleet: Fleet, images: Tensor, labels: Tensor, preprocess: Preprocess) -> tuple[list[int], Tensor]:
    """How many images each member gets right, and its margins (K, n): how far its logit of the true class is above its
    largest other."""
    right, found = torch.zeros(len(fleet.seeds), dtype=torch.long, device=fleet.device), list[Tensor]()
    for some, logits in _asked(fleet, images, preprocess):
        right += (logits.argmax(2) == labels[some]).sum(1)
        truth = labels[some].expand(len(logits), -1).unsqueeze(2)
        found.append((logits.gather(2, truth) - logits.scatter(2, truth, -math.inf).amax(2, keepdim=True)).squeeze(2))
    return right.tolist(), torch.cat(found, 1)


def answers(fleet: Fleet, images: Tensor, preprocess: Preprocess) -> Tensor:
    """Logits (K, n, classes) of all members for images, uint8 (n, channels, height, width) on the device."""
    return torch.cat([logits for _, logits in _asked(fleet, images, preprocess)], 1)


def _asked(
    fleet: Fleet, images: Tensor, preprocess: Preprocess, *, rough: bool = False, own: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The numbers of some images, (some of n,) or of each member's own (K, some of n), and the logits (K, some of n,
    classes), in batches that suit the size of the fleet."""
    numbers, most = torch.arange(len(images), device=images.device) if own is None else own, fleet.rows_at_once
    if own is not None:
        most = min(most, max(1, GATHERED // (len(own) * images[0].numel())))
    for some in numbers.split(most, -1):
        pixels = preprocess(images.index_select(0, some.flatten()).to(torch.float32) / 255)
        yield some, fleet.predict(pixels.unflatten(0, some.shape), rough=rough)
