"""Distorted images on 8 bits, held firmly: what is found must not hang on the last bits of a float32 sum.

The nearest image of another label lies on a boundary, and a network's answer there can change with the size of the
batch. Found means by more than `FIRM` of the largest logit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from foible.basket import Budget
from foible.images import settle
from foible.recipes.distort.targets import FIRM, Reached
from foible.search.nearest import Model, Nearest, margin, reached
from foible.search.nearest.lattice import on_lattice

FURTHER = (
    1.0001,
    1.001,
    1.002,
    1.005,
    1.01,
    1.02,
    1.05,
    1.1,
    1.2,
)  # times the distortion, where the nearest is not firm


def firmly(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """(n,) bool: whether logits (n, classes) say what is asked for by more than rounding errors."""
    held = margin(logits, labels, targets) > FIRM * logits.abs().amax(1).clamp_min(1)
    return held & reached(logits, labels, targets)


def settled(
    model: Model, origins: Tensor, exact: Reached, labels: Tensor, *, norm: str, lattice: bool, budget: Budget
) -> Nearest:
    """The nearest images that 8 bits can hold, and what it cost to get there; without `lattice`, each one rounded.

    origins: (n, channels, height, width), of whole levels of 8 bits.
    """
    none = torch.zeros_like(exact.forwards)
    made = Nearest(settle(exact.images), exact.found, exact.invalid, none, none.clone())
    rows = (exact.found & (exact.distance > 0)).nonzero()[:, 0]
    if not lattice or not len(rows):
        return made
    some = Nearest(*(field[rows] for field in vars(made).values()))
    targets = None if exact.targets is None else exact.targets[rows]
    better = on_lattice(
        model, origins[rows], replace(some, images=exact.images[rows]), labels[rows], targets=targets, norm=norm,
        budget=budget,
    )  # fmt: skip
    images, more = firmer(model, origins[rows], exact.images[rows], better.images, labels[rows], targets, settle)
    better = replace(better, images=images, forwards=better.forwards + more)
    fields = zip(vars(made).items(), vars(better).values(), strict=True)
    return Nearest(**{name: old.index_copy(0, rows, new) for (name, old), new in fields})


@torch.no_grad()
def firmer(
    model: Model,
    start: Tensor,
    exact: Tensor,
    nearest: Tensor,
    labels: Tensor,
    targets: Tensor | None,
    finish: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """`nearest` (n, …), but where it holds by less than a rounding error, or not at all, a little further along the way
    from `start` to `exact`, as `finish` makes it; and the forward passes (n,) that it took."""
    images, forwards = nearest.clone(), torch.ones_like(labels)
    weak = (~firmly(model(images), labels, targets)).nonzero()[:, 0]
    for factor in FURTHER:
        if not len(weak):
            break
        tried = finish(start[weak] + factor * (exact[weak] - start[weak]))
        holds = firmly(model(tried), labels[weak], None if targets is None else targets[weak])
        forwards[weak] += 1
        images[weak[holds]] = tried[holds]
        weak = weak[~holds]
    return images, forwards
