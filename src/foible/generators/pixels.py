"""`pixels`: images as their own codes. What lies between two of them is one fading into the other."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from foible.errors import UserError
from foible.generators.base import Shape

PIXELS = "pixels"


class CrossFade:
    """Encodes and draws images of one shape, and knows nothing of them."""

    spec = fingerprint = PIXELS

    def __init__(self, shape: Shape) -> None:
        self.shape, self.latent = shape, math.prod(shape)

    def encode(self, images: Tensor) -> Tensor:
        """(n, *shape) to (n, latent)."""
        return images.flatten(1)

    def decode(self, codes: Tensor) -> Tensor:
        """(n, latent) to (n, *shape) in [0, 1]."""
        return codes.view(-1, *self.shape).clamp(0, 1)

    def to(self, _: str | torch.device) -> CrossFade:
        return self


def open_pixels(shape: Shape | None) -> CrossFade:
    """For images of this shape."""
    if shape is None:
        raise UserError("the generator pixels is for `foible boundary`, where the images say of which shape they are")
    return CrossFade(shape)
