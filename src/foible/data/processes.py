"""Photographs decoded by processes. Pillow lets go of the interpreter's lock only in part, so that beyond a few cores
threads wait for each other; processes do not, but take seconds to start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foible.data.photographs import Photographs
from foible.data.stream import Batch, in_order, read
from foible.errors import FoibleError
from foible.views import View

_mine: list[Any] = []  # of a worker: the photographs and the views


def decoded_apart(
    data: Photographs, views: Sequence[View | None], parts: Sequence[Tensor], workers: int
) -> Iterator[Batch]:
    """Batches in the order of `parts`, as `read` gives them; at most 3 × workers are in memory."""
    from foible.processes import main_hidden, safe_path

    with safe_path():
        pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin, initargs=(data, tuple(views)))
    batches = in_order(_work, [part.numpy() for part in parts], pool, 3 * workers)
    try:
        with safe_path(), main_hidden():  # workers start with the first parts, and must not run the caller's script
            first = next(batches, None)
        if first is not None:
            yield _batch(first)
        for made in batches:
            yield _batch(made)
    except BrokenProcessPool as error:
        raise FoibleError(
            "a process that decodes photographs died, perhaps for want of memory: finished units are safe, and the "
            "same command goes on from there"
        ) from error
    finally:
        batches.close()


def _begin(data: Photographs, views: tuple[View | None, ...]) -> None:
    torch.set_num_threads(1)
    _mine[:] = [data, views]


def _work(part: Any) -> tuple[Any, list[Any], list[tuple[int, str]]]:
    """As plain arrays: tensors would travel through shared memory, of which containers have little."""
    data, views = _mine
    done = read(data, torch.from_numpy(part), views)
    return done.index.numpy(), [np.ascontiguousarray(images.numpy()) for images in done.images], done.problems


def _batch(made: Any) -> Batch:
    index, images, problems = made
    return Batch(torch.from_numpy(index), tuple(map(torch.from_numpy, images)), problems)
