"""In which order a network calls its layers, on what, and whether each takes just what the last one gave (a chain)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foible.basket.hooks import Before, watching

Shape = tuple[int, ...]
Seen = Callable[[str, nn.Module, Tensor, Tensor], None]


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer. inputs, outputs: shapes without the row of images.
    follows: it takes what the call before gave (the first: the images), untouched, perhaps in another shape."""

    name: str
    layer: nn.Module
    inputs: Shape
    outputs: Shape
    follows: bool


@dataclass(frozen=True, eq=False)
class Trace:
    """All calls, in order. `broken`: why they are no chain from the images to the logits; None where they are."""

    calls: tuple[Call, ...]
    broken: str | None


def watched(network: nn.Module, seen: Seen, before: Before | None = None) -> AbstractContextManager[None]:
    """Inside, every call of a layer without parts is told: its name, itself, what it took and what it gave.

    Calls whose first argument or whose answer is not a tensor are left out. A second call of a layer is `NAME#2`.
    before: is told as a call begins, of a layer's plain name.
    """
    times: dict[str, int] = {}

    def tell(name: str, layer: nn.Module, given: Any, output: Any) -> None:
        if isinstance(given, Tensor) and isinstance(output, Tensor):
            times[name] = times.get(name, 0) + 1
            seen(name if times[name] == 1 else f"{name}#{times[name]}", layer, given, output)

    leaves = {name or "network": layer for name, layer in network.named_modules() if is_leaf(layer)}
    return watching(leaves, tell, before)


def is_leaf(layer: nn.Module) -> bool:
    """A layer without parts; parametrised layers (weight norm) have parts and are leaves all the same."""
    return not any(True for _ in layer.children()) or hasattr(layer, "parametrizations")


@torch.no_grad()
def trace(network: nn.Module, prepared: Tensor) -> Trace:
    """The calls that a few prepared images (n, channels, height, width) make; the network stays as it is.

    What one call gave is the next one's input where both are the same memory of the same version: a view (flatten) is
    no change, anything that a function did in between is one.
    """
    calls: list[Call] = []
    kept: list[Tensor] = []  # so that no memory is used twice meanwhile
    last = [_mark(prepared)]
    marks: dict[int, tuple[Any, Tensor]] = {}

    def before(_name: str, layer: nn.Module, given: Any) -> None:
        if isinstance(given, Tensor):  # marked before the call: a layer may work in place
            marks[id(layer)] = _mark(given), given

    def seen(name: str, layer: nn.Module, given: Tensor, output: Tensor) -> None:
        mark, _ = marks[id(layer)]
        calls.append(Call(name, layer, tuple(given.shape[1:]), tuple(output.shape[1:]), mark == last[0]))
        kept.append(output)
        last[0] = _mark(output)

    with watched(network, seen, before):
        answers = network(prepared)
    return Trace(tuple(calls), _why(calls, isinstance(answers, Tensor) and _mark(answers) == last[0]))


def _mark(value: Tensor) -> tuple[int, int, int]:
    return value.data_ptr(), value.numel(), value._version


def _why(calls: list[Call], ends: bool) -> str | None:
    if not calls:
        return "the network calls no layer that can be seen"
    for before, call in zip([None, *calls], calls, strict=False):
        if not call.follows:
            source = "the images" if before is None else f"what {before.name} gave"
            return f"{call.name} does not take {source} as it is: a sum, a branch or a function stands between"
    return None if ends else f"the answer is not what {calls[-1].name} gave: a function stands between"
