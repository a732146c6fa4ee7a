"""A network for searching on a GPU: what stands behind a convolution becomes part of it.

To normalise, to add a shortcut and to cut off what is negative, each by itself, reads and writes all that a network has
computed once more: a quarter of a ResNet's time. Here the normalisation is in a convolution's weights, and one kernel
does the rest. Answers differ in their last bits, as they do from batch to batch; what is found with it is judged by the
network itself.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torch.nn.utils.parametrize import is_parametrized

ADDS = (operator.add, operator.iadd, torch.add)
CUTS = (F.relu, torch.relu, torch.relu_)


class Folded(nn.Module):
    """A convolution, a shortcut that is added where there is one, and a ReLU where there is one."""

    def __init__(self, conv: nn.Conv2d, norm: nn.BatchNorm2d | None, *, cuts: bool) -> None:
        super().__init__()
        weight, bias = conv.weight, conv.bias
        if norm is not None:
            mean, variance = norm.running_mean, norm.running_var
            assert mean is not None
            assert variance is not None
            weight, bias = fuse_conv_bn_weights(weight, bias, mean, variance, norm.eps, norm.weight, norm.bias)
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
        self.bias = nn.Parameter(
            weight.new_zeros(len(weight)) if bias is None else bias.detach().clone(), requires_grad=False
        )
        self.how: tuple[Any, ...] = (conv.stride, conv.padding, conv.dilation, conv.groups)
        self.cuts = cuts

    def forward(self, images: Tensor, shortcut: Tensor | None = None) -> Tensor:
        images = images.to(self.weight.dtype)
        if images.is_cuda and self.cuts and shortcut is None:
            return torch.cudnn_convolution_relu(images, self.weight, self.bias, *self.how)
        if images.is_cuda and self.cuts and shortcut is not None and self._fits(images, shortcut):
            return torch.cudnn_convolution_add_relu(images, self.weight, shortcut, 1.0, self.bias, *self.how)
        made = F.conv2d(images, self.weight, self.bias, *self.how)
        if shortcut is not None:
            made = made + shortcut
        return made.relu_() if self.cuts else made

    def _fits(self, images: Tensor, shortcut: Tensor) -> bool:
        """Whether a shortcut is as large as what is computed, and lies in memory as it does."""
        sizes = [
            (size + 2 * beside - apart * (taps - 1) - 1) // stride + 1
            for size, taps, stride, beside, apart in zip(
                images.shape[2:], self.weight.shape[2:], *self.how[:3], strict=True
            )
        ]
        side_by_side = not images.is_contiguous() and images.is_contiguous(memory_format=torch.channels_last)
        layout = torch.channels_last if side_by_side else torch.contiguous_format
        alike = shortcut.dtype == images.dtype and shortcut.shape == (len(images), len(self.weight), *sizes)
        return alike and shortcut.is_contiguous(memory_format=layout)


def folded(network: nn.Module) -> nn.Module | None:
    """A copy whose convolutions have in them what stands behind; None where there is nothing to gain, or where what the
    network does cannot be told beforehand."""
    if network.training or not any(isinstance(part, nn.Conv2d) for part in network.modules()):
        return None
    try:
        traced = fx.symbolic_trace(network)
    except Exception:  # it looks at its images, or has no fixed course: it is asked as it is
        return None
    steps = [step for node in list(traced.graph.nodes) if (step := _fold(traced, node)) is not None]
    if not steps:
        return None
    traced.graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval().requires_grad_(False)


def _fold(traced: fx.GraphModule, node: fx.Node) -> Folded | None:
    """Put one step in the place of a convolution and of what nobody else sees behind it."""
    conv = _part(traced, node)
    if type(conv) is not nn.Conv2d or conv.padding_mode != "zeros" or isinstance(conv.padding, str):
        return None
    if conv.weight.dtype != torch.float32 or _is_watched(conv) or len(node.args) != 1:
        return None
    given, last, norm = list(node.args), node, _norm(traced, _next(node))
    if norm is not None:
        last = next(iter(node.users))
    behind = _next(last)
    shortcut = _shortcut(behind, last)
    cut = behind if shortcut is None or behind is None else _next(behind)
    if _cuts(traced, cut):
        given += [] if shortcut is None else [shortcut]
        last = cut or last
    elif norm is None:
        return None
    step = Folded(conv, norm, cuts=last is cut)
    name = f"folded_{node.name}"
    traced.add_submodule(name, step)
    with traced.graph.inserting_after(last):
        made = traced.graph.call_module(name, tuple(given))
    last.replace_all_uses_with(made)
    return step


def _part(traced: fx.GraphModule, node: fx.Node | None) -> nn.Module | None:
    """The module that a node calls."""
    return traced.get_submodule(str(node.target)) if node is not None and node.op == "call_module" else None


def _norm(traced: fx.GraphModule, node: fx.Node | None) -> nn.BatchNorm2d | None:
    """The normalisation that a node is, if its numbers stand fast."""
    part = _part(traced, node)
    return part if type(part) is nn.BatchNorm2d and part.running_mean is not None and not _is_watched(part) else None


def _next(node: fx.Node) -> fx.Node | None:
    """What alone uses an answer."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def _shortcut(node: fx.Node | None, one: fx.Node) -> fx.Node | None:
    """What a node adds to `one`, if that is what it does."""
    if node is None or node.op != "call_function" or node.target not in ADDS or len(node.args) != 2 or node.kwargs:
        return None
    others = [other for other in node.args if other is not one]
    return others[0] if len(others) == 1 and isinstance(others[0], fx.Node) else None


def _cuts(traced: fx.GraphModule, node: fx.Node | None) -> bool:
    if node is None or node.op == "call_module":
        part = _part(traced, node)
        return type(part) is nn.ReLU and not _is_watched(part)
    called = {"call_function": CUTS, "call_method": ("relu", "relu_")}
    return node.target in called.get(node.op, ())


def _is_watched(part: nn.Module) -> bool:
    """Whether somebody hears, or changes, what a module says; or makes its weights anew each time."""
    return bool(part._forward_hooks or part._forward_pre_hooks) or is_parametrized(part)
