"""Taps: what a named layer of a network gives, and the rest of the network as a function of it.

Layers are called as `nn.Module.named_modules` calls them: `hidden1`, `blocks.2.conv1`. A layer that one forward pass
calls several times (one ReLU used everywhere) means its last call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from foible.basket import some
from foible.errors import UserError
from foible.specs import did_you_mean

if TYPE_CHECKING:
    from foible.networks.load import Network

_HOLDERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)  # never called themselves


@torch.no_grad()
def layer_names(network: Network, prepared: Tensor | None = None) -> list[str]:
    """The layers that can be tapped. With `prepared`, a few images as the network takes them: in the order in which
    they finish, and only those that give one tensor with a row for each image. Without: all that might, in the order
    in which the network names them."""
    named = {name: module for name, module in _modules(network).items() if not isinstance(module, _HOLDERS)}
    if prepared is None:
        return list(named)
    seen: dict[str, bool] = {}

    def watch(name: str) -> Any:
        def hook(_module: nn.Module, _given: Any, output: Any) -> None:
            seen.pop(name, None)  # its last call is the one that counts
            seen[name] = _is_rows(output, len(prepared))

        return hook

    handles = [module.register_forward_hook(watch(name)) for name, module in named.items()]
    try:
        network(prepared)
    finally:
        for handle in handles:
            handle.remove()
    return [name for name, good in seen.items() if good]


class Tap:
    """The output of a layer (n, …), or what it is given, as a function of prepared images; use it in a `with`.

    It may be asked by several threads at once, and it keeps nothing between two calls.
    """

    def __init__(self, network: Network, layer: str, *, inputs: bool = False) -> None:
        self.network, self.layer, self.inputs = network, layer, inputs
        self.module = _find(network, layer)
        self._held = threading.local()
        self._handle: Any = None

    def __enter__(self) -> Tap:
        if self.inputs:
            self._handle = self.module.register_forward_pre_hook(self._catch_input, with_kwargs=True)
        else:
            self._handle = self.module.register_forward_hook(self._catch_output)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _catch_input(self, _module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._catch(next(iter((*given, *named.values())), None))

    def _catch_output(self, _module: nn.Module, _given: Any, output: Any) -> None:
        self._catch(output)

    def _catch(self, value: Any) -> None:
        # A copy: an in-place ReLU behind a layer would overwrite what it gave.
        self._held.value = value.clone() if isinstance(value, Tensor) else value

    def __call__(self, prepared: Tensor) -> Tensor:
        """prepared: (n, channels, height, width), as the network takes them."""
        self._held.value = None
        self.network(prepared)
        value, self._held.value = self._held.value, None
        return _rows(value, len(prepared), self.layer)


def activations(network: Network, layer: str, prepared: Tensor) -> Tensor:
    """(n, …): what the named layer gives for prepared images (n, channels, height, width)."""
    with Tap(network, layer) as tap:
        return tap(prepared)


def above(network: Network, layer: str, prepared: Tensor) -> Callable[[Tensor], Tensor]:
    """Logits as a function of what the layer gives (n, …), differentiable in that.

    What goes around the layer (shortcuts) stays as the prepared images (n, channels, height, width) make it.
    """
    module, images = _find(network, layer), prepared.detach()
    last = _calls(network, module, layer, images)

    def logits(values: Tensor) -> Tensor:
        if len(values) != len(images):
            raise UserError(f"{len(values)} rows for layer {layer!r}: expected {len(images)}, one for each image")
        asker, done = threading.get_ident(), 0

        def put(_module: nn.Module, _given: Any, output: Tensor) -> Tensor | None:
            nonlocal done
            done += threading.get_ident() == asker  # another thread may ask the same network
            if threading.get_ident() != asker or done != last:
                return None
            if values.shape != output.shape:
                raise UserError(
                    f"values of shape {tuple(values.shape)} for layer {layer!r}: expected {tuple(output.shape)}"
                )
            return values.clone()  # what follows may work in place, which a leaf would refuse

        handle = module.register_forward_hook(put)
        try:
            answers: Tensor = network(images)
        finally:
            handle.remove()
        return answers

    return logits


@torch.no_grad()
def _calls(network: Network, module: nn.Module, layer: str, images: Tensor) -> int:
    """How often one forward pass calls the layer; what its last call gives must be one tensor."""
    asker, outputs = threading.get_ident(), list[Any]()

    def count(_module: nn.Module, _given: Any, output: Any) -> None:
        if threading.get_ident() == asker:
            outputs.append(output)

    handle = module.register_forward_hook(count)
    try:
        network(images)
    finally:
        handle.remove()
    _rows(outputs[-1] if outputs else None, len(images), layer)
    return len(outputs)


def _modules(network: Network) -> dict[str, nn.Module]:
    if not isinstance(network, nn.Module):
        raise UserError(f"{type(network).__name__} is no torch.nn.Module: its layers cannot be seen")
    return {name: module for name, module in network.named_modules() if name}


def _find(network: Network, layer: str) -> nn.Module:
    known = _modules(network)
    if layer in known:
        return known[layer]
    names = layer_names(network)
    if not names:
        raise UserError(f"there is no layer {layer!r}: {type(network).__name__} shows none of its layers")
    raise UserError(f"there is no layer {layer!r}{did_you_mean(layer, names)}; there are {some(names, 20)}")


def _is_rows(value: Any, rows: int) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.ndim >= 2 and len(value) == rows


def _rows(value: Any, rows: int, layer: str) -> Tensor:
    if _is_rows(value, rows):
        tensor: Tensor = value
        return tensor
    if value is None:
        raise UserError(f"layer {layer!r} is there, but this network does not call it: name a layer that it uses")
    given = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
    raise UserError(f"layer {layer!r} gives {given} for {rows} images: expected one tensor with a row for each")
