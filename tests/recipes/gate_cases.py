"""Networks that are tables of answers, and images that are numbers: every count of a suite and a gate is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from foible import Basket
from foible.recipes.compare.recipe import compare

CLASSES = ("ant", "bee", "cow")
NAN = -1


class Table(nn.Module):
    """Says `said[k]` of image k, whose number stands in its first two pixels."""

    def __init__(self, said: list[int], classes: int = len(CLASSES)) -> None:
        super().__init__()
        self.classes = classes
        self.said: Tensor
        self.register_buffer("said", torch.tensor(said))

    def forward(self, images: Tensor) -> Tensor:
        pixels = (images[:, 0, 0, :2] * 255).round().long()
        said = self.said[pixels[:, 0] + 256 * pixels[:, 1]]
        logits = nn.functional.one_hot(said.clamp_min(0), self.classes) * 4.0
        return torch.where((said < 0)[:, None], torch.nan, logits)


def write_data(file: Path, labels: list[int], classes: tuple[str, ...] = CLASSES, side: int = 4) -> str:
    """An npz data set of numbered images; its spec."""
    number = np.arange(len(labels))
    images = np.zeros((len(labels), 1, side, side), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 0, 1] = number % 256, number // 256
    np.savez(file, images=images, labels=np.array(labels), classes=np.array(classes))
    return f"npz:{file}"


def tables(classes: Any = CLASSES, **said: list[int]) -> Basket:
    """A basket of tables, by name."""
    known = {name: len(classes[name] if isinstance(classes, dict) else classes) for name in said}
    networks = {name: Table(answers, known[name]) for name, answers in said.items()}
    return Basket(networks, classes=classes, preprocess="inside")


def wrong(labels: list[int], *places: range) -> list[int]:
    """The labels, with another class at these places."""
    answers = list(labels)
    for place in (one for some in places for one in some):
        answers[place] = (answers[place] + 1) % len(CLASSES)
    return answers


LABELS = [k % 3 for k in range(300)]
OLD = wrong(LABELS, range(30, 50), range(200, 206))  # 26 mistakes
NEW = wrong(LABELS, range(60, 75), range(200, 206))  # 15 broken, 20 fixed; both wrong and of one mind at 200–205
PEER = wrong(LABELS, range(100, 109), range(200, 206))  # 9 that it alone gets wrong


def compared(folder: Path, labels: list[int] = LABELS, **said: list[int]) -> Path:
    """A finished compare of tables (OLD, PEER and NEW, if none are given)."""
    folder.mkdir(parents=True, exist_ok=True)
    data = write_data(folder / "data.npz", labels)
    networks = tables(**(said or {"old": OLD, "peer": PEER, "new": NEW}))
    compare(networks, data, out=folder / "run", split="train", unit=64, quiet=True)
    return folder / "run"
