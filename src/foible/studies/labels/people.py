"""What people say of images: counts (images, classes), such as those of CIFAR-10H (Peterson et al. 2019)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from foible.data.places import candidates, first_file, looked_in
from foible.errors import UserError

NAME = "cifar10h"
FILE = "cifar10h-counts.npy"  # (10000, 10), in the order of CIFAR-10's test images; CC BY-NC-SA 4.0
ADVICE = (
    f"put {FILE} of https://github.com/jcpeterson/cifar-10h into a folder {NAME} there, or give a file of counts "
    "(images, classes) with --set people=FILE.npy"
)

LEAST = 30  # images from which on agreement with the labels is looked at
ALIKE = 0.2  # the least κ of people and labels

Ints = NDArray[np.int64]


def read_people(file: str, labels: Tensor, classes: int) -> Ints:
    """(images, classes) how many people chose each class, of a NumPy file; without one, those of CIFAR-10H. People who
    agree with the labels (images,) hardly more often than chance would have it have seen other images."""
    place = Path(file) if file else next(filter(None, (first_file(one, [FILE]) for one in candidates(NAME))), None)
    if place is None:
        raise UserError(f"there is no {FILE} in {looked_in()}: {ADVICE}")
    try:
        counts = np.load(place, allow_pickle=False)
    except OSError as error:
        raise UserError(f"{place} cannot be read ({error.strerror or error}): {ADVICE}") from error
    except (ValueError, EOFError) as error:  # NumPy's own words advise to load pickles
        raise UserError(f"{place} is no NumPy array of numbers: {ADVICE}") from error
    wanted = (len(labels), classes)
    if not isinstance(counts, np.ndarray) or counts.shape != wanted:
        shape = getattr(counts, "shape", "no array")
        raise UserError(f"{place} has shape {shape}: expected {wanted}, a row for each image; {ADVICE}")
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise UserError(f"{place} holds {counts.dtype} or less than 0: expected how many people chose each class")
    found = counts.astype(np.int64)
    most, truth = majority(found), labels.cpu().numpy()
    known = (most >= 0) & (truth >= 0)
    agree, chance = _agreement(most[known], truth[known], classes)
    if known.sum() >= LEAST and agree - chance < ALIKE * (1 - chance):
        raise UserError(
            f"{place}: what most people say is the label of {agree:.0%} of the images, and chance alone would give "
            f"{chance:.0%}: its rows are of other images, or its columns in another order than the data's classes"
        )
    return found


def _agreement(one: Ints, other: Ints, classes: int) -> tuple[float, float]:
    """How often two judges agree, and how often they would by chance."""
    if not len(one):
        return 0.0, 0.0
    shares = [np.bincount(judge, minlength=classes) / len(judge) for judge in (one, other)]
    return float((one == other).mean()), float(shares[0] @ shares[1])


def majority(counts: Ints) -> Ints:
    """(images,) the class that most people chose; -1 where two share the first place, or nobody chose any."""
    most = counts.max(1)
    return np.where(((counts == most[:, None]).sum(1) == 1) & (most > 0), counts.argmax(1), -1)
