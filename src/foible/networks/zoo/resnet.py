"""Residual networks for small images: He et al. 2015, Sec. 4.2 (6n+2 layers, three stages, option A shortcuts)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """Two 3×3 convolutions around a shortcut that has no parameters: strided pixels, zeros for new channels."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.new_channels = width - before
        self.conv1 = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, inputs: Tensor) -> Tensor:
        shortcut = inputs
        if self.stride != 1:
            shortcut = shortcut[:, :, :: self.stride, :: self.stride]
        if self.new_channels:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, 0, self.new_channels))
        outputs = F.relu(self.norm1(self.conv1(inputs)))
        return F.relu(self.norm2(self.conv2(outputs)) + shortcut)


class ResNet(nn.Module):
    """`depth` = 6n+2 layers; stages of `width`, 2·width and 4·width channels, each half the size of the last."""

    def __init__(self, shape: tuple[int, int, int], classes: int, depth: int, width: int = 16) -> None:
        super().__init__()
        self.conv = nn.Conv2d(shape[0], width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks = []
        before = width
        for stage in range(3):
            for number in range((depth - 2) // 6):
                after = width * 2**stage
                blocks.append(Block(before, after, stride=2 if stage and number == 0 else 1))
                before = after
        self.blocks = nn.Sequential(*blocks)
        self.output = nn.Linear(before, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d) and not module.weight.is_meta:  # there, `normal_` loads a compiler first
                nn.init.kaiming_normal_(module.weight)

    def forward(self, images: Tensor) -> Tensor:
        outputs: Tensor = self.blocks(F.relu(self.norm(self.conv(images))))
        logits: Tensor = self.output(outputs.mean((2, 3)))
        return logits
