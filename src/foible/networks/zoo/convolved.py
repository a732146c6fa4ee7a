"""K chains of convolutions at once on a GPU: the maps of all members side by side, as one grouped convolution a layer.

Maps go last in memory and numbers are bfloat16, for which the GPU has its quickest kernels; weights, the statistics of
batch normalisation and the loss stay float32. Measured on an H200 with a hundred networks of four convolutions, a step
takes 32 ms so, 56 ms in float32 with rounded products, 79 ms under `vmap`, and 302 ms one member after another.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.networks.zoo.layers import Dropout

MAPS = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.MaxPool2d)
UNITS = (nn.Linear, nn.ReLU, Dropout)


def is_chain(module: nn.Module) -> bool:
    """Whether `module` is a plain chain: convolutions, each perhaps with batch normalisation behind it, ReLU and pools,
    flatten, linear layers."""
    layers = list(module) if isinstance(module, nn.Sequential) else []
    flat = [number for number, layer in enumerate(layers) if type(layer) is nn.Flatten]
    if len(flat) != 1 or not isinstance(layers[0], nn.Conv2d):
        return False
    kinds = all(type(layer) in MAPS for layer in layers[: flat[0]])
    folds = all(isinstance(a, nn.Conv2d) for a, b in pairwise(layers) if isinstance(b, nn.BatchNorm2d))
    return kinds and folds and all(type(layer) in UNITS for layer in layers[flat[0] + 1 :]) and all(map(_plain, layers))


def _plain(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv2d):
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if isinstance(layer, nn.BatchNorm2d):
        return layer.affine and layer.track_running_stats and layer.momentum is not None
    return not isinstance(layer, nn.Linear) or layer.bias is not None


class Convolved:
    """The layers of a network that `is_chain`; weights and buffers come stacked, (K, …)."""

    def __init__(self, module: nn.Module) -> None:
        self.layers: list[tuple[str, Any]] = list(module.named_children())

    def forward(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, noise: dict[str, Tensor],
        dtype: torch.dtype | None = None,
    ) -> Tensor:  # fmt: skip
        """Logits (K, n, classes) of a step of training, with gradients. images: (K, n, channels, height, width).

        dtype: of the numbers between layers; None is that of the images.
        """
        many, dtype = len(images), dtype or images.dtype
        values = images.transpose(0, 1).flatten(1, 2).to(dtype, memory_format=torch.channels_last)  # (n, K · maps, …)
        for name, layer in self.layers:
            own = {part: weights.get(f"{name}.{part}") for part in ("weight", "bias")}
            if isinstance(layer, nn.Conv2d):
                kernel, bias = (None if one is None else one.flatten(0, 1).to(dtype) for one in own.values())
                assert kernel is not None
                kernel = kernel.contiguous(memory_format=torch.channels_last)
                if values.requires_grad or bias is not None or layer.dilation != (1, 1):
                    values = F.conv2d(values, kernel, bias, layer.stride, layer.padding, layer.dilation, groups=many)
                else:
                    values = _First.apply(values, kernel, layer.stride, layer.padding, many)  # type: ignore[no-untyped-call]
            elif isinstance(layer, nn.BatchNorm2d):
                mean, spread, scale, shift = (
                    one.flatten()
                    for one in (buffers[f"{name}.running_mean"], buffers[f"{name}.running_var"], *own.values())
                    if one is not None
                )
                buffers[f"{name}.num_batches_tracked"].add_(1)
                values = F.batch_norm(values, mean, spread, scale, shift, True, layer.momentum or 0.0, layer.eps)
            elif isinstance(layer, nn.Flatten):
                values = values.unflatten(1, (many, -1)).transpose(0, 1).flatten(2)  # (K, n, units)
            elif isinstance(layer, nn.Linear):
                weight, bias = (one.to(dtype) for one in own.values() if one is not None)
                values = torch.baddbmm(bias.unsqueeze(1), values, weight.transpose(1, 2))
            elif isinstance(layer, Dropout):
                values = values * noise[f"{name}.noise"].to(dtype)
            else:  # ReLU and pools, which treat every map alone
                values = layer(values)
        return values.to(images.dtype)

    def says(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], images: Tensor, dtype: torch.dtype
    ) -> Tensor:
        """Logits (K, n, classes) of trained networks for images (K, n, channels, height, width): one member after
        another, since large batches fill a GPU by themselves, with batch normalisation folded into the convolutions of
        all at once."""
        tasks = self._folded(weights, buffers, dtype)
        after = [*(layer for layer, _, _ in tasks[1:]), None]
        said = []
        for row, own in enumerate(images):
            values, rectify = own.to(dtype, memory_format=torch.channels_last), False
            for (layer, weight, bias), follows in zip(tasks, after, strict=True):
                if isinstance(layer, nn.Conv2d):
                    rectify = images.is_cuda and isinstance(follows, nn.ReLU)  # in one: half of the time
                    convolve: Any = torch.cudnn_convolution_relu if rectify else F.conv2d
                    how = layer.stride, layer.padding, layer.dilation, 1
                    values = convolve(values, weight[row], bias[row], *how)
                elif isinstance(layer, nn.Linear):
                    values = F.linear(values, weight[row], bias[row])
                elif isinstance(layer, nn.ReLU):
                    values, rectify = values if rectify else values.relu_(), False
                else:
                    values = layer(values)
            said.append(values)
        return torch.stack(said).to(images.dtype)

    def _folded(
        self, weights: dict[str, Tensor], buffers: dict[str, Tensor], dtype: torch.dtype
    ) -> list[tuple[Any, Any, Any]]:
        """Layers with their weights and biases, each a member's; normalisation belongs to the convolution before it."""
        tasks: list[tuple[Any, Any, Any]] = []
        for name, layer in self.layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                weight = weights[f"{name}.weight"].detach()
                bias = weights.get(f"{name}.bias")
                tasks.append((layer, weight, weight.new_zeros(weight.shape[:2]) if bias is None else bias.detach()))
            elif isinstance(layer, nn.BatchNorm2d):
                scale = weights[f"{name}.weight"].detach() / (buffers[f"{name}.running_var"] + layer.eps).sqrt()
                before, weight, bias = tasks[-1]
                shift = weights[f"{name}.bias"].detach() - buffers[f"{name}.running_mean"] * scale
                tasks[-1] = before, weight * scale[:, :, None, None, None], bias * scale + shift
            elif not isinstance(layer, Dropout):
                tasks.append((layer, None, None))
        return [(layer, _each(weight, dtype), _each(bias, dtype)) for layer, weight, bias in tasks]


class _First(torch.autograd.Function):
    """The convolution of images, which need no gradient, as batched products over patches: libraries are slow where
    every group has one channel. Measured as above it saves 5 ms of a step."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, kernel: Tensor, stride: Any, padding: Any, many: int) -> Tensor:
        """images: (n, K · channels, …). kernel: (K · maps, channels, height, width)."""
        (maps, channels, height, width), n = kernel.shape, len(images)
        padded = F.pad(images.contiguous(), (padding[1], padding[1], padding[0], padding[0]))
        windows = padded.unfold(2, height, stride[0]).unfold(3, width, stride[1])
        patches = windows.unflatten(1, (many, channels)).permute(1, 2, 5, 6, 0, 3, 4).flatten(4).flatten(1, 3)
        out = images.new_empty(n, *windows.shape[2:4], maps)  # maps last in memory
        kernels = kernel.reshape(many, maps // many, -1).transpose(1, 2)
        torch.bmm(patches.transpose(1, 2), kernels, out=_by_member(out, many))
        ctx.save_for_backward(patches)
        ctx.shape = kernel.shape
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        [patches] = ctx.saved_tensors
        slopes = _by_member(slope.permute(0, 2, 3, 1).contiguous(), len(patches))
        return None, torch.bmm(patches, slopes).transpose(1, 2).reshape(ctx.shape), None, None, None


def _by_member(maps: Tensor, many: int) -> Tensor:
    """(n, height, width, K · maps) seen as (K, n · height · width, maps)."""
    rows: Tensor = maps.flatten(0, 2)
    return rows.view(len(rows), many, -1).transpose(0, 1)


def _each(stack: Tensor | None, dtype: torch.dtype) -> list[Tensor] | None:
    """Members' parts of a stack, (K, …); kernels laid out as a GPU's convolutions like them."""
    if stack is None:
        return None
    parts = stack.to(dtype)
    if parts.dim() == 5:
        parts = parts.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
    return list(parts.unbind(0))
