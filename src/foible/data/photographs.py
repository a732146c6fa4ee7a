"""Photographs on disk: listed at opening, decoded when they are read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from foible.data.contents import Ints, Pieces, add_contents
from foible.data.dataset import SPLITS, check_classes, check_labels
from foible.data.decode import MOST_BYTES
from foible.data.names import CHUNK, Names
from foible.data.options import Look
from foible.errors import UserError
from foible.text import shown

__all__ = ["Files", "ImageBytes", "Ints", "Photographs", "photographs_in"]


class ImageBytes(Protocol):
    """Where the encoded images are. Asked from many threads at once."""

    def fetch(self, row: int) -> bytes | None:
        """The bytes of the image file at `row`; None where there are none. May raise OSError or ValueError."""

    def pieces(self) -> Pieces:
        """The parts of files that the images are in."""


@dataclass(frozen=True, eq=False)
class Photographs:
    """Images of any size that stay where they are; `foible.data.read` decodes those that are asked for.

    `name` is the spec as given and `split` "train" or "test". `labels` is int64 (n,), an index into `classes`, or -1
    throughout where nothing is labelled (then `classes` is empty). `files` names each image as the data does, no two
    alike. `sizes` is in bytes, of each image or of the file it is a row of. `problems` has a line for each file that
    was seen at opening to be unusable and was left out, and `notes` one for what else a reader of results should know.
    """

    name: str
    split: str
    labels: Tensor
    classes: tuple[str, ...]
    files: Sequence[str] = field(repr=False)
    sizes: Ints = field(repr=False)
    source: ImageBytes = field(repr=False)
    look: Look = field(default_factory=Look)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        object.__setattr__(self, "problems", tuple(self.problems))
        if self.split not in SPLITS:
            raise UserError(f"{self.name}: the split is {self.split!r}: expected 'train' or 'test'")
        if not len(self.labels) == len(self.files) == len(self.sizes):
            counts = f"{len(self.labels)} labels, {len(self.files)} names and {len(self.sizes)} sizes"
            raise UserError(f"{self.name}: {counts}: expected one of each for an image")
        if not len(self.labels):
            raise UserError(f"{self.name}: the {self.split} split holds no image")
        if self.classes:
            check_classes(self.classes, self.name)
            check_labels(self.labels.numpy(force=True), len(self.classes), self.name)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def channels(self) -> int:
        """Of the images as they are read: 3, or 1 with `?grey=true`."""
        return 1 if self.look.grey else 3

    @cached_property
    def sha256(self) -> str:
        """Of names, sizes, labels, classes, how the images are to come out, and what their files hold.

        Up to 256 MiB in 20,000 files (or members of tar shards, or blocks of Parquet files), any byte that changes
        changes it. Of more, every name and size counts and a sample of the contents: the first and last 64 kB of 256
        files, evenly spread. A file outside the sample that changes and keeps its size is not seen.
        """
        how = [self.channels, self.look.size]
        digest = hashlib.sha256(json.dumps(["photographs", len(self), list(self.classes), how]).encode())
        for start in range(0, len(self), CHUNK):
            names = [name.encode("utf-8", "surrogatepass") for name in self.files[start : start + CHUNK]]
            digest.update(np.array([len(name) for name in names], "<i8").tobytes())
            digest.update(b"".join(names))
        digest.update(self.sizes.astype("<i8").tobytes())
        digest.update(self.labels.numpy(force=True).astype("<i8").tobytes())
        add_contents(digest, self.source.pieces())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Files:
    """Image files below a folder."""

    root: bytes
    names: Names
    sizes: Ints  # in bytes, when they were listed

    def fetch(self, row: int) -> bytes:
        with open(self._path(row), "rb", 0) as file:  # noqa: PTH123 (hot)
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise ValueError(f"has more bytes than the limit of {MOST_BYTES >> 20} MiB")
            return file.readall()

    def pieces(self) -> Pieces:
        return Pieces(self.sizes, lambda row: (self._path(row), 0))

    def _path(self, row: int) -> bytes:
        return os.path.join(self.root, self.names.raw(row))  # noqa: PTH118 (hot)


def photographs_in(
    root: Path, names: Names, sizes: Ints, labels: Ints, *, spec: str, split: str, how: Look,
    classes: Sequence[str], problems: Sequence[str],
) -> Photographs:  # fmt: skip
    """Files below `root`, without those of no bytes (size 0), those that are not there (-1) and those named twice."""
    again = np.zeros(len(names), bool)
    again[names.repeated()] = True
    why = {0: "is empty", -1: "is not there, or cannot be opened"}
    bad = np.flatnonzero((sizes <= 0) | again)
    found = [f"{shown(names[k])}: {why.get(int(sizes[k]), 'is named twice; the first is taken')}" for k in bad.tolist()]
    if len(names) and len(bad) == len(names):
        raise UserError(f"{spec}: none of {len(names)} images could be read; the first: {found[0]}")
    if len(bad):
        rows = np.setdiff1d(np.arange(len(names)), bad)
        names, sizes, labels = names.take(rows), sizes[rows], labels[rows]
    source = Files(os.fsencode(os.path.abspath(root)), names, sizes)  # noqa: PTH100 (does not follow links)
    return Photographs(spec, split, torch.from_numpy(labels), tuple(classes), names, sizes, source, how,
                       (*problems, *found))  # fmt: skip
