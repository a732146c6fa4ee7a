"""A generator whose answers are known: codes are coordinates along a few orthogonal pictures."""

from __future__ import annotations

import torch
from torch import Tensor

from foible.testing import SHAPE


class Linear:
    """decode(z) = 0.5 + M z, encode its least squares; orthogonal columns, so distances are those of the pixels."""

    spec, fingerprint = "linear", "linear"

    def __init__(self, latent: int = 6, shape: tuple[int, int, int] = SHAPE, seed: int = 0) -> None:
        self.latent, self.shape = latent, shape
        drawn = torch.randn(torch.Size(shape).numel(), latent, generator=torch.Generator().manual_seed(seed))
        self.columns: Tensor = torch.linalg.qr(drawn)[0]

    def encode(self, images: Tensor) -> Tensor:
        return (images.flatten(1) - 0.5) @ self.columns.to(images)

    def decode(self, codes: Tensor) -> Tensor:
        return (0.5 + codes @ self.columns.to(codes).t()).view(-1, *self.shape)

    def to(self, _device: object) -> Linear:
        return self
