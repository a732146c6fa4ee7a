"""Where no gradient leads, a network's answers alone are followed, by `decision`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from foible.basket.matching import Matched
from foible.data import read
from foible.images import to_floats
from foible.recipes.distort.targets import Reached
from foible.search.nearest import Model, Nearest, reached
from foible.search.nearest.decision import Pool

NAME = "decision"
MOST, OF_A_CLASS = 64, 4  # images that a search may begin with: of all classes, or of the one that is asked for


def unsearched(images: Tensor, labels: Tensor, logits: Tensor) -> Reached:
    """Of images (n, *shape) and what is said of them (n, classes): what is wrong already, and the likeliest other
    label."""
    targets = logits.nan_to_num(nan=-torch.inf).scatter(1, labels[:, None], -torch.inf).argmax(1)
    found, none = reached(logits, labels), torch.zeros_like(labels)
    zero = torch.zeros(len(images), device=images.device)
    return Reached(images.clone(), targets, found, torch.zeros_like(found), zero, zero - torch.inf, none, none.clone())


def nowhere(images: Tensor, labels: Tensor, _: Tensor | None) -> Nearest:
    """The method of a network without a gradient: it finds nothing, at no cost."""
    no, none = torch.zeros_like(labels, dtype=torch.bool), torch.zeros_like(labels)
    return Nearest(images, no, no.clone(), none, none.clone())


def begun(method: Callable[..., Nearest], pool: Callable[[Tensor | None], Pool]) -> Callable[..., Nearest]:
    """The method, given images to begin with where it takes `pool`."""
    if "pool" not in inspect.signature(method).parameters:
        return method

    @wraps(method)
    def begins(*given: Any, targets: Tensor | None = None, **more: Any) -> Nearest:
        return method(*given, targets=targets, pool=pool(targets), **more)

    return begins


def pool_of(matched: Matched, model: Model, device: torch.device, targets: Tensor | None) -> Pool:
    """Images of the data that searches may begin with: some, or some of each of these targets. What they are is their
    label or, without labels, what the model says. Which are taken hangs on nothing but the data and the target."""
    labels = matched.labels[matched.index]
    labelled = bool((labels >= 0).any())
    if targets is None or not labelled:
        places = _spread(matched.index, MOST)
    else:
        of_each = [matched.index[labels == one] for one in targets.unique().tolist()]
        places = torch.cat([_spread(index, OF_A_CLASS) for index in of_each])
    seen = read(matched.data, places, [matched.canvas])
    images = to_floats(seen.images[0].to(device))
    if labelled:
        return images, matched.labels[seen.index].to(device)
    with torch.no_grad():
        return images, model(images).argmax(1)


def _spread(index: Tensor, most: int) -> Tensor:
    """At most so many of them, evenly."""
    return index if len(index) <= most else index[torch.linspace(0, len(index) - 1, most).long()]
