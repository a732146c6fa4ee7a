"""Can this network be differentiated? If not: which of its layers is in the way?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.hooks import watching
from foible.errors import UserError
from foible.networks.load.onnx import Graph
from foible.networks.load.opened import first_line

Call = tuple[str, nn.Module, Tensor, Tensor]  # a layer by name, what it took and what it gave
ADVICE = "a distortion follows gradients; use a network of differentiable layers, or `foible hunt --search genetic`"


def check_differentiable(basket: Basket, source: str, images: Tensor) -> None:
    """Raise an error that names the layer where logits do not depend smoothly on images (n, channels, height, width)
    in [0, 1]: where the gradient ends, or where it is zero for all of them."""
    network = basket.network(source)
    if isinstance(network, Graph):
        raise UserError(f"network {source!r} is an ONNX graph, which gives no gradients here: {ADVICE}")
    layers = dict(network.named_modules()) if isinstance(network, nn.Module) else {}
    calls: list[Call] = []  # in the order in which they end

    def note(name: str, module: nn.Module, given: Any, made: Any) -> None:
        if isinstance(given, Tensor) and isinstance(made, Tensor):
            calls.append((name, module, given, made))

    try:
        with torch.enable_grad(), watching(layers, note):
            pixels = images.clone().requires_grad_()
            logits = basket.judge(pixels, [source])[0]
            if not logits.requires_grad:
                where = _where_it_ends(calls, network)
                raise UserError(f"network {source!r} cannot be differentiated: {where}; {ADVICE}")
            top = logits.topk(2, 1).values
            [slope] = torch.autograd.grad((top[:, 0] - top[:, 1]).sum(), pixels, retain_graph=True, allow_unused=True)
            if slope is not None and not bool((slope == 0).all()):
                return
            where = _where_it_vanishes(calls, (top[:, 0] - top[:, 1]).sum())
    except UserError:
        raise
    except RuntimeError as error:
        raise UserError(
            f"network {source!r} cannot be differentiated by torch ({first_line(error)}); {ADVICE}"
        ) from error
    raise UserError(f"network {source!r} has no slope on any of {len(images)} images: {where}; {ADVICE}")


def _where_it_ends(calls: list[Call], network: Any) -> str:
    """The first layer (the innermost) whose input has a gradient and whose output has none."""
    for name, module, given, made in calls:
        if given.requires_grad and not made.requires_grad:
            return _called(name, module)
    what = type(network).__name__ if isinstance(network, nn.Module) else getattr(network, "__name__", "it")
    return f"the function {what} gives back no gradient"


def _where_it_vanishes(calls: list[Call], summed: Tensor) -> str:
    """The innermost layer that passes on nothing of the gradient it is given."""
    for name, module, given, made in calls:
        if not (given.requires_grad and made.requires_grad):
            continue
        slopes = torch.autograd.grad(summed, [given, made], retain_graph=True, allow_unused=True)
        into, out = (slope is not None and bool((slope != 0).any()) for slope in slopes)
        if out and not into:
            return _called(name, module)
    return "its answer does not change with the pixels"


def _called(name: str, module: nn.Module) -> str:
    what = f"the layer {name!r}" if name else "its own forward"
    return f"{what} ({type(module).__name__}) passes no gradient on"
