"""The images that a fleet learns from and is tested on, on the device: batches of them, and the share it gets right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.networks.fleet import Fleet
from foible.networks.preprocess import Preprocess


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
    right = torch.zeros(len(fleet.seeds), dtype=torch.long, device=fleet.device)
    start = 0
    for logits in _asked(fleet, images, preprocess, rough=rough):
        right += (logits.argmax(2) == labels[start : start + logits.shape[1]]).sum(1)
        start += logits.shape[1]
    return [count / len(images) for count in right.tolist()]


def answers(fleet: Fleet, images: Tensor, preprocess: Preprocess) -> Tensor:
    """Logits (K, n, classes) of all members for images, uint8 (n, channels, height, width) on the device."""
    return torch.cat(list(_asked(fleet, images, preprocess)), 1)


def _asked(fleet: Fleet, images: Tensor, preprocess: Preprocess, *, rough: bool = False) -> Iterator[Tensor]:
    """Logits (K, some of n, classes), in batches that suit the size of the fleet."""
    for some in images.split(fleet.rows_at_once):
        yield fleet.predict(preprocess(some.to(torch.float32) / 255), rough=rough)
