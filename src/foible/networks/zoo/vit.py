"""Paper 4's vision transformer (after Dosovitskiy et al.): 6 blocks, 8 heads, an MLP of 128 units."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEADS = 8


class Block(nn.Module):
    """Attention and an MLP, each behind a layer norm and beside a shortcut."""

    def __init__(self, width: int, heads: int, units: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.mixed = nn.Linear(width, 3 * width)  # queries, keys and values
        self.joined = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, units)
        self.output = nn.Linear(units, width)

    def attend(self, tokens: Tensor) -> Tensor:
        """Written with matmuls because they, unlike the fused attention, can be mapped over a fleet."""
        n, length, width = tokens.shape
        mixed = self.mixed(tokens).view(n, length, 3, self.heads, width // self.heads)
        queries, keys, values = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (queries @ keys.transpose(-2, -1) / math.sqrt(width // self.heads)).softmax(-1)
        joined: Tensor = self.joined((weights @ values).transpose(1, 2).reshape(n, length, width))
        return joined

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.attend(self.norm1(tokens))
        mlp: Tensor = self.output(F.gelu(self.hidden(self.norm2(tokens))))
        return tokens + mlp


class ViT(nn.Module):
    """Patches of `patch`×`patch` pixels and a class token. Our choice: patch 4, 64 numbers a token, and places that
    begin as large as what stands in them. (From 0.02, as large models begin, 98 % on MNIST took twice the epochs.)"""

    def __init__(self, shape: tuple[int, int, int], classes: int, patch: int = 4, width: int = 64) -> None:
        super().__init__()
        channels, height, image_width = shape
        patches = (height // patch) * (image_width // patch)
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, patches + 1, width))
        self.blocks = nn.Sequential(*(Block(width, HEADS, units=128) for _ in range(6)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], 1) + self.positions
        logits: Tensor = self.output(self.norm(self.blocks(tokens))[:, 0])
        return logits
