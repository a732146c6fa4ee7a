"""The smallest change in a box that a class is given for: `closest`, in the coordinates of a space.

A method for minimal distortions is not told which rows it asks about, and here the way from coordinates to pixels is
another one for every image. So each row carries its number as one more coordinate, between two bounds that are both
that number: nothing moves it, it is no part of any distance, and its slope is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.images import settle, to_floats
from foible.objectives import Objective
from foible.search.asking import Asker
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
    asker, count, draws = Asker(objective, basket, suspect), len(seeds), space.draws
    start = space.start(seeds)
    numbers = torch.arange(count, device=seeds.device, dtype=seeds.dtype)[:, None]
    low, high = (
        torch.cat([side * torch.tensor(space.reaches, device=seeds.device).expand(count, -1), numbers], 1)
        for side in (-1.0, 1.0)
    )

    def points_at(rows: Tensor, amounts: Tensor) -> Any:
        return space.move(some_rows(start, rows), 0.5 + 0.5 * amounts)

    def model(places: Tensor) -> Tensor:
        rows = places[:, -1].detach().round().long()
        return basket.judge(space.render(points_at(rows, places[:, :-1])), [suspect])[0]

    zero = torch.cat([torch.zeros(count, draws, device=seeds.device), numbers], 1)
    said = basket.judge(seeds, [suspect])[0].argmax(1)
    nearest = closest(model, zero, said, targets=aims, low=low, high=high, effort=effort)
    wanted, forwards = nearest.images[:, :-1], nearest.forwards.clone()
    known = 2 * space.draws_of(walk(space, seeds, *paths.padded(draws, seeds.device))) - 1
    amounts, open_rows = known.clone(), nearest.found.nonzero()[:, 0]
    for factor in BEYOND:
        open_rows = open_rows[factor * wanted[open_rows].norm(dim=1) < known[open_rows].norm(dim=1)]
        if not len(open_rows):
            break
        tried = factor * wanted[open_rows]
        holds, costs = asker.still_found(space.render(points_at(open_rows, tried)), aims[open_rows])
        forwards[open_rows] += costs
        amounts[open_rows[holds]] = tried[holds]
        open_rows = open_rows[~holds]
    moved = amounts.any(1)
    points = points_at(torch.arange(count, device=seeds.device), amounts)
    if tick is not None:
        tick(count)
    return Shrunk(
        Paths((0.5 + 0.5 * amounts)[moved].cpu(), moved.long().cpu()), points, settle(space.render(points)),
        forwards.cpu(), kinds_of(space, points),
    )  # fmt: skip
