"""Distorted images on 8 bits, held firmly: what is found must not hang on the last bits of a float32 sum.

The nearest image of another label lies on a boundary, and a network's answer there can change with the size of the
batch. Found means by more than `FIRM` of the largest logit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from foible.basket import Budget
from foible.images import settle
from foible.recipes.distort.targets import FIRM, Reached
from foible.search.nearest import Model, Nearest, margin, reached
from foible.search.nearest.lattice import on_lattice

FURTHER = (1.0001, 1.001, 1.002, 1.005, 1.01, 1.02, 1.05, 1.1, 1.2)  # times the distortion, where it is not firm
MUCH_FURTHER = (*FURTHER, 1.5, 2.0, 3.0)  # where slopes do not lead


def firmly(logits: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
    """(n,) bool: whether logits (n, classes) say what is asked for by more than rounding errors."""
    held = margin(logits, labels, targets) > FIRM * logits.abs().amax(1).clamp_min(1)
    return held & reached(logits, labels, targets)


def settled(
    model: Model,
    origins: Tensor,
    exact: Reached,
    labels: Tensor,
    *,
    norm: str,
    lattice: bool,
    budget: Budget,
    sloped: Tensor,
    askings: int = 1,
) -> Nearest:
    """The nearest images that 8 bits can hold, and what it cost to get there; without `lattice`, each one rounded.

    origins: (n, channels, height, width), of whole levels of 8 bits. sloped: (n,) bool, where slopes may be followed;
    elsewhere what is found is rounded, and taken further until it holds, `askings` times.
    """
    none = torch.zeros_like(exact.forwards)
    made = Nearest(settle(exact.images), exact.found, exact.invalid, none, none.clone())
    rows = (exact.found & (exact.distance > 0)).nonzero()[:, 0]
    if not lattice or not len(rows):
        return made
    smooth, rough = rows[sloped[rows]], rows[~sloped[rows]]
    if len(smooth):
        targets = None if exact.targets is None else exact.targets[smooth]
        some = Nearest(exact.images[smooth], exact.found[smooth], exact.invalid[smooth], none[smooth], none[smooth])
        better = on_lattice(model, origins[smooth], some, labels[smooth], targets=targets, norm=norm, budget=budget)
        fields = zip(vars(made).items(), vars(better).values(), strict=True)
        made = Nearest(**{name: old.index_copy(0, smooth, new) for (name, old), new in fields})
    for part, factors, times in ((smooth, FURTHER, 1), (rough, MUCH_FURTHER, askings)):
        if len(part):
            targets = None if exact.targets is None else exact.targets[part]
            made.images[part], more = firmer(
                model, origins[part], exact.images[part], made.images[part], labels[part], targets, settle,
                factors, times,
            )  # fmt: skip
            made.forwards[part] += more
    return made


@torch.no_grad()
def firmer(
    model: Model,
    start: Tensor,
    exact: Tensor,
    nearest: Tensor,
    labels: Tensor,
    targets: Tensor | None,
    finish: Callable[[Tensor], Tensor],
    factors: Sequence[float] = FURTHER,
    askings: int = 1,
) -> tuple[Tensor, Tensor]:
    """`nearest` (n, …), but where it holds by less than a rounding error, or not at all, a little further along the way
    from `start` to `exact`, as `finish` makes it; and the forward passes (n,) that it took. askings: how often it must
    hold."""
    images, forwards = nearest.clone(), torch.full_like(labels, askings)
    weak = (~_every_time(model, images, labels, targets, askings)).nonzero()[:, 0]
    for factor in factors:
        if not len(weak):
            break
        tried = finish(start[weak] + factor * (exact[weak] - start[weak]))
        holds = _every_time(model, tried, labels[weak], None if targets is None else targets[weak], askings)
        forwards[weak] += askings
        images[weak[holds]] = tried[holds]
        weak = weak[~holds]
    return images, forwards


def _every_time(model: Model, images: Tensor, labels: Tensor, targets: Tensor | None, askings: int) -> Tensor:
    """(n,) bool: whether images are called as asked, firmly, each time."""
    return torch.stack([firmly(model(images), labels, targets) for _ in range(askings)]).all(0)
