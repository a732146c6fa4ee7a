"""Each network's accuracy on the data as it is: what every run opens with.

A network near chance is almost never that bad: its classes or its preprocessing are not those it was trained with.
Before saying so, the usual mistakes are tried on a few images, so that the warning can name the one it looks like.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foible.basket import Basket, padded
from foible.basket.matching import Matched
from foible.data import read
from foible.errors import UserError
from foible.images import to_floats
from foible.statistics import wilson
from foible.text import shown

MOST_CLASSES = 2000  # beyond this many, the table of who is taken for whom is not kept
FOR_AN_ORDER = 5  # images of each class, on average, before another order of classes is believed
FEW = 64  # images that hints are tried on
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass
class Accuracy:
    """Counts of right answers, filled batch by batch."""

    names: tuple[str, ...]
    classes: tuple[str, ...]
    right: Tensor = field(init=False)
    truths: Tensor = field(init=False)  # (classes,) images of each
    confusion: Tensor | None = field(init=False)  # (networks, classes * classes): truth by answer
    seen: int = 0
    advice: dict[str, str] = field(default_factory=dict)  # what the mistake of a network near chance looks like

    def __post_init__(self) -> None:
        self.right = torch.zeros(len(self.names), dtype=torch.int64)
        known = len(self.classes)
        self.truths = torch.zeros(known, dtype=torch.int64)
        few = known <= MOST_CLASSES
        self.confusion = torch.zeros(len(self.names), known * known, dtype=torch.int32) if few else None

    def add(self, said: Tensor, labels: Tensor) -> None:
        """said: (networks, n), -1 for NaN; labels: (n,)."""
        self.right += (said == labels).sum(1)
        self.seen += len(labels)
        self.truths += torch.bincount(labels, minlength=len(self.classes))
        for row, given in enumerate(said if self.confusion is not None else []):
            valid = given >= 0
            pairs = labels[valid] * len(self.classes) + given[valid]
            self.confusion[row].index_add_(0, pairs, torch.ones_like(pairs, dtype=torch.int32))  # type: ignore[index]

    @property
    def chance(self) -> float:
        """What guessing the commonest class would score, or any class at random: the better of the two."""
        return max(float(self.truths.max()) / max(1, self.seen), 1 / len(self.classes))

    @property
    def clearly_above(self) -> float:
        """From where on an accuracy is no longer near chance."""
        return self.chance + 0.1 * (1 - self.chance)

    def rows(self) -> dict[str, dict[str, Any]]:
        """By network: right, n, share with its 95 % interval, chance, and whether it is near chance or, with less than
        half of the best one's right answers, far behind; and `hint`, what its mistake looks like, where `hints` saw."""
        rows = {}
        best = int(self.right.max())
        for name, right in zip(self.names, self.right.tolist(), strict=True):
            low, high = wilson(right, self.seen)
            share = right / max(1, self.seen)
            near = self.seen >= 10 and (low <= self.chance or share <= self.clearly_above)
            rows[name] = {
                "right": right, "n": self.seen, "share": share, "low": low, "high": high,
                "chance": self.chance, "near_chance": near, "far_behind": self.seen >= 10 and 2 * right < best,
                **({"hint": self.advice[name]} if name in self.advice else {}),
            }  # fmt: skip
        return rows

    def reordered(self, name: str) -> float:
        """The accuracy that the best other order of the class list would give; 0 where there are too few images
        to tell: with one of each class some order always fits."""
        from scipy.optimize import linear_sum_assignment  # half a second to load, and few need it

        if self.confusion is None or self.seen < FOR_AN_ORDER * int((self.truths > 0).sum()):
            return 0.0
        counts = self.confusion[self.names.index(name)].view(len(self.classes), -1).numpy()
        rows, columns = linear_sum_assignment(counts, maximize=True)
        return float(counts[rows, columns].sum()) / max(1, self.seen)


def answers(logits: Tensor) -> Tensor:
    """(networks, n) classes said; -1 where an answer is not a number."""
    broken = logits.isnan().any(2) | logits.isposinf().any(2) | logits.isinf().all(2)
    return torch.where(broken, -1, logits.argmax(2))


def suspicious(row: Mapping[str, Any]) -> bool:
    """Whether a network's accuracy, a row of `Accuracy.rows`, looks like a mistake in how it was given."""
    return bool(row["near_chance"] or row.get("far_behind"))


def diagnosis(row: Mapping[str, Any]) -> str:
    """In one line what is wrong with such a network, and what it looks like."""
    where = f"near chance ({100 * row['chance']:.1f} %)" if row["near_chance"] else "far behind the best"
    asked = "are these the classes and preprocessing that it was trained with?"
    return f"{where}: {asked} {row.get('hint', '')}".rstrip()


def diagnoses(clean: Accuracy) -> list[str]:
    """A line for each network that looks wrongly given, for who has no table to say it beside."""
    return [
        f"{name} gets {100 * row['share']:.1f} % of {row['n']} images right, {diagnosis(row)}"
        for name, row in clean.rows().items()
        if suspicious(row)
    ]


def tell(clean: Accuracy, notes: Iterable[str] = ()) -> None:
    """Say it on standard error: a line a network, what was left out, and what looks wrong."""
    lines = [f"  {shown(note)}" for note in notes]
    for name, row in clean.rows().items():
        share = f"{100 * row['share']:.1f} % ({100 * row['low']:.1f}–{100 * row['high']:.1f})"
        lines.append(f"  {shown(name)}: {share}")
        if suspicious(row):
            lines.append(f"    WARNING: {diagnosis(row)}")
    print("\n".join([f"Accuracy on {clean.seen} clean images:", *lines]), file=sys.stderr)


def tell_unreadable(lines: list[str], most: int = 10) -> None:
    """Say which files could not be read, the first few of them by name."""
    if lines:
        said = [
            f"{len(lines)} images could not be read and are left out:",
            *(f"  {shown(line)}" for line in lines[:most]),
        ]
        print("\n".join(said + (["  …, all in unreadable.txt"] if len(lines) > most else [])), file=sys.stderr)


def none_read(data: str, count: int, first: str) -> UserError:
    """The error for data of which not one image could be read; `first` is the first file with its reason."""
    return UserError(f"none of the {count} images of {data!r} could be read: {first}")


@torch.no_grad()
def hints(basket: Basket, clean: Accuracy, images: Tensor, labels: Tensor) -> dict[str, str]:
    """For each network near chance, what its mistake looks like: tried on a few images (uint8) of the canvas. Kept in
    `clean` too."""
    found = {}
    for name, row in clean.rows().items():
        if not suspicious(row):
            continue
        if clean.reordered(name) > max(row["share"] + 0.3, clean.clearly_above):
            found[name] = (
                f"With its classes in another order it would score {100 * clean.reordered(name):.0f} %: give its own "
                "list with classes=FILE."
            )
            continue
        best, option = max(_tried(basket, name, images, labels))
        if best > row["share"] + 0.2 and wilson(round(best * len(labels)), len(labels))[0] > clean.clearly_above:
            found[name] = f"With {option} it gets {100 * best:.0f} % of {len(labels)} images right: was it trained so?"
    clean.advice = found
    return found


def look_closer(basket: Basket, clean: Accuracy, matched: Matched) -> None:
    """`hints` from the first images of the data, where a network needs any."""
    if any(map(suspicious, clean.rows().values())):
        seen = read(matched.data, matched.index[:FEW], [matched.canvas])
        if len(seen.index):
            hints(basket, clean, seen.images[0], matched.labels[seen.index])


def _tried(basket: Basket, name: str, images: Tensor, labels: Tensor) -> Iterable[tuple[float, str]]:
    """(accuracy, option) for the usual other ways to scale pixels, applied on top of plain [0, 1]."""
    floats = padded(to_floats(images.to(basket.device)))
    view = basket.views[name]
    if view is not None:
        floats = torch.nn.functional.interpolate(floats, view.size, mode="bilinear", antialias=True)
    channels = floats.shape[1]
    ways = {"scale=255": floats * 255, "preprocess=inside": floats, "mean=0.5 and std=0.5": floats * 2 - 1}
    if channels == 3:
        mean, std = (torch.tensor(values, device=floats.device).view(3, 1, 1) for values in IMAGENET)
        ways["mean and std of ImageNet"] = (floats - mean) / std
    for option, prepared in ways.items():
        try:
            said = answers(basket.answer(name, prepared)[None, : len(labels)]).cpu()[0]
        except Exception:  # a network that cannot take them has no such mistake
            continue
        yield float(np.mean((said == labels).numpy())), option
    yield 0.0, ""
