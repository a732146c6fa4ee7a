"""What a data set is once it is loaded, and the checks that every source of data shares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from foible.errors import UserError
from foible.images import to_floats
from foible.records import TEXT
from foible.text import shown

SPLITS = ("train", "test")
MOST_CLASSES = 100_000  # a label beyond this is taken for a mistake, not for a class


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled images in memory.

    `name` is the spec as given and `split` is "train" or "test". `images` is uint8 (n, channels, height,
    width) with 1 channel (grey) or 3 (RGB); `labels` is int64 (n,), an index into `classes`. `problems` has
    one line for each file or row that could not be read and was left out, and `notes` one for what else a reader of
    results should know of it.
    """

    name: str
    split: str
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "problems", tuple(self.problems))
        if self.split not in SPLITS:
            raise UserError(f"{self.name}: the split is {self.split!r}: expected 'train' or 'test'")
        shape = tuple(self.images.shape)
        if self.images.dtype != torch.uint8 or len(shape) != 4 or shape[1] not in (1, 3):
            raise UserError(
                f"{self.name}: images are {self.images.dtype} of shape {shape}: expected torch.uint8 of "
                "shape (n, 1 or 3 channels, height, width); for floats in [0, 1] use foible.images.to_bytes"
            )
        if self.labels.dtype != torch.int64 or tuple(self.labels.shape) != shape[:1]:
            raise UserError(
                f"{self.name}: labels are {self.labels.dtype} of shape {tuple(self.labels.shape)}: "
                f"expected torch.int64 of shape ({shape[0]},), one label an image"
            )
        if 0 in shape:
            raise UserError(f"{self.name}: the {self.split} split holds no image (shape {shape})")
        check_classes(self.classes, self.name)
        check_labels(self.labels.numpy(force=True), len(self.classes), self.name)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def files(self) -> None:
        """Images in memory have no files of their own; see `Photographs.files`."""
        return None

    @property
    def sha256(self) -> str:
        """Of images, labels and class names."""
        digest = hashlib.sha256(json.dumps([list(self.images.shape), list(self.classes)]).encode())
        digest.update(self.images.numpy(force=True).tobytes())
        digest.update(self.labels.numpy(force=True).tobytes())
        return digest.hexdigest()

    def floats(self, index: Tensor | slice | None = None) -> Tensor:
        """The images, or those at `index`, as float32 in [0, 1]."""
        return to_floats(self.images if index is None else self.images[index])


def check_classes(classes: Sequence[str], where: str) -> None:
    """Refuse fewer than two class names, and two of the same name: labels meet networks by class name."""
    if len(classes) < 2:
        named = f"one class, {shown(classes[0])!r}" if classes else "no class"
        raise UserError(f"{where} has {named}: expected at least two, or there is nothing to tell apart")
    if len(classes) > MOST_CLASSES:
        raise UserError(f"{where} has {len(classes)} classes: expected at most {MOST_CLASSES}")
    seen: set[str] = set()
    for name in classes:
        if not TEXT.accepts(name):
            raise UserError(f"{where} has a class called {shown(name)!r}: expected {TEXT.expected}, in UTF-8")
        if name in seen:
            raise UserError(f"{where} has two classes called {shown(name)!r}: give each its own name")
        seen.add(name)


def check_labels(labels: npt.NDArray[np.int64], classes: int, where: str) -> None:
    """Refuse a label that names no class, with its row (counted from 0) and the range."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        row = int(wrong[0])
        raise UserError(
            f"{where}: row {row} (counted from 0) has the label {int(labels[row])}: expected 0 to "
            f"{classes - 1} ({classes} classes); {len(wrong)} of {len(labels)} rows are out of range. "
            "Mend or drop those rows"
        )


def numbered_classes(labels: npt.NDArray[np.int64], where: str) -> tuple[str, ...]:
    """Class names "0", "1", ... for integer labels that come without names."""
    if len(labels) == 0:
        return ()
    check_labels(labels, MOST_CLASSES, where)
    return tuple(str(k) for k in range(int(labels.max()) + 1))


def hold_out(labels: npt.NDArray[np.int64], fraction: Fraction) -> npt.NDArray[np.bool_]:
    """Which rows are for testing: `fraction` of each class, evenly spread over the order of the rows.

    A function of the labels alone, so the split is the same everywhere and needs no seed.
    """
    held = np.zeros(len(labels), bool)
    above, below = fraction.numerator, fraction.denominator
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        place = np.arange(len(rows))
        held[rows] = (place + 1) * above // below > place * above // below
    return held


class UnsplitError(UserError):
    """A source that holds one set of images, in which nothing says what is for testing, was asked for its test split.
    What only judges images can take all of them (`open_data`, with `whole`)."""

    def __init__(self, spec: str) -> None:
        super().__init__(
            f"{spec} has no test split: write {with_option(spec, 'test=0.2')} to hold out a fifth of each class, "
            "or give the data as a train and a test part"
        )


def with_option(spec: str, option: str) -> str:
    """The spec with one more option, as the user would write it."""
    return f"{spec}{'&' if '?' in spec else '?'}{option}"
