"""Batches of pixels from data of either kind: in memory, or photographs that are decoded as they are asked for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from foible.data.dataset import Dataset
from foible.data.decode import Pixels, picture, reason
from foible.data.photographs import Photographs
from foible.data.quiet import quiet_pillow
from foible.errors import UserError
from foible.processes import cores
from foible.text import shown
from foible.views import View

P = TypeVar("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Batch:
    """index: (k,) positions in the data of the images that could be read. images: for each view, uint8
    (k, channels, height, width). problems: (position, why) of the images that could not be read."""

    index: Tensor
    images: tuple[Tensor, ...]
    problems: list[tuple[int, str]]


def read(data: Dataset | Photographs, index: Tensor, views: Sequence[View | None]) -> Batch:
    """The images at `index`, (k,) positions, through each of `views`; None takes a `Dataset`'s images as they are.

    Works in the caller's thread, and may be called from many at once. A file is decoded once for all views.
    """
    if index.dtype != torch.int64 or index.ndim != 1:
        raise UserError(f"index is {index.dtype} of shape {tuple(index.shape)}: expected torch.int64 of shape (k,)")
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(data)):
        span = f"{int(index.min())} to {int(index.max())}"
        raise UserError(f"index goes from {span}: expected positions in the data, 0 to {len(data) - 1}")
    if isinstance(data, Dataset):
        taken = data.images[index]
        return Batch(index, tuple(_viewed(taken, view) for view in views), [])
    wanted = [view for view in dict.fromkeys(views) if view is not None]
    if None in views:
        raise UserError(
            f"{shown(data.name)} holds photographs of any size: say what size they are to come out (a View), "
            "or load them with ?size="
        )
    return _decoded(data, index, views, wanted)


def stream(
    data: Dataset | Photographs,
    views: Sequence[View | None],
    *,
    index: Tensor | None = None,
    batch: int = 64,
    workers: int | None = None,
    ahead: int = 2,
) -> Iterator[Batch]:
    """`read` by `workers` threads (default: one a core), batch by batch in the order of `index` (default: all).

    At most workers + ahead batches are in memory; closing the iterator stops the threads.
    """
    if batch < 1 or ahead < 0 or (workers is not None and workers < 1):
        raise UserError(f"batch is {batch}, workers {workers}, ahead {ahead}: expected at least 1, 1 and 0")
    index = torch.arange(len(data)) if index is None else index
    parts, count = index.split(batch) if len(index) else (), workers or cores()
    return in_order(partial(_read_part, data, views), parts, Threads(count, "foible-read"), count + ahead)


def _read_part(data: Dataset | Photographs, views: Sequence[View | None], part: Tensor) -> Batch:
    return read(data, part, views)


class Threads(Executor):
    """Threads that do not keep the program from ending: one may hang in a network for ever, and Python waits at its end
    for those of its own pools."""

    def __init__(self, count: int, name: str) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"{name}_{k}", daemon=True) for k in range(count)]
        self._started = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not self._started:  # a pool that is never used starts nothing
            self._started = True
            for thread in self._threads:
                thread.start()
        future: Future[T] = Future()
        self._tasks.put((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Without `wait`, what is being done has a second to come to its end."""
        while cancel_futures and not self._tasks.empty():
            task = self._tasks.get()
            if task is not None:
                task[0].cancel()
        for _ in self._threads:
            self._tasks.put(None)
        end = None if wait else time.monotonic() + 1
        for thread in self._threads if self._started else ():
            thread.join(None if end is None else max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, work = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)
            del task, future, work  # nothing of it is held while waiting


def in_order(work: Callable[[P], T], parts: Sequence[P], pool: Executor, most: int) -> Generator[T]:
    """What `work` makes of each part, in their order, by the workers of `pool`; at most `most` are in memory."""
    waiting: deque[Future[T]] = deque()
    done = False
    try:
        for part in parts:
            waiting.append(pool.submit(work, part))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        done = True
    finally:  # nobody waits for what is not wanted any more: it may never end
        for future in waiting:
            future.cancel()
        pool.shutdown(wait=done, cancel_futures=True)


def _decoded(data: Photographs, index: Tensor, views: Sequence[View | None], wanted: Sequence[View]) -> Batch:
    mode, size, fetch = "L" if data.look.grey else "RGB", data.look.size, data.source.fetch
    blocks = [np.empty((len(index), data.channels, *view.size), np.uint8) for view in wanted]
    places = index.tolist()
    read_at: list[int] = []  # positions within `index`, in the order they were decoded
    problems: list[tuple[int, str]] = []
    with quiet_pillow():
        for at in sorted(range(len(places)), key=places.__getitem__):  # neighbours on disk are read together
            try:
                image = picture(fetch(places[at]), mode, size)
                for view, block in zip(wanted, blocks, strict=True):
                    block[at] = view(image)
            except Exception as error:
                problems.append((places[at], reason(error)))
            else:
                read_at.append(at)
    if problems:
        read_at.sort()
        index, blocks = index[read_at], [block[read_at] for block in blocks]
    done = dict(zip(wanted, map(torch.from_numpy, blocks), strict=True))
    return Batch(index, tuple(done[view] for view in views if view is not None), problems)


def _viewed(images: Tensor, view: View | None) -> Tensor:
    """Images in memory through a view; as they are where they have its size."""
    if view is None or tuple(images.shape[2:]) == view.size:
        return images
    out: Pixels = np.empty((*images.shape[:2], *view.size), np.uint8)
    for place, image in enumerate(images.numpy(force=True)):
        plain = image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
        out[place] = view(Image.fromarray(plain))
    return torch.from_numpy(out)
