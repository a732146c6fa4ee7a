"""The handwritten digits that scikit-learn bundles: the data set that needs no download."""

from __future__ import annotations

import importlib.util
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import interpolate, pad

from foible.data.catalogue import KNOWN
from foible.data.dataset import Dataset, hold_out
from foible.images import to_bytes


def load_digits(spec: str, argument: str, split: str, quiet: bool) -> Dataset:
    """`digits`: 1,797 digits by 13 people (UCI, Alpaydin and Kaynak 1998), every fifth of a class to test.

    The 8×8 originals (0 to 16) are scaled to 20×20 and centred in 28×28, as MNIST is, so that the
    papers' networks fit. Bicubic, because bilinear leaves the corners of the coarse pixels visible.
    """
    del argument, quiet
    coarse, labels = _bundled()
    images = torch.from_numpy(coarse.reshape(-1, 1, 8, 8)).double() / 16
    # With a margin before scaling, strokes that touch the edge of the original fade out instead of being cut.
    images = interpolate(pad(images, (2, 2, 2, 2)), size=(30, 30), mode="bicubic", align_corners=False)
    images = to_bytes(pad(images[:, :, 4:26, 4:26], (3, 3, 3, 3)))  # beyond is only the kernel's ringing
    whole = labels.astype(np.int64)
    held = hold_out(whole, Fraction(1, 5))
    rows = torch.from_numpy(np.flatnonzero(held if split == "test" else ~held))
    return Dataset(spec, split, images[rows], torch.from_numpy(whole)[rows], KNOWN["digits"].classes)


def _bundled() -> tuple[Any, Any]:
    """(1797, 64) values from 0 to 16, and labels. Read from scikit-learn's own file where it stands: to import the
    library takes as long as to import torch."""
    found = importlib.util.find_spec("sklearn")
    file = Path(found.origin or "").parent / "datasets" / "data" / "digits.csv.gz" if found else Path()
    if file.is_file():
        table = np.loadtxt(file, delimiter=",")
        return table[:, :-1], table[:, -1]
    from sklearn.datasets import load_digits as bundled

    coarse, labels = bundled(return_X_y=True)
    return coarse, labels
