"""A walk: every point is drawn and judged, and all are kept. Nothing is optimised (paper 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from foible.basket import Basket
from foible.images import to_bytes, to_floats

ROWS = 256  # points at once


class Walked(NamedTuple):
    """images: uint8 (n, channels, height, width), what was judged. logits: (networks, n, classes). Both on the CPU."""

    images: Tensor
    logits: Tensor


@torch.no_grad()
def walk(
    draw: Callable[[Tensor], Tensor], basket: Basket, points: Tensor, tick: Callable[[int], object] = lambda _: None
) -> Walked:
    """points: (n, …), of which `draw` makes images (n, channels, height, width). They are rounded to what a PNG holds
    before any network sees them."""
    images, logits = [], []
    for some in points.to(basket.device).split(ROWS):
        pixels = to_bytes(draw(some))
        logits.append(basket.judge(to_floats(pixels)).cpu())
        images.append(pixels.cpu())
        tick(len(some))
    return Walked(torch.cat(images), torch.cat(logits, 1))
