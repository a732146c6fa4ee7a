"""The 2012 AlexNet: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks".

Paper 3's Table 5 is about this network. Five convolutions of 96-256-384-384-256 maps, local response normalisation
after the first two, overlapping pools, two hidden layers of 4096 units with dropout. The original ran on two GPUs,
each with half of the maps, and its second, fourth and fifth convolutions saw one half alone: that is `groups=2`.
Table 5 prints whole convolutions (96×5×5×256), and so does this network unless told otherwise. Ours: He's first
weights, and a smaller first stride where the image has too few pixels for a stride of 4.
"""

from __future__ import annotations

from collections import OrderedDict

import torch.nn.functional as F
from torch import Tensor, nn

from foible.networks.zoo.layers import Dropout

MAPS = (96, 256, 384, 384, 256)  # at width 96
UNITS = 4096
STRIDES = (4, 2, 1)
LEAST = 15  # pixels after the first convolution that still leave one after the three pools
SMALLEST = 21  # height and width of an image that is LEAST pixels after the first convolution at stride 1


class ResponseNorm(nn.Module):
    """Each map by a power of its neighbours' energy: a / (2 + 1e-4 Σ a²)^0.75, over five maps at the same pixel."""

    def __init__(self, maps: int = 5, bias: float = 2.0, scale: float = 1e-4, power: float = 0.75) -> None:
        super().__init__()
        self.maps, self.bias, self.scale, self.power = maps, bias, scale, power

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, maps, height, width), as it comes."""
        beside = self.maps // 2
        squares = F.pad(inputs.square(), (0, 0, 0, 0, beside, beside))
        energy = sum(squares.narrow(1, shift, inputs.shape[1]) for shift in range(self.maps))
        return inputs / (self.bias + self.scale * energy) ** self.power

    def extra_repr(self) -> str:
        return f"{self.maps}, bias={self.bias:g}, scale={self.scale:g}, power={self.power:g}"


def first_stride(height: int, width: int) -> int:
    """4 from 63 pixels on, as in the original; 2 from 35, 1 from 21."""
    return next(stride for stride in STRIDES if min(_after_first(side, stride) for side in (height, width)) >= LEAST)


def alexnet(shape: tuple[int, int, int], classes: int, width: int = 96, groups: int = 1) -> nn.Sequential:
    """width: maps of the first convolution; all other layers in proportion. groups: 2 as on the two GPUs."""
    channels, *sides = shape
    stride = first_stride(*sides)
    maps = [number * width // 96 for number in MAPS]
    units = UNITS * width // 96
    sides = [_after_first(side, stride) for side in sides]
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    before = channels
    for number, after in enumerate(maps, 1):
        size, jump, padding = {1: (11, stride, 2), 2: (5, 1, 2)}.get(number, (3, 1, 1))
        halves = groups if number in (2, 4, 5) else 1
        layers[f"conv{number}"] = nn.Conv2d(before, after, size, jump, padding, groups=halves)
        layers[f"relu{number}"] = nn.ReLU()
        if number <= 2:
            layers[f"norm{number}"] = ResponseNorm()
        if number in (1, 2, 5):
            layers[f"pool{number}"] = nn.MaxPool2d(3, 2)
            sides = [(side - 3) // 2 + 1 for side in sides]
        before = after
    layers["flatten"] = nn.Flatten()
    before *= sides[0] * sides[1]
    for number in (1, 2):
        layers[f"hidden{number}"] = nn.Linear(before, units)
        layers[f"relu{5 + number}"] = nn.ReLU()
        layers[f"dropout{number}"] = Dropout(0.5, units)
        before = units
    layers["output"] = nn.Linear(before, classes)
    for name, layer in layers.items():
        if isinstance(layer, nn.Conv2d | nn.Linear) and not layer.weight.is_meta:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="linear" if name == "output" else "relu")
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return nn.Sequential(layers)


def _after_first(side: int, stride: int) -> int:
    """Pixels along one side after 11×11 with a padding of 2."""
    return (side + 4 - 11) // stride + 1
