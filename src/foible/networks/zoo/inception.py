"""GoogLeNet's form for small images: Szegedy et al. 2014, "Going deeper with convolutions" (paper 1, Sec. 4, Fig. 7).

Inception modules with the widths of their Table 1, times `width` / 64, and both auxiliary classifiers. Ours: batch
normalisation after every convolution (the original predates it), and a stem that halves the image once instead of
three times, so that 32×32 pixels reach the last modules as 4×4.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.networks.zoo.layers import Dropout

# Channels at width 64: 1×1 | 3×3 reduce, 3×3 | 5×5 reduce, 5×5 | pool projection.
MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
FORMS = {9: tuple(MODULES), 6: ("3a", "3b", "4a", "4d", "5a", "5b"), 3: ("3a", "4a", "5a")}  # by number of modules
POOLED = ("4a", "5a")  # the image is halved before these


def convolution(before: int, after: int, size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, size, padding=size // 2, bias=False), nn.BatchNorm2d(after), nn.ReLU()
    )


class Module(nn.Module):
    """One Inception module (Fig. 7, top): four branches of the same pixels, side by side in depth."""

    def __init__(self, before: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        one, reduce3, three, reduce5, five, pool = widths
        self.one = convolution(before, one, 1)
        self.three = nn.Sequential(convolution(before, reduce3, 1), convolution(reduce3, three, 3))
        self.five = nn.Sequential(convolution(before, reduce5, 1), convolution(reduce5, five, 5))
        self.pool = convolution(before, pool, 1)
        self.after = one + three + five + pool

    def forward(self, inputs: Tensor) -> Tensor:
        pooled = self.pool(F.max_pool2d(inputs, 3, 1, padding=1))
        return torch.cat([self.one(inputs), self.three(inputs), self.five(inputs), pooled], 1)  # DepthConcat


class Head(nn.Module):
    """An auxiliary classifier: average pool to at most 4×4, 1×1 convolution, a hidden layer, dropout 0.7."""

    def __init__(self, before: int, size: tuple[int, int], width: int, classes: int) -> None:
        super().__init__()
        self.window = (math.ceil(size[0] / 4), math.ceil(size[1] / 4))
        self.conv = convolution(before, 2 * width, 1)
        pooled = (size[0] // self.window[0]) * (size[1] // self.window[1])
        self.hidden = nn.Linear(2 * width * pooled, 8 * width)
        self.dropout = Dropout(0.7, 8 * width)
        self.output = nn.Linear(8 * width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        pooled = self.conv(F.avg_pool2d(inputs, self.window))
        logits: Tensor = self.output(self.dropout(F.relu(self.hidden(pooled.flatten(1)))))
        return logits


class Inception(nn.Module):
    """Logits (n, classes) in eval mode. In training a tuple of three: these and the two auxiliary classifiers'.

    The auxiliary classifiers stand a third and two thirds of the way up: on 4a and 4d of nine modules.
    """

    def __init__(self, shape: tuple[int, int, int], classes: int, width: int = 16, modules: int = 9) -> None:
        super().__init__()
        channels, *size = shape
        before = 3 * width
        self.stem = nn.Sequential(
            convolution(channels, width, 3),
            nn.MaxPool2d(2),
            convolution(width, width, 1),
            convolution(width, before, 3),
        )
        size = [side // 2 for side in size]
        self.blocks = nn.ModuleDict()
        self.heads = nn.ModuleDict()
        names = FORMS[modules]
        for name in names:
            if name in POOLED:
                size = [side // 2 for side in size]
            block = Module(before, tuple(max(1, number * width // 64) for number in MODULES[name]))
            self.blocks[name], before = block, block.after
            if name in (names[modules // 3 - 1], names[2 * modules // 3 - 1]):
                self.heads[name] = Head(before, (size[0], size[1]), width, classes)
        self.dropout = Dropout(0.4, before)
        self.output = nn.Linear(before, classes)

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, ...]:
        outputs, others = self.stem(images), []
        for name, block in self.blocks.items():
            outputs = block(F.max_pool2d(outputs, 2) if name in POOLED else outputs)
            if self.training and name in self.heads:
                others.append(self.heads[name](outputs))
        logits: Tensor = self.output(self.dropout(outputs.mean((2, 3))))
        return (logits, *others) if self.training else logits
