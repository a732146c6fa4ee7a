"""The way that a lane took through a box, from where it was seen on the way: as moves that lead there again."""

from __future__ import annotations

import torch
from torch import Tensor


def moves_along(
    rows: Tensor, step: Tensor, place: Tensor, found: Tensor, most: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(rows, steps, places, draws) of the moves that lead to where each lane was seen last: of one that was found at
    most about `most` of them, evenly, of the others one.

    rows, step: (m,) which lane was seen, and after which of its steps; place: (m, draws) where, in largest
    moves. Of two at one step the later counts. found: (lanes,) bool.
    """
    order = torch.argsort((rows << 32) + step, stable=True)
    rows, step, place = rows[order], step[order], place[order]
    last = torch.cat([rows[1:] != rows[:-1], torch.ones_like(rows[:1], dtype=torch.bool)])
    again = torch.cat([torch.zeros_like(last[:1]), (rows[1:] == rows[:-1]) & (step[1:] == step[:-1])])
    number = _within(rows)
    length = torch.bincount(rows, minlength=len(found))[rows].clamp_min(1)
    some = (number + 1) * most // length > number * most // length
    kept = last | (found[rows] & some)
    kept &= ~torch.cat([again[1:], torch.zeros_like(again[:1])])
    kept &= place.any(1) | last
    rows, step, place = rows[kept], step[kept], place[kept]
    begins = torch.cat([torch.ones_like(rows[:1], dtype=torch.bool), rows[1:] != rows[:-1]])
    before = torch.where(begins[:, None], 0.0, torch.cat([place[:1], place[:-1]]))
    moved = (place - before).abs().sum(1) > 0
    return rows[moved], step[moved], place[moved], (0.5 + 0.5 * (place - before))[moved]


def _within(rows: Tensor) -> Tensor:
    """(m,): of sorted row numbers, which one each is of its row."""
    places = torch.arange(len(rows), device=rows.device)
    begins = torch.cat([torch.ones_like(rows[:1], dtype=torch.bool), rows[1:] != rows[:-1]])
    return places - torch.where(begins, places, 0).cummax(0).values
