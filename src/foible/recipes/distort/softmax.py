"""A network without its last softmax, which bends its slopes, and where it is saturated loses them to rounding.

The largest of the answers is the same with it and without. It is found by watching what torch computes, so that it may
be a layer or a line of `forward`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from foible.basket import Basket, padded
from foible.class_names import align
from foible.search.nearest import Model


class _Watching(TorchFunctionMode):
    """Inside, the last softmax that is computed: what it was given and what it made of it."""

    given: Tensor | None = None
    made: Tensor | None = None

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax":
            self.given, self.made = args[0] if args else kwargs["input"], made
        return made


def without_softmax(basket: Basket, source: str) -> Model:
    """Images (n, channels, height, width) in [0, 1] to what the last softmax of a network is given (n, classes); the
    network's answers themselves where they are no softmax's."""
    columns = align(basket.classes, basket.lists[source])

    def model(images: Tensor) -> Tensor:
        given, _ = _asked(basket, source, images)
        return given[: len(images), columns].float()

    return model


@torch.no_grad()
def ends_in_softmax(basket: Basket, source: str, images: Tensor) -> bool:
    """Whether a network's answers to these images are what a softmax made."""
    return _asked(basket, source, images)[1]


def _asked(basket: Basket, source: str, images: Tensor) -> tuple[Tensor, bool]:
    prepared = basket.hows[source](padded(images)).clone()  # its own: it may write into it
    with _Watching() as seen:
        answers = basket.network(source)(prepared)
    if seen.given is None or answers is not seen.made or answers.ndim != 2:
        return answers, False
    return seen.given, True
