"""An image for every class, run after run: by evolution (`by_class.py`), or by gradient ascent (`climb/ascend.py`).

A run is a lane. What comes back has a row for each run and class, a run's rows together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.basket import Basket
from foible.basket.matching import Matched
from foible.images import to_bytes
from foible.networks.progress_file import Checkpoint
from foible.randomness import words
from foible.search.climb.ascend import ascend, mean_image, starts
from foible.search.elites.archive import spread_costs
from foible.search.elites.by_class import Encoding, Shape, evolve, in_parts
from foible.search.elites.encodings import Climb

SHOWN = 12  # classes of the first run that are shown on their way
JUDGED = {"cpu": 1000, "cuda": 1 << 16}  # images at once, of 28×28
DRAWN = 4096  # the same, where nobody judges them


class Made(NamedTuple):
    """R runs of C classes: R · C rows, on the basket's device."""

    images: Tensor  # uint8 (rows, channels, height, width)
    first: Tensor  # the same: the best of the first generation, or where a climb began
    trace: Tensor  # (marks, rows): the confidence on the way
    marks: tuple[int, ...]  # generations, or steps
    points: list[list[float]]  # genomes, written down; empty where the image is all there is
    broken: Tensor  # (rows,) bool: whether a network answered with NaN or infinity alone
    candidates: Tensor  # (rows,) images that were tried: of a run, spread over its rows
    backwards: Tensor  # (rows,) slopes
    shown: Sequence[int] = ()  # rows
    frames: Sequence[Tensor] = ()  # after each mark, what these were: (shown, channels, height, width) in [0, 1]


def room(table: dict[str, int], device: torch.device, shape: Shape) -> int:
    """How many images of this shape a device takes at once, by a table for 28×28."""
    return max(64, table.get(device.type, 1000) * 784 // max(784, math.prod(shape)))


def make(
    encoding: Encoding | Climb, objective: Any, basket: Basket, lanes: Tensor, targets: Sequence[int], matched: Matched,
    *, seed: int, tick: Callable[[float], None], kept: Checkpoint, about: str, **evolution: Any,
) -> Made:  # fmt: skip
    """Images of the shape that `matched` has, for each of the lanes and `targets`, classes of the basket, whose first
    network is the suspect. evolution: what `evolved` takes besides, where images do not climb."""
    if isinstance(encoding, Climb):
        return climbed(encoding, basket, lanes, targets, matched, seed=seed, tick=tick, kept=kept, about=about)
    return evolved(
        encoding, objective, basket, lanes, targets, matched.shape, seed=seed, tick=tick, kept=kept, about=about,
        **evolution,
    )  # fmt: skip


def evolved(
    encoding: Encoding, objective: Any, basket: Basket, lanes: Tensor, targets: Sequence[int], shape: Shape, *,
    population: int, generations: int, seed: int, tick: Callable[[float], None] | None = None,
    kept: Checkpoint | None = None, about: str = "",
) -> Made:  # fmt: skip
    """Images that evolve; the objective's `every` says how good one is for each class. kept, about: as in `evolve`."""
    judge = judging(basket, basket.names if objective.asks == "all" else basket.names[:1])
    columns, cells = torch.tensor(targets, device=basket.device), len(targets)
    shown = torch.linspace(0, cells - 1, min(SHOWN, cells)).long().unique().tolist()
    done = evolve(
        encoding, lambda images: objective.every(judge(images)).index_select(1, columns), shape, lanes,
        population=population, generations=generations, seed=seed, rows=room(JUDGED, basket.device, shape), shown=shown,
        tick=tick, kept=kept, about=about,
    )  # fmt: skip
    images, first = (
        torch.cat([to_bytes(encoding.render(part, shape)) for part in in_parts(genomes, DRAWN)])
        for genomes in (done.genomes, done.first)
    )
    tried = _each_run(population * generations, lanes, cells)
    return Made(
        images, first, done.trace.flatten(1).sigmoid(), done.marks, encoding.written(done.genomes, shape),
        done.score.isinf().flatten(), tried, torch.zeros_like(tried), shown,
        [encoding.render(part, shape) for part in in_parts(done.way, len(shown))],
    )  # fmt: skip


def climbed(
    encoding: Climb, basket: Basket, lanes: Tensor, targets: Sequence[int], matched: Matched, *, seed: int,
    tick: Callable[[float], None] | None = None, kept: Checkpoint | None = None, about: str = "",
) -> Made:  # fmt: skip
    """Images that climb from the mean of the data by the suspect's slope. kept, about: as in `ascend`."""
    how, aims = encoding.how, torch.tensor(targets, device=lanes.device)
    mean = mean_image(matched).to(lanes.device)
    begun = starts(mean, seed, (lanes[:, None] * len(basket.classes) + aims).flatten())
    done = ascend(
        basket, basket.names[0], begun, mean, aims.repeat(len(lanes)), how, every=max(1, how.steps // 20),
        tick=None if tick is None else lambda rows: tick(rows / len(aims)), kept=kept, about=about,
    )  # fmt: skip
    tried = _each_run(how.steps * len(aims), lanes, len(aims))
    points: list[list[float]] = [[]] * len(begun)
    return Made(done.images, to_bytes(begun), done.trace, done.steps, points, done.invalid, tried, tried)


def _each_run(total: int, lanes: Tensor, rows: int) -> Tensor:
    """What each run took, over its rows."""
    return spread_costs(torch.full((len(lanes),), total), torch.arange(len(lanes)).repeat_interleave(rows))


def judging(basket: Basket, names: Sequence[str]) -> Callable[[Tensor], Tensor]:
    """How images (n, channels, height, width) on 8 bits are shown to these networks, for logits (networks, n, classes):
    on a CPU, where there are convolutions, of equal images (a sixth of all that evolve for MNIST) one."""
    parts = [part for name in names for part in getattr(basket.network(name), "modules", list)()]
    if basket.device.type != "cpu" or not any(isinstance(part, nn.Conv2d) for part in parts):
        return lambda images: basket.judge(images, names)

    def judge(images: Tensor) -> Tensor:
        rows, back = distinct(images)
        shown = images if rows is back else images.index_select(0, rows)
        return basket.judge(shown, names).index_select(1, back)

    return judge


def distinct(images: Tensor) -> tuple[Tensor, Tensor]:
    """Of images on 8 bits the rows (k,) of those that differ, and (n,) which of these each is equal to."""
    count = torch.arange(len(images), device=images.device)
    pixels = to_bytes(images).flatten(1)
    pixels = F.pad(pixels, (0, -pixels.shape[1] % 8)).view(torch.int64)
    kinds, back = torch.unique((pixels * _odd(pixels.shape[1], images.device)).sum(1), return_inverse=True)
    if len(kinds) == len(images):
        return count, count
    rows = torch.full_like(kinds, len(images)).scatter_reduce_(0, back, count, "amin")
    same = torch.equal(pixels.index_select(0, rows).index_select(0, back), pixels)  # two may have one sum
    return (rows, back) if same else (count, count)


@cache
def _odd(count: int, device: torch.device) -> Tensor:
    """(count,) odd numbers, to tell rows of so many words apart by their sums."""
    return words(0, torch.zeros(1, dtype=torch.int64, device=device), stream="fool.distinct", count=count)[0] * 2 + 1
