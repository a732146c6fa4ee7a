"""A step of training that is taken again and again: on a GPU as one CUDA graph, since launching the kernels of a small
network one by one takes longer than running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

EAGER = 2  # steps before one is recorded: libraries choose their kernels, optimisers make their averages


class Repeated:
    """`step`, which waits for nothing, draws nothing and gets tensors of the same shapes each time.

    What it gives is overwritten by the next step.
    """

    def __init__(self, step: Callable[..., Tensor]) -> None:
        self.step, self.taken = step, 0
        self.graph: Any = None  # False: cannot be recorded

    def __call__(self, *given: Tensor) -> Tensor:
        if not given[0].is_cuda or self.taken < EAGER:
            self.taken += 1
            return self.step(*given)
        if self.graph is None:
            self._record(given)
        if self.graph is False:
            return self.step(*given)
        for held, one in zip(self.given, given, strict=True):
            held.copy_(one)
        self.graph.replay()
        return self.answer

    def _record(self, given: tuple[Tensor, ...]) -> None:
        self.given, graph = [one.clone() for one in given], torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self.answer = self.step(*self.given)
            self.graph = graph
        except Exception:  # whatever it was, the ordinary way says it better
            torch.cuda.synchronize(given[0].device)
            self.graph = False


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """The rate of the steps to come. One that is a tensor stays where it is: a recorded step reads it there."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
