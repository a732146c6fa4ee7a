"""K fully connected networks at once, as batched matmuls over stacked weights, with the gradient written out.

Autograd would do the same work and two things besides, which together cost a quarter of a step on a CPU: it lays
every gradient out again for Adam, and it allocates tens of megabytes anew in each step.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

ACTIVATIONS = (nn.ReLU, nn.Sigmoid)


def suits(module: nn.Module) -> bool:
    """Whether `module` is a chain of flatten and linear layers with bias, each followed by ReLU, sigmoid or nothing."""
    if not isinstance(module, nn.Sequential):
        return False
    letters = {nn.Flatten: "f", nn.Linear: "l", nn.ReLU: "a", nn.Sigmoid: "a"}
    chain = "".join(letters.get(type(layer), "?") for layer in module)
    biased = all(layer.bias is not None for layer in module if isinstance(layer, nn.Linear))
    return biased and re.fullmatch("f(la?)*l", chain) is not None


class Grouped:
    """The layers of a network that `suits`; weights come stacked, (K, outputs, inputs) and (K, outputs)."""

    def __init__(self, module: nn.Module) -> None:
        self.layers: list[tuple[str, type[nn.Module] | None]] = []  # a linear layer and what follows it
        for name, layer in module.named_children():
            if isinstance(layer, nn.Linear):
                self.layers.append((name, None))
            elif isinstance(layer, ACTIVATIONS):
                self.layers[-1] = (self.layers[-1][0], type(layer))
        self._buffers: dict[str, Tensor] = {}

    def forward(self, weights: dict[str, Tensor], images: Tensor) -> Tensor:
        """images: (K, n, channels, height, width). Logits (K, n, classes), without a gradient."""
        return self._forward(weights, images.flatten(2), keep=False)[-1]

    @torch.no_grad()
    def gradients(self, weights: dict[str, Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy (K,) of each member, the mean over its batch; its gradient is put into `weight.grad`."""
        values = self._forward(weights, images.flatten(2), keep=True)
        losses, slope = _cross_entropy(values[-1], labels)
        trained = [weights[f"{name}.weight"].requires_grad for name, _ in self.layers]
        for depth in reversed(range(trained.index(True), len(self.layers))):
            name, _ = self.layers[depth]
            weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
            if trained[depth]:
                torch.bmm(slope.transpose(1, 2), values[depth], out=_gradient(weight))
                torch.sum(slope, 1, out=_gradient(bias))
            if any(trained[:depth]):
                below, activation = values[depth], self.layers[depth - 1][1]
                slope = torch.bmm(slope, weight, out=self._buffer(f"slope of {name}", below))
                if activation is nn.ReLU:
                    torch.ops.aten.threshold_backward.grad_input(slope, below, 0, grad_input=slope)
                elif activation is nn.Sigmoid:
                    torch.ops.aten.sigmoid_backward.grad_input(slope, below, grad_input=slope)
        return losses

    @torch.no_grad()
    def _forward(self, weights: dict[str, Tensor], values: Tensor, *, keep: bool) -> list[Tensor]:
        """The inputs of every layer and, last, the logits; `keep` writes them into memory of the last step."""
        through = [values]
        for name, activation in self.layers:
            weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"].unsqueeze(1)
            out = None
            if keep:
                out = self._buffer(name, values, (len(values), values.shape[1], weight.shape[1]))
            values = torch.baddbmm(bias, values, weight.transpose(1, 2), out=out)
            if activation is nn.ReLU:
                values.relu_()
            elif activation is nn.Sigmoid:
                values.sigmoid_()
            through.append(values)
        return through

    def _buffer(self, name: str, like: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
        shape = tuple(like.shape) if shape is None else shape
        held = self._buffers.get(name)
        if held is None or held.shape != shape:
            held = self._buffers[name] = torch.empty(shape, dtype=like.dtype, device=like.device)
        return held


def _gradient(weight: Tensor) -> Tensor:
    if weight.grad is None:
        weight.grad = torch.empty_like(weight)
    return weight.grad


def _cross_entropy(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(K, n, classes) and labels (K, n), or distributions (K, n, classes), to the mean losses (K,) and their slope by
    the logits.

    Classes go first in between: softmax over rows of ten numbers is many times slower on a CPU.
    """
    logs = logits.flatten(0, 1).t().contiguous().log_softmax(0)
    if labels.is_floating_point():
        truth = labels.flatten(0, 1).t()
        losses = -(truth * logs).sum(0).view(labels.shape[:2]).mean(1)
        slope = logs.exp_().sub_(truth)
    else:
        truth = labels.reshape(1, -1)
        losses = -logs.gather(0, truth).view(labels.shape).mean(1)
        slope = logs.exp_()
        slope.scatter_add_(0, truth, slope.new_full((1, 1), -1.0).expand_as(truth))
    return losses, slope.div_(labels.shape[1]).t().contiguous().view(logits.shape)
