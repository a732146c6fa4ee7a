"""Networks of fully connected layers. Each is an `nn.Sequential`, which a fleet trains as grouped matmuls."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn

Shape = tuple[int, int, int]


def softmax(shape: Shape, classes: int) -> nn.Sequential:
    """Paper 3's "softmax": one linear layer on the pixels."""
    return mlp(shape, classes, ())


def mlp(shape: Shape, classes: int, widths: Sequence[int], activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Hidden layers of `widths` units. Paper 1: 10 to 50 units; paper 3: 100-100 and 200-200, sigmoid."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    before = math.prod(shape)
    for number, width in enumerate(widths, 1):
        layers[f"hidden{number}"] = nn.Linear(before, width)
        layers[f"activation{number}"] = activation()
        before = width
    layers["output"] = nn.Linear(before, classes)
    return nn.Sequential(layers)


def autoencoder_softmax(shape: Shape, classes: int, units: int) -> nn.Sequential:
    """Paper 3's AE400-10: a sparse autoencoder's sigmoid features, frozen, and softmax on top."""
    encoder = nn.Linear(math.prod(shape), units).requires_grad_(False)
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), encoder=encoder, activation=nn.Sigmoid(), output=nn.Linear(units, classes))
    )


class Autoencoder(nn.Module):
    """What `autoencoder_softmax` learns first; its encoder is handed on.

    Gives the logits of the pixels (n, pixels) and the features (n, units) in (0, 1).
    """

    def __init__(self, shape: Shape, units: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(math.prod(shape), units)
        self.decoder = nn.Linear(units, math.prod(shape))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encoder(images.flatten(1)).sigmoid()
        return self.decoder(features), features
