"""Hooks into the layers of a network: which there are, what each gives, and the rest of it as a function of that.

Layers are called as `nn.Module.named_modules` calls them: `hidden1`, `blocks.2.conv1`. A layer that one forward pass
calls several times (one ReLU used everywhere) means its last call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.networks.features import is_convolution
from foible.networks.habits import ask
from foible.text import did_you_mean, some

if TYPE_CHECKING:
    from foible.networks.load.specs import Network

Before = Callable[[str, nn.Module, Any], None]
Seen = Callable[[str, nn.Module, Any, Any], Any]

_HOLDERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)  # never called themselves


@contextmanager
def watching(layers: Mapping[str, nn.Module], seen: Seen | None = None, before: Before | None = None) -> Iterator[None]:
    """Inside, every call of these layers is told, in any thread and in the order in which they end.

    before(name, layer, given): as a call begins. given: its first argument, None where it has none.
    seen(name, layer, given, output): as it ends. What that gives back takes the place of the output, if it is not None.
    """
    handles = []
    try:
        for name, layer in layers.items():
            if before is not None:
                handles.append(layer.register_forward_pre_hook(partial(_begins, before, name), with_kwargs=True))
            if seen is not None:
                handles.append(layer.register_forward_hook(partial(_ends, seen, name), with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


# torch hands a hook the keywords of a call while it knows of it: one that another thread just takes away gets none.
def _begins(before: Before, name: str, layer: nn.Module, given: tuple[Any, ...], *named: dict[str, Any]) -> None:
    before(name, layer, _first(given, named))


def _ends(seen: Seen, name: str, layer: nn.Module, given: tuple[Any, ...], *named_and_output: Any) -> Any:
    *named, output = named_and_output
    return seen(name, layer, _first(given, named), output)


def _first(given: tuple[Any, ...], named: Sequence[dict[str, Any]]) -> Any:
    return next(chain(given, *(keywords.values() for keywords in named)), None)


@torch.no_grad()
def layer_names(network: Network, prepared: Tensor | None = None) -> list[str]:
    """The layers that can be tapped. With `prepared`, a few images as the network takes them: in the order in which
    they finish, and only those that give one tensor with a row for each image. Without: all that might, in the order
    in which the network names them."""
    named = {name: module for name, module in _modules(network).items() if not isinstance(module, _HOLDERS)}
    if prepared is None:
        return list(named)
    good: dict[str, bool] = {}

    def seen(name: str, _layer: nn.Module, _given: Any, output: Any) -> None:
        good.pop(name, None)  # its last call is the one that counts
        good[name] = _is_rows(output, len(prepared))

    with watching(named, seen):
        network(prepared)
    return [name for name in good if good[name]]


@torch.no_grad()
def find_layer(network: Network, images: Tensor, what: str) -> str | None:
    """The dotted name of the last layer with weights whose output is the logits; None where no layer can be seen.

    images: a few, preprocessed. Dropout, pooling or a scale may stand between the layer and the logits: then it is
    the last one called that has an output for each class.
    """
    if not isinstance(network, nn.Module):
        return None
    layers = {
        name: module
        for name, module in _modules(network).items()
        if isinstance(weight := getattr(module, "weight", None), Tensor) and weight.ndim >= 2
    }
    calls: list[tuple[str, Any, Any]] = []
    with watching(layers, lambda name, _, given, output: calls.append((name, given, output))):
        answers: Tensor = network(images)
    if not calls:
        return None
    usable: list[tuple[str, Tensor]] = [
        (name, output)
        for name, given, output in reversed(calls)
        if _is_rows(given, len(images)) and _is_rows(output, len(images))
    ]
    for name, output in usable:
        if output.numel() == answers.numel() and torch.allclose(output.reshape(answers.shape), answers, equal_nan=True):
            return name
    for name, output in usable:
        if output.shape[1 if is_convolution(layers[name]) else -1] == answers.shape[1]:
            return name
    raise UserError(
        f"{what}: none of its {len(layers)} layers with weights gives its {answers.shape[1]} logits, so its features "
        "are not known: add ,features=logits to put the probe on its answers"
    )


@contextmanager
def tapped(network: Network, layer: str, *, inputs: bool = False) -> Iterator[Callable[[Tensor], Tensor]]:
    """The output of a layer (n, …), or what it is given, as a function of prepared images (n, channels, height, width).

    It may be asked by several threads at once, and it keeps nothing between two calls.
    """
    held = threading.local()

    def takes(_name: str, _layer: nn.Module, value: Any) -> None:
        # A copy: an in-place ReLU behind a layer would overwrite what it gave.
        held.value = value.clone() if isinstance(value, Tensor) else value

    def gives(name: str, layer: nn.Module, _given: Any, output: Any) -> None:
        takes(name, layer, output)

    def tap(prepared: Tensor) -> Tensor:
        held.value = None
        ask(network, prepared, "the network")
        value, held.value = held.value, None
        return _rows(value, len(prepared), layer)

    only = {layer: _find(network, layer)}
    with watching(only, before=takes) if inputs else watching(only, gives):
        yield tap


def activations(network: Network, layer: str, prepared: Tensor) -> Tensor:
    """(n, …): what the named layer gives for prepared images (n, channels, height, width)."""
    with tapped(network, layer) as tap:
        return tap(prepared)


def above(network: Network, layer: str, prepared: Tensor) -> Callable[[Tensor], Tensor]:
    """Logits as a function of what the layer gives (n, …), differentiable in that.

    What goes around the layer (shortcuts) stays as the prepared images (n, channels, height, width) make it.
    """
    only, images = {layer: _find(network, layer)}, prepared.detach()
    last = _calls(network, only, images)

    def logits(values: Tensor) -> Tensor:
        if len(values) != len(images):
            raise UserError(f"{len(values)} rows for layer {layer!r}: expected {len(images)}, one for each image")
        asker, done = threading.get_ident(), 0

        def put(_name: str, _layer: nn.Module, _given: Any, output: Tensor) -> Tensor | None:
            nonlocal done
            done += threading.get_ident() == asker  # another thread may ask the same network
            if threading.get_ident() != asker or done != last:
                return None
            if values.shape != output.shape:
                raise UserError(
                    f"values of shape {tuple(values.shape)} for layer {layer!r}: expected {tuple(output.shape)}"
                )
            return values.clone()  # what follows may work in place, which a leaf would refuse

        with watching(only, put):
            answers: Tensor = network(images)
        return answers

    return logits


@torch.no_grad()
def _calls(network: Network, only: Mapping[str, nn.Module], images: Tensor) -> int:
    """How often one forward pass calls the only layer; what its last call gives must be one tensor."""
    asker, outputs = threading.get_ident(), list[Any]()

    def count(_name: str, _layer: nn.Module, _given: Any, output: Any) -> None:
        if threading.get_ident() == asker:
            outputs.append(output)

    with watching(only, count):
        network(images)
    [layer] = only
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
