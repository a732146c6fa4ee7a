"""Where along a walk from one class to another a network, or a crowd of people, changes its mind, and how suddenly.

    d(α) = logit of the class it begins with − logit of the class it goes to;  p = 1 / (1 + exp(−d))

A flip is the first α at which d falls to 0, straight between two steps; the width is α from p = 0.9 to p = 0.1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from foible.studies.boundary.types import Floats, Ints

SURE = math.log(9.0)  # the logit of p = 0.9


class Walks(NamedTuple):
    """Rows of images by walk and step: place (walks, steps) in the data, ends (walks, 2) classes, alpha (steps,)."""

    place: Ints
    ends: Ints
    alpha: Floats


def walks(pair: Ints, ends: Ints, alpha: Floats) -> Walks:
    """Images (n,) as walks, each from its least α to its largest. All have as many steps."""
    order = np.lexsort((alpha, pair))
    steps = len(order) // len(np.unique(pair))
    place = order.reshape(-1, steps)
    return Walks(place, ends[place[:, 0]], alpha[place[0]])


def crossing(values: Floats, alpha: Floats, level: float) -> Floats:
    """(…): the first α at which values (…, steps) fall from above `level` to it or below, straight between two steps;
    NaN where they begin at or below it, never fall to it, or are no numbers."""
    under = values <= level
    after = under.argmax(-1)
    at = np.maximum(after, 1)[..., None]
    high, low = (np.take_along_axis(values, step, -1)[..., 0] for step in (at - 1, at))
    left, right = alpha[at[..., 0] - 1], alpha[at[..., 0]]
    with np.errstate(invalid="ignore", divide="ignore"):
        found = left + (right - left) * (high - level) / (high - low)
    # The first step that is no number hides what comes after it.
    sound = ~np.isnan(np.where(np.arange(values.shape[-1]) <= at, values, 0)).any(-1)
    return np.asarray(np.where((after > 0) & sound, found, np.nan))


class Sharpness(NamedTuple):
    """(…, walks) each: α of the flip, and from where to where the doubt lasts; NaN where there is none."""

    flip: Floats
    width: Floats


def of_networks(logits: Floats, them: Walks) -> Sharpness:
    """logits: (networks, images, classes)."""
    along = logits[:, them.place]  # (networks, walks, steps, classes)
    rows = np.arange(len(them.place))[:, None]
    steps = np.arange(them.place.shape[1])[None]
    start, end = (along[:, rows, steps, them.ends[:, side][:, None]] for side in (0, 1))
    apart = np.asarray(start - end, np.float64)
    width = crossing(apart, them.alpha, -SURE) - crossing(apart, them.alpha, SURE)
    return Sharpness(crossing(apart, them.alpha, 0.0), width)


def of_people(counts: Ints, them: Walks) -> Sharpness:
    """counts: (images, classes). p is the share of those who chose the first of the two classes, of all who chose
    either; nobody's p is no number."""
    along = counts[them.place]  # (walks, steps, classes)
    start, end = (np.take_along_axis(along, them.ends[:, None, side : side + 1], 2)[..., 0] for side in (0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = start / (start + end)
    width = crossing(share, them.alpha, 0.1) - crossing(share, them.alpha, 0.9)
    return Sharpness(crossing(share, them.alpha, 0.5), width)
