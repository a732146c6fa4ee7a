"""Small batches of deep networks on a GPU, as CUDA graphs and side by side.

Launching a ResNet-50's kernels one by one takes longer than running them on a few images, and a search asks about few
images often: what improved, what is left at the end. A recorded graph launches all of them at once, and several
networks that are asked about the same few images share the GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

ROWS, VALUES = 48, 384 * 3 * 32 * 32  # images, or numbers in them: up to here a launch takes longer than the work
OFTEN = 6  # how often a size is asked for before it is recorded
DEEP = 16  # layers from which on it is worth recording, which takes some fifty milliseconds for each size


class _Recorded:
    """One network at one size of batch."""

    def __init__(self, network: nn.Module, images: Tensor, pool: Any) -> None:
        self.images = images.clone()
        side = torch.cuda.Stream(images.device)
        side.wait_stream(torch.cuda.current_stream(images.device))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side):
            network(self.images)  # libraries choose their kernels before anything is recorded
            torch.cuda.synchronize(images.device)
            # Not by `torch.cuda.graph`: it gives all free memory back first, which costs more than recording.
            self.graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                self.answers: Tensor = network(self.images)
            finally:
                self.graph.capture_end()
        torch.cuda.current_stream(images.device).wait_stream(side)

    def __call__(self, images: Tensor) -> Tensor:
        self.images.copy_(images)
        self.graph.replay()
        return self.answers.clone()


def is_small(images: Tensor) -> bool:
    """Whether to launch a deep network's kernels takes longer than to run them on these images (n, …)."""
    return len(images) <= ROWS or images.numel() <= VALUES


def _rounded(rows: int) -> int:
    """The size of the graph that answers so many rows: a power of two, or three quarters of one."""
    power = 1 << (rows - 1).bit_length()
    return max(16, power if 4 * rows > 3 * power else 3 * power // 4)


class Graphs:
    """The graphs of a basket's networks, recorded when they are first worth it."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[int, torch.Size]] = Counter()
        self.recorded: dict[tuple[int, torch.Size], _Recorded | None] = {}  # None: cannot be
        self.deep: dict[int, bool] = {}  # by network
        self.pools: dict[int, Any] = {}  # by network: memory that its graphs share

    def answer(self, network: nn.Module, images: Tensor) -> Tensor | None:
        """What the network says of images (n, …), or None where it has to be asked in the ordinary way."""
        rows = len(images)
        if not images.is_cuda or not is_small(images) or torch.is_grad_enabled() or torch.is_autocast_enabled("cuda"):
            return None
        if network.training or torch.cuda.is_current_stream_capturing() or not self.is_deep(network):
            return None
        whole = torch.Size((_rounded(rows), *images.shape[1:]))
        key = id(network), whole
        self.asked[key] += 1
        if key not in self.recorded and self.asked[key] < OFTEN:
            return None
        if len(images) < whole[0]:
            images = torch.cat([images, images[-1:].expand(whole[0] - rows, *images.shape[1:])])
        if key not in self.recorded:
            self.recorded[key] = self._record(network, images)
        graph = self.recorded[key]
        return None if graph is None else graph(images)[:rows]

    def is_deep(self, network: Any) -> bool:
        """Whether a network has so many layers that to launch them takes time."""
        if not isinstance(network, nn.Module):
            return False
        if id(network) not in self.deep:
            self.deep[id(network)] = sum(not list(part.children()) for part in network.modules()) >= DEEP
        return self.deep[id(network)]

    def _record(self, network: nn.Module, images: Tensor) -> _Recorded | None:
        if id(network) not in self.pools:
            self.pools[id(network)] = torch.cuda.graph_pool_handle()
        try:
            recorded = _Recorded(network, images, self.pools[id(network)])
        except Exception:  # it looks at what it computes, or gives something else than a tensor
            torch.cuda.synchronize(images.device)
            return None
        return recorded if isinstance(recorded.answers, Tensor) else None


class Beside:
    """Several networks at once, each on a stream of its own, which begins and ends with the one that asks."""

    def __init__(self) -> None:
        self.streams: list[torch.cuda.Stream] = []

    def __call__(self, asks: Sequence[Callable[[], Tensor]], images: Tensor) -> list[Tensor]:
        """What each call gives, one after the other where that is as quick. images: what they are asked about."""
        alone = len(asks) < 2 or not images.is_cuda or not is_small(images) or torch.is_grad_enabled()
        if alone or torch.cuda.is_current_stream_capturing():
            return [ask() for ask in asks]
        here = torch.cuda.current_stream(images.device)
        self.streams += [torch.cuda.Stream(images.device) for _ in range(len(asks) - len(self.streams))]
        answers = []
        for stream, ask in zip(self.streams, asks, strict=False):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                answers.append(ask())
        for stream in self.streams[: len(asks)]:  # what is freed here is used there again only after the next wait
            here.wait_stream(stream)
        return answers
