"""K vision transformers at once on a GPU: batched matmuls over the stacked weights. Attention has no weights and takes
the images of all members as one batch: a kernel of ours where there is one, PyTorch's own elsewhere."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.networks.zoo import attention_gpu
from foible.networks.zoo.vit import Block, ViT


class Attended:
    """The layers of a `ViT`; weights come stacked, (K, …)."""

    def __init__(self, module: ViT) -> None:
        block = module.blocks[0]
        assert isinstance(block, Block)
        self.patch, self.blocks = module.patches.kernel_size[0], len(module.blocks)
        self.heads, self.eps = block.heads, module.norm.eps

    def forward(
        self, weights: dict[str, Tensor], _buffers: dict[str, Tensor], images: Tensor, _noise: dict[str, Tensor],
        dtype: torch.dtype | None = None,
    ) -> Tensor:  # fmt: skip
        """Logits (K, n, classes). images: (K, n, channels, height, width). A ViT has no buffers and draws no noise.

        dtype: of the numbers between layers; None is that of the images.
        """
        own = {name: weight.to(dtype or images.dtype) for name, weight in weights.items()}
        tokens = self._linear(own, "patches", self._patches(images.to(dtype or images.dtype)))
        many, n, _, width = tokens.shape
        first = own["class_token"].expand(many, n, 1, width)  # from (K, 1, 1, width)
        tokens = torch.cat([first, tokens], 2) + own["positions"]
        for number in range(self.blocks):
            block = f"blocks.{number}"
            tokens = tokens + self._attend(own, block, self._norm(own, f"{block}.norm1", tokens))
            hidden = F.gelu(self._linear(own, f"{block}.hidden", self._norm(own, f"{block}.norm2", tokens)))
            tokens = tokens + self._linear(own, f"{block}.output", hidden)
        logits = self._linear(own, "output", self._norm(own, "norm", tokens[:, :, :1]))
        return logits[:, :, 0].to(images.dtype)

    def says(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """Logits (K, n, classes) of trained networks for images (K, n, channels, height, width)."""
        return self.forward(weights, buffers, images, {}, dtype)

    def _patches(self, images: Tensor) -> Tensor:
        """(K, n, patches, channels · patch · patch), in the order of a convolution's kernel."""
        size = self.patch
        tiles = images.unfold(3, size, size).unfold(4, size, size)  # (K, n, channels, down, across, size, size)
        return tiles.permute(0, 1, 3, 4, 2, 5, 6).flatten(4).flatten(2, 3)

    def _linear(self, own: dict[str, Tensor], name: str, values: Tensor) -> Tensor:
        weight, bias = own[f"{name}.weight"].flatten(2), own[f"{name}.bias"]
        flat = torch.baddbmm(bias.unsqueeze(1), values.flatten(1, 2), weight.transpose(1, 2))
        return flat.view(*values.shape[:3], -1)

    def _norm(self, own: dict[str, Tensor], name: str, values: Tensor) -> Tensor:
        weight, bias = (own[f"{name}.{part}"][:, None, None] for part in ("weight", "bias"))
        return torch.addcmul(bias, F.layer_norm(values, values.shape[-1:], eps=self.eps), weight)

    def _attend(self, own: dict[str, Tensor], block: str, values: Tensor) -> Tensor:
        many, n, length, width = values.shape
        mixed = self._linear(own, f"{block}.mixed", values).flatten(0, 1)
        if attention_gpu.fits(mixed, self.heads):
            joined = attention_gpu.attend(mixed, self.heads)
        else:
            parts = mixed.view(many * n, length, 3, self.heads, width // self.heads)
            queries, keys, answers = parts.permute(2, 0, 3, 1, 4).unbind(0)
            joined = F.scaled_dot_product_attention(queries, keys, answers).transpose(1, 2)
        return self._linear(own, f"{block}.joined", joined.reshape(many, n, length, width))
