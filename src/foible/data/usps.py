"""USPS: postal digits of 16×16, as text rows of a label and 256 values in [-1, 1]."""

from __future__ import annotations

import io

import numpy as np
import torch

from foible.data.catalogue import KNOWN, missing
from foible.data.dataset import Dataset, check_labels
from foible.data.files import Unpacked
from foible.data.places import first_file
from foible.errors import UserError


def load_usps(spec: str, argument: str, split: str, quiet: bool) -> Dataset:
    """`usps`: 7,291 and 2,007 grey images; -1 (paper) becomes 0 and 1 (ink) becomes 255."""
    del argument, quiet
    known = KNOWN["usps"]
    folder = known.find()
    if folder is None:
        raise missing("usps")
    path = first_file(folder, (f"zip.{split}.gz", f"zip.{split}"))
    if path is None:
        raise UserError(f"{folder} holds neither zip.{split}.gz nor zip.{split}: put one of them there")
    with Unpacked(path) as file:
        text = file.rest()
    if not text.strip():
        raise UserError(f"{path} is empty: fetch or copy the file again")
    try:
        table = np.loadtxt(io.BytesIO(text), dtype=np.float32, ndmin=2)
    except ValueError as error:
        raise UserError(
            f"{path} cannot be read: {error}; expected rows of a digit and 256 numbers. Fetch the file again"
        ) from error
    if table.shape[1] != 257:
        raise UserError(f"{path} has {table.shape[1]} numbers a row: expected 257, a digit and 256 values")
    labels, values = table[:, 0], table[:, 1:]
    wrong = np.flatnonzero(~((values >= -1) & (values <= 1)).all(1) | (labels != np.floor(labels)))
    if len(wrong):
        raise UserError(f"{path}: row {wrong[0]} is not a whole digit and 256 values in [-1, 1]: fetch it again")
    whole = labels.astype(np.int64)
    check_labels(whole, 10, str(path))
    pixels = np.rint((values + 1) * 127.5).astype(np.uint8).reshape(-1, 1, 16, 16)
    return Dataset(spec, split, torch.from_numpy(pixels), torch.from_numpy(whole), known.classes)
