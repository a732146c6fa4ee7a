"""Steps that are taken again and again on a GPU, as one CUDA graph: launching a deep network's kernels and those of the
search one by one takes longer than running them on a few hundred images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import torch

State = TypeVar("State")  # a dataclass of tensors that keep their shapes

EAGER = 2  # steps before one is recorded: libraries choose their kernels then
WORTH = 8  # steps from which on a recording pays


def repeat(step: Callable[[State], State], state: State, times: int) -> State:
    """`state` after so many steps. A step waits for nothing and changes what it is given nowhere but in place."""
    device = getattr(state, fields(state)[0].name).device  # type: ignore[arg-type]
    if device.type != "cuda" or times < WORTH:
        for _ in range(times):
            state = step(state)
        return state
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(EAGER):
            state = step(state)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = _record(step, state, device)
    for _ in range(times - EAGER):
        if graph is None:
            state = step(state)
        else:
            graph.replay()
    return state


def _record(step: Callable[[State], State], state: State, device: torch.device) -> Any:
    """A graph that brings the state one step further in place; None where the model looks at what it computes."""
    names = [field.name for field in fields(state)]  # type: ignore[arg-type]
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            new = step(state)
            for name in names:
                getattr(state, name).copy_(getattr(new, name))
    except Exception:  # whatever it was, the ordinary way says it better
        torch.cuda.synchronize(device)
        return None
    return graph
