"""The images that a fleet learns from and is tested on, on the device: batches of them, and the share it gets right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.networks.fleet import Fleet
from foible.networks.preprocess import Preprocess


@dataclass(frozen=True, eq=False)
class Material:
    """The data, on the device. images: uint8 (n, channels, height, width); labels: (n,)."""

    images: Tensor
    labels: Tensor
    test: tuple[Tensor, Tensor] | None
    classes: int

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
    """Each member's images (K, batch, channels, height, width), preprocessed, and labels; `index` is (K, batch).

    `change` is done to all of them, (K * batch, channels, height, width) in [0, 1], before.
    """
    flat = index.reshape(-1)
    images = preprocess(change(material.images.index_select(0, flat).to(torch.float32) / 255))
    return images.view(*index.shape, *images.shape[1:]), material.labels.index_select(0, flat).view_as(index)


def accuracies(fleet: Fleet, images: Tensor, labels: Tensor, preprocess: Preprocess) -> list[float]:
    """The share of images that each member gets right, in batches that suit the size of the fleet."""
    rows = min(max(8192 // len(fleet.seeds), 64), 1024)
    right = torch.zeros(len(fleet.seeds), dtype=torch.long, device=fleet.device)
    for start in range(0, len(images), rows):
        batch = preprocess(images[start : start + rows].to(torch.float32) / 255)
        right += (fleet.predict(batch).argmax(2) == labels[start : start + rows]).sum(1)
    return [count / len(images) for count in right.tolist()]
