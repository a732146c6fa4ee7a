"""Networks whose boundaries are known exactly, images near them, and a network that counts what it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.networks.files import Entry, save_basket
from foible.networks.preprocess import Preprocess
from foible.networks.zoo import build
from foible.search.task import Trials

CLASSES = 3
SHAPE = (1, 12, 12)


class Counting(nn.Module):
    """A network that notes how many rows each call had, padding included."""

    calls: list[int]

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.calls = []

    def forward(self, images: Tensor) -> Tensor:
        self.calls.append(len(images))
        answer: Tensor = self.inner(images)
        return answer


def linear_network(seed: int, shape: tuple[int, int, int] = SHAPE, classes: int = CLASSES) -> nn.Module:
    """logits = W x: each class is a blob at its own place, with a tilt that depends on the seed."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(shape[0] * shape[1] * shape[2], classes)
    weight = blobs(classes, shape).flatten(1) + 0.15 * torch.randn(layer.weight.shape, generator=generator)
    layer.load_state_dict({"weight": weight, "bias": torch.zeros(classes)})
    return nn.Sequential(nn.Flatten(), layer)


def blobs(classes: int = CLASSES, shape: tuple[int, int, int] = SHAPE) -> Tensor:
    """(classes, channels, height, width): a bright blob around each class's place on a ring."""
    channels, height, width = shape
    y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    angle = torch.arange(classes) * (2 * torch.pi / classes)
    distance = (x - 0.5 * angle.cos()[:, None, None]) ** 2 + (y - 0.5 * angle.sin()[:, None, None]) ** 2
    return torch.exp(-distance / 0.1)[:, None].repeat(1, channels, 1, 1)


def linear_basket(networks: int = 3, **options: Any) -> Basket:
    """Networks A, B, C, … whose decision boundaries are known planes."""
    members = {chr(ord("A") + i): linear_network(i) for i in range(networks)}
    settings = {"classes": [str(i) for i in range(CLASSES)], "preprocess": "inside", "shape": SHAPE}
    return Basket(members, **(settings | options))


def linear_trials(basket: Basket, count: int) -> Trials:
    """Seed images near class boundaries that all of a `linear_basket` get right."""
    generator = torch.Generator().manual_seed(5)
    labels = torch.arange(8 * count) % CLASSES
    mixed = torch.rand(len(labels), 1, 1, 1, generator=generator) * 0.35
    images = (1 - mixed) * blobs()[labels] + mixed * blobs()[(labels + 1) % CLASSES]
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8)
    right = (basket.predict(pixels).argmax(2) == labels).all(0).nonzero()[:, 0][:count]
    return Trials(torch.arange(len(right)), pixels[right], labels[right])


def write_linear_task(folder: Path) -> tuple[str, str]:
    """The linear basket and the images of `linear_trials` on disk: what opens the basket, and what opens the data."""
    classes = tuple(str(i) for i in range(CLASSES))
    entries = []
    for number, name in enumerate("ABC"):
        module, layer = build("softmax", SHAPE, CLASSES), linear_network(number)[1]  # type: ignore[index]
        module.load_state_dict({f"output.{key}": value for key, value in layer.state_dict().items()})
        entries.append(Entry(name, module, Preprocess(), classes, SHAPE, "softmax"))
    save_basket(folder / "basket", entries)
    trials = linear_trials(linear_basket(), 60)
    images, labels = trials.seeds.numpy(), trials.aims.numpy()
    np.savez(folder / "data.npz", images=images, labels=labels, classes=np.array(classes))
    return str(folder / "basket"), f"npz:{folder / 'data.npz'}"
