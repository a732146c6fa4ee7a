"""One network over any number of images, as it sees them, in bounded memory.

As `foible.basket.judging` does: on a CPU every core takes whole batches from file to result, on a GPU the cores
decode and one thread feeds the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from foible.basket import Basket, padded
from foible.basket.judging import batch_size, own_views, plain
from foible.basket.matching import Matched
from foible.data import Batch, read
from foible.data.stream import Threads, in_order
from foible.images import to_floats
from foible.processes import cores, one_thread

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Seen(Generic[T]):
    """What became of a batch of `count` images, and (position, why) of those among them that could not be read."""

    result: T | None
    count: int
    problems: list[tuple[int, str]]


def shown_to(
    basket: Basket, name: str, matched: Matched, work: Callable[[Tensor, Tensor, Tensor], T],
    *, index: Tensor | None = None, workers: int | None = None, batch: int | None = None,
) -> Iterator[Seen[T]]:  # fmt: skip
    """`work(index, prepared, pixels)` of every batch, in order; without gradients.

    index: (k,) positions in the data. prepared: (at least k, channels, height, width) on the device, as the network
    takes them; rows beyond k are padding. pixels: (k, channels, height, width) uint8 on the canvas.
    """
    data, canvas = matched.data, plain(matched.canvas, matched.data)
    view, how = own_views(basket, data, canvas)[name], basket.hows[name]
    wanted = list(dict.fromkeys([view, canvas]))
    index = matched.index if index is None else index
    parts = list(index.split(batch or batch_size(data, wanted, basket.device.type)))

    @torch.no_grad()
    def done(seen: Batch) -> Seen[T]:
        count = len(seen.index) + len(seen.problems)
        if not len(seen.index):
            return Seen(None, count, seen.problems)
        images = dict(zip(wanted, seen.images, strict=True))
        prepared = how(padded(to_floats(images[view].to(basket.device, non_blocking=True))))
        return Seen(work(seen.index, prepared, images[canvas]), count, seen.problems)

    workers = min(workers or cores(), max(1, len(parts)))
    pool = Threads(workers, "foible-inspect")
    if basket.device.type != "cpu":
        yield from map(done, in_order(lambda part: read(data, part, wanted), parts, pool, workers + 2))
        return

    def whole(part: Tensor) -> Seen[T]:
        torch.set_num_threads(1)  # of this thread
        return done(read(data, part, wanted))

    with one_thread():
        yield from in_order(whole, parts, pool, workers + 1)
