"""CIFAR-10: the official binary batches, or Parquet as Hugging Face lays it out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from foible.data import parquet
from foible.data.catalogue import KNOWN, missing
from foible.data.dataset import Dataset, check_labels
from foible.data.decoded import gather_once
from foible.data.files import Unpacked
from foible.data.options import Look
from foible.data.places import candidates, first_file
from foible.errors import UserError

RECORD = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes
BATCHES = {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)}


def load_cifar10(spec: str, argument: str, split: str, quiet: bool) -> Dataset:
    """`cifar10`: 50,000 and 10,000 RGB images of 32×32, in the order of the official batches."""
    del argument
    known = KNOWN["cifar10"]
    folder = known.find()
    if folder is None:
        raise _pickles() or missing("cifar10")
    if first_file(folder, (name for names in BATCHES.values() for name in names)) is None:
        pictures = parquet.rows_of(spec, folder, split, how=Look(grey=False), classes=known.classes)
        return gather_once(pictures, sorted(folder.rglob("*.parquet")), quiet)
    records = np.concatenate([_records(folder / name) for name in BATCHES[split]])
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy())
    return Dataset(spec, split, images, torch.from_numpy(records[:, 0].astype(np.int64)), known.classes)


def _records(path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The records of one batch, (n, 3073)."""
    with Unpacked(path) as file:
        body = file.rest()
    if not body or len(body) % RECORD:
        raise UserError(
            f"{path} has {len(body)} bytes: expected a whole number of records of {RECORD} bytes (a label "
            "and 32×32×3 pixels); fetch the file again"
        )
    records = np.frombuffer(body, np.uint8).reshape(-1, RECORD)
    check_labels(records[:, 0].astype(np.int64), 10, str(path))
    return records


def _pickles() -> UserError | None:
    """CIFAR-10's "python version" is pickles. They are not read: unpickling runs whatever the file says."""
    for folder in candidates("cifar10", "cifar10/cifar-10-batches-py", "cifar-10-batches-py"):
        if (folder / "data_batch_1").is_file():
            return UserError(
                f"{folder} holds the python version of CIFAR-10, which is pickles: refused, because "
                "unpickling runs code from the file. Fetch the binary version: foible data get cifar10"
            )
    return None
