"""What people say of images: counts (images, classes), such as those of CIFAR-10H (Peterson et al. 2019)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foible.data.places import candidates, first_file, looked_in
from foible.errors import UserError

NAME = "cifar10h"
FILE = "cifar10h-counts.npy"  # (10000, 10), in the order of CIFAR-10's test images; CC BY-NC-SA 4.0
ADVICE = (
    f"put {FILE} of https://github.com/jcpeterson/cifar-10h into a folder {NAME} there, or give a file of counts "
    "(images, classes) with --set people=FILE.npy"
)

Ints = NDArray[np.int64]


def read_people(file: str, images: int, classes: int) -> Ints:
    """(images, classes) how many people chose each class, of a NumPy file; without one, those of CIFAR-10H."""
    place = Path(file) if file else next(filter(None, (first_file(one, [FILE]) for one in candidates(NAME))), None)
    if place is None:
        raise UserError(f"there is no {FILE} in {looked_in()}: {ADVICE}")
    try:
        counts = np.load(place, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{place} cannot be read as a NumPy array ({error}): {ADVICE}") from error
    if not isinstance(counts, np.ndarray) or counts.shape != (images, classes):
        shape = getattr(counts, "shape", "no array")
        raise UserError(f"{place} has shape {shape}: expected {(images, classes)}, a row for each image; {ADVICE}")
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise UserError(f"{place} holds {counts.dtype} or less than 0: expected how many people chose each class")
    return counts.astype(np.int64)


def majority(counts: Ints) -> Ints:
    """(images,) the class that most people chose; -1 where two share the first place, or nobody chose any."""
    most = counts.max(1)
    return np.where(((counts == most[:, None]).sum(1) == 1) & (most > 0), counts.argmax(1), -1)
