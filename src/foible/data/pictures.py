"""Photographs decoded into memory, as one block of 8-bit pixels of one size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from foible.data.dataset import Dataset, with_option
from foible.data.decode import Pixels, picture, pixels_of, reason
from foible.data.photographs import Photographs
from foible.data.quiet import quiet_pillow
from foible.errors import UserError
from foible.processes import cores
from foible.progress import progress
from foible.text import shown

CHUNK = 32  # images to a task of the pool: tiny images would drown in the cost of handing them over one by one
BLOCK = 64 * CHUNK
LONG = 2000  # images that are worth a progress bar


def gather(photographs: Photographs, quiet: bool) -> Dataset:
    """All of them in memory; what cannot be read is left out and listed in `problems`.

    Pillow lets go of the interpreter's lock while it decodes, so threads share the work.
    """
    spec, total = photographs.name, len(photographs)
    images: Pixels | None = None
    first = 0
    kept: list[int] = []
    problems: list[str] = []
    with (
        quiet_pillow(),
        ThreadPoolExecutor(min(8, cores()), thread_name_prefix="foible-decode") as pool,
        progress(f"Reading {shown(spec)}", total, quiet=quiet or total < LONG) as bar,
    ):
        for start in range(0, total, BLOCK):
            rows = range(start, min(start + BLOCK, total))
            chunks = [rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK)]
            decoded = pool.map(lambda chunk: [_try(photographs, row) for row in chunk], chunks)
            for row, pixels in zip(rows, itertools.chain.from_iterable(decoded), strict=True):
                if isinstance(pixels, str):
                    problems.append(f"{shown(photographs.files[row])}: {pixels}")
                    continue
                if images is None:
                    images, first = _room(spec, (total, *pixels.shape)), row
                if pixels.shape[1:] != images.shape[2:]:
                    names = photographs.files
                    raise _mixed(spec, (names[first], images.shape), (names[row], pixels.shape))
                if len(pixels) > images.shape[1]:  # the first in colour among grey ones
                    images = np.repeat(images, 3, axis=1)
                images[len(kept)] = pixels  # a grey one among coloured ones fills all three channels
                kept.append(row)
            bar.advance(len(rows))
    if images is None:
        raise UserError(f"{spec}: none of {total} images could be read; the first: {problems[0]}")
    return Dataset(
        spec,
        photographs.split,
        torch.from_numpy(images[: len(kept)]),
        photographs.labels[torch.tensor(kept)],
        photographs.classes,
        (*photographs.problems, *problems),
    )


def _try(photographs: Photographs, row: int) -> Pixels | str:
    """The pixels, or why there are none. A file that is broken as a whole (UserError) stops everything."""
    how = photographs.look
    try:
        return pixels_of(picture(photographs.source.fetch(row), how.mode, how.size))
    except UserError:
        raise
    except Exception as error:
        return reason(error)


def _room(spec: str, shape: tuple[int, ...]) -> Pixels:
    try:
        return np.empty(shape, np.uint8)
    except MemoryError as error:
        gib = np.prod(np.array(shape, float)) / 2**30
        raise UserError(
            f"{spec}: {shape[0]} images of {shape[3]}×{shape[2]} need {gib:.1f} GiB, more memory than there "
            "is: give a smaller size"
        ) from error


def _mixed(spec: str, one: tuple[str, Sequence[int]], other: tuple[str, Sequence[int]]) -> UserError:
    sizes = " and ".join(f"{shown(name)} is {shape[-1]}×{shape[-2]}" for name, shape in (one, other))
    return UserError(
        f"{spec} holds images of different sizes ({sizes}, width×height): write "
        f"{with_option(spec, 'size=64')}, or size=WIDTHxHEIGHT, to crop each to that shape and resize it"
    )
