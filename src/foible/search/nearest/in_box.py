"""The smallest change in a box that a class is given for: `closest`, in the coordinates of a space.

A method for minimal distortions is not told which rows it asks about, and here the way from coordinates to pixels is
another one for every image. So each row carries its number as one more coordinate, between two bounds that are both
that number: nothing moves it, it is no part of any distance, and its slope is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.images import settle, to_floats
from foible.objectives import Objective
from foible.search.asking import Asker
from foible.search.nearest import Nearest
from foible.search.nearest.closest import EFFORT, closest
from foible.search.shrink import Shrunk, kinds_of
from foible.search.task import some_rows
from foible.search.walking import Paths, walk

BEYOND = (1.0, 1.001, 1.003, 1.01, 1.03, 1.1, 1.3)  # the change is made so much larger until a PNG holds it


@torch.no_grad()
def nearest_in_box(
    space: Any,
    objective: Objective,
    basket: Basket,
    seeds: Tensor,
    aims: Tensor,
    paths: Paths,
    *,
    suspect: str,
    effort: int = EFFORT,
    tick: Callable[[int], None] | None = None,
) -> Shrunk:
    """For each row the smallest change (l2, in largest moves of the box) that is found on settled images, or the path
    that is given where that is smaller. Arguments as `shrink` takes them; the suspect must come to say `aims`."""
    seeds, aims = to_floats(seeds.to(basket.device)), aims.to(basket.device)
    asker, start = Asker(objective, basket, suspect), space.start(seeds)
    nearest = exactly_nearest(space, basket, start, seeds, aims, suspect=suspect, effort=effort)
    wanted, forwards = nearest.images, nearest.forwards.clone()
    known = 2 * space.draws_of(walk(space, seeds, *paths.padded(space.draws, seeds.device))) - 1
    amounts, open_rows = known.clone(), nearest.found.nonzero()[:, 0]
    for factor in BEYOND:
        open_rows = open_rows[factor * wanted[open_rows].norm(dim=1) < known[open_rows].norm(dim=1)]
        if not len(open_rows):
            break
        tried = factor * wanted[open_rows]
        images = space.render(space.move(some_rows(start, open_rows), 0.5 + 0.5 * tried))
        holds, costs = asker.still_found(images, aims[open_rows])
        forwards[open_rows] += costs
        amounts[open_rows[holds]] = tried[holds]
        open_rows = open_rows[~holds]
    moved = amounts.any(1)
    points = space.move(start, 0.5 + 0.5 * amounts)
    if tick is not None:
        tick(len(seeds))
    return Shrunk(
        Paths((0.5 + 0.5 * amounts)[moved].cpu(), moved.long().cpu()), points, settle(space.render(points)),
        forwards.cpu(), kinds_of(space, points),
    )  # fmt: skip


@torch.no_grad()
def exactly_nearest(
    space: Any, basket: Basket, start: Any, seeds: Tensor, aims: Tensor, *, suspect: str, effort: int = EFFORT
) -> Nearest:
    """The same before any rounding of pixels: `images` are amounts (n, draws), in largest moves. start: the points of
    the seeds (n, …), in [0, 1]."""
    count, draws = len(seeds), space.draws
    numbers = torch.arange(count, device=seeds.device, dtype=seeds.dtype)[:, None]
    low, high = (
        torch.cat([side * torch.tensor(space.reaches, device=seeds.device).expand(count, -1), numbers], 1)
        for side in (-1.0, 1.0)
    )
    last: list[Any] = [numbers[:0, 0], None]  # rows, and where they begin: a walk asks about the same ones many times

    def model(places: Tensor) -> Tensor:
        rows = places[:, -1].detach().round().long()
        if rows.is_cuda or not torch.equal(rows, last[0]):  # a GPU would have to be stopped for this look
            last[:] = rows, some_rows(start, rows)
        return basket.judge(space.render(space.move(last[1], 0.5 + 0.5 * places[:, :-1])), [suspect])[0]

    zero = torch.cat([torch.zeros(count, draws, device=seeds.device), numbers], 1)
    said = basket.judge(seeds, [suspect])[0].argmax(1)
    found = closest(model, zero, said, targets=aims, low=low, high=high, effort=effort)
    return replace(found, images=found.images[:, :-1])
