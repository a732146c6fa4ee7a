"""The one layer of the zoo that PyTorch has in another form: dropout whose mask can be handed in."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout of `features` units with probability `p`.

    A fleet hands in `noise`, (n, features) of zeros and 1/(1-p), as a buffer: the mask is then a function of
    (network, seed, step), the same alone and in a fleet and after a restart. Without it the layer draws from
    PyTorch's generator like any other.
    """

    noise: Tensor | None

    def __init__(self, p: float, features: int) -> None:
        super().__init__()
        self.p = p
        self.features = features
        self.register_buffer("noise", None, persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training:
            return inputs
        return F.dropout(inputs, self.p) if self.noise is None else inputs * self.noise

    def extra_repr(self) -> str:
        return f"p={self.p}, features={self.features}"
