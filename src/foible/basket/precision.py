"""Float32 that is float32, and how much of it is noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from foible.basket.basket import Basket

LOOKED_AT = 64  # images that noise is measured on
TIMES = 4  # the noise that was seen is less than the noise that there is


def real_float32() -> None:
    """From here on this process computes in float32 where it says so. By default PyTorch lets convolutions on a GPU
    round their factors to 10 bits (TF32), and what is found so does not hold elsewhere."""
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


@torch.no_grad()
def apart(ask: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """How far apart logits (…, n, classes) of the same images lie that are asked in other batches and in another order:
    a GPU adds up in another order for another size. images: (n, channels, height, width) in [0, 1]; a few of them are
    looked at."""
    some = images[:LOOKED_AT]
    whole = ask(some)
    parts = [ask(part) for part in some.split((len(some) + 2) // 3)]
    turned = ask(some.flip(0)).flip(-2)
    both = torch.stack([whole - torch.cat(parts, -2), whole - turned]).abs().amax(0)
    return TIMES * both.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def noise(basket: Basket, images: Tensor, names: Sequence[str]) -> float:
    """How far apart logits of these networks lie, by how the images are asked about."""
    return 0.0 if len(images) < 2 else float(apart(lambda some: basket.judge(some, names), images).max())
