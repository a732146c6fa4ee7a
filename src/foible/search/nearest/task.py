"""What the methods for minimal distortions share: what is asked of them, and what they give back.

A method is a plain function

    method(model, images, labels, *, targets=None, low=0.0, high=1.0, budget=None, tick=None, ...) -> Nearest

model: (n, *shape) -> logits (n, classes), differentiable. images: (n, *shape) floats within [low, high].
targets: (n,) classes to reach; without them the class to leave is `labels` (n,). Rows never touch: what becomes of one
does not depend on its batch-mates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

Model = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Nearest:
    """What became of n images. Costs are per row: a gradient is one forward and one backward, a Jacobian of k rows one
    forward and k backwards."""

    images: Tensor  # (n, *shape) in the box: the nearest image that was found; else the one that came closest to it
    found: Tensor  # (n,) bool: the model says what was asked for
    invalid: Tensor  # (n,) bool: the model answered with NaN or infinity, and nothing was found
    forwards: Tensor  # (n,) int64
    backwards: Tensor  # (n,) int64


def join(parts: Sequence[Nearest]) -> Nearest:
    """What became of the images of all parts, in their order."""
    return Nearest(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Nearest)))


def margin(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """(n,): above 0 exactly where logits (n, classes) say what is asked for. The target's logit less the largest other;
    untargeted, the largest other less the label's."""
    aim = labels if targets is None else targets
    held = logits.gather(1, aim[:, None])[:, 0]
    others = logits.scatter(1, aim[:, None], -torch.inf).amax(1)
    return others - held if targets is None else held - others


def reached(logits: Tensor, labels: Tensor, targets: Tensor | None = None) -> Tensor:
    """(n,) bool: whether logits say what is asked for; never where one of them is NaN or infinite."""
    return (margin(logits, labels, targets) > 0) & logits.isfinite().all(1)


def length(difference: Tensor, norm: str = "l2") -> Tensor:
    """(n,): the l2 or linf norm of each row of (n, *shape)."""
    flat = difference.flatten(1)
    return flat.abs().amax(1) if norm == "linf" else flat.norm(dim=1)
