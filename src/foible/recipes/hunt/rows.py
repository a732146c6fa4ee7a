"""From what a search found to rows of findings. The harness judges again here: found means found on these pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.data import Dataset, Photographs
from foible.findings import OUTCOMES
from foible.findings.rows import (
    Columns,
    answered,
    as_pngs,
    as_table,
    cost,
    described,
    ended,
    identity,
    origin,
    place,
    walked,
)
from foible.images import LEAST_ROWS, encode_png, to_bytes, to_floats
from foible.objectives import Objective, of_class, probabilities, slack_of
from foible.realism import Realism
from foible.search.shrink import shrink
from foible.search.task import EXHAUSTED, FOUND, INVALID, Found, Trials

FILM_HEIGHT = 64  # frames of a film are shrunk to at most this


def retrace(
    space: Any, seeds: Tensor, paths: Sequence[Tensor], filmed: Sequence[bool] | None = None
) -> tuple[Any, list[list[np.ndarray]]]:
    """Walk each row's path (moves, draws) again from its seed: where it ends, and frames (uint8) of the filmed rows.

    All rows take their j-th move together. Batches are padded to the same least number of rows as everywhere.
    """
    count = len(paths)
    filmed = [False] * count if filmed is None else filmed
    if count < LEAST_ROWS:
        seeds = torch.cat([seeds, seeds[-1:].expand(LEAST_ROWS - count, *seeds.shape[1:])])
    points = space.start(seeds)
    frames: list[list[np.ndarray]] = [[] for _ in range(count)]
    for row, frame in enumerate(_thumbnails(seeds[:count]) if any(filmed) else []):
        if filmed[row]:
            frames[row].append(frame)
    lengths = [len(path) for path in paths]
    for j in range(max(lengths, default=0)):
        rows = [row for row, length in enumerate(lengths) if length > j]
        index = torch.tensor(rows, device=seeds.device)
        spare = torch.cat([index, index[-1:].expand(max(0, LEAST_ROWS - len(rows)))])
        drawn = torch.stack([paths[row][j] for row in rows]).to(seeds.device)
        drawn = torch.cat([drawn, drawn[-1:].expand(len(spare) - len(rows), -1)])
        here = type(points)(*(field.index_select(0, spare) for field in points))
        moved = space.move(here, drawn)
        points = type(points)(
            *(
                old if new is same else old.index_copy(0, index, new[: len(rows)])
                for old, same, new in zip(points, here, moved, strict=True)
            )
        )
        shown = [place for place, row in enumerate(rows) if filmed[row]]
        if shown:
            padded = torch.tensor(shown + shown[-1:] * (LEAST_ROWS - len(shown)), device=seeds.device)
            images = space.render(type(points)(*(field.index_select(0, padded) for field in moved)))
            for place, frame in zip(shown, _thumbnails(images[: len(shown)]), strict=True):
                frames[rows[place]].append(frame)
    return points, frames


def _thumbnails(images: Tensor) -> np.ndarray:
    height, width = images.shape[2:]
    if height > FILM_HEIGHT:
        images = interpolate(images, (FILM_HEIGHT, max(1, round(width * FILM_HEIGHT / height))), mode="area")
    pixels: np.ndarray = to_bytes(images).cpu().numpy()
    return pixels


@torch.no_grad()
def make_rows(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    found: Found,
    *,
    suspect: str,
    data: Dataset | Photographs,
    index: Tensor,
    labelled: bool,
    config: str,
    shrinks: bool = False,
    realism: Realism | None = None,
) -> pa.Table:
    """A row for each of the trials that `found` speaks of, by `foible.findings.table.SCHEMA`.

    index: (n,) where in the data the seed images stand. labelled: the aims are known labels, not a consensus.
    """
    count, aims, several = len(trials.lanes), trials.aims, found.trial is not None
    everyone, accepted = [suspect, *basket.peers(suspect)], found.accepted
    moves = torch.bincount(accepted.row, minlength=count)
    paths = accepted.draws.split(moves.tolist())
    seeds = to_floats(trials.seeds.to(basket.device))
    points, frames = retrace(space, seeds, paths, (found.outcome == FOUND).tolist())
    pixels = to_bytes(space.render(points)[:count])
    before, after = basket.judge(seeds, everyone), basket.judge(to_floats(pixels), everyone)
    outcome = _judged_again(objective, found.outcome, after, aims)
    held = (outcome == FOUND).nonzero()[:, 0].tolist()
    late = [row for row in held if not frames[row]]  # made by rounding: film them too
    if late:
        _, films = retrace(space, seeds[late], [paths[row] for row in late], [True] * len(late))
        for row, film in zip(late, films, strict=True):
            frames[row] = film
    slack = slack_of(objective, after, aims.to(after.device))
    said = answers(after.cpu())
    before, after = (probabilities(logits).cpu() for logits in (before, after))
    lanes, at = trials.lanes.tolist(), place(space, points, count)
    least: Columns = {}
    if shrinks and held:
        least = _least(space, objective, basket, seeds, aims, paths, held, suspect, at["kinds"])
    if several:
        least.pop("kinds", None)  # an atlas keeps apart what it found, as it found it
    return as_table(
        identity(
            [everyone] * count, lanes, config=config, device=basket.device, which=_nth(lanes) if several else None
        ),
        origin(data, index.tolist(), as_pngs(to_bytes(seeds))),
        # Without labels the class aimed at: what replay and reports go by, also where the peers end up differing.
        answered(
            before, after, said, truth=aims if labelled else None, label_from="label" if labelled else "consensus",
            consensus=None if labelled else aims,
        ),
        cost(found.forwards, found.backwards, candidates=found.candidates, moves=moves),
        walked(accepted, moves, start=of_class(before, aims).t()),
        at,
        ended(
            [OUTCOMES[value] for value in outcome.tolist()], as_pngs(pixels),
            score=None if slack is None else slack.amin(0),
            realism=None if realism is None else realism.score(to_floats(pixels)),
        ),
        least,
        {"film": _films(frames, held)},
        count=count,
    )  # fmt: skip


def _nth(lanes: Sequence[int]) -> list[int]:
    """Where a lane may have several rows, which of them each is."""
    seen: dict[int, int] = {}
    places = []
    for lane in lanes:
        places.append(seen.get(lane, 0))
        seen[lane] = places[-1] + 1
    return places


def _least(
    space: Any, objective: Objective, basket: Basket, seeds: Tensor, aims: Tensor, paths: Sequence[Tensor],
    rows: list[int], suspect: str, kinds: list[list[str]],
) -> Columns:  # fmt: skip
    """The columns of the least change that still holds, for these rows (the found ones); for the others null, and
    their own kinds."""
    shrunk = shrink(space, objective, basket, seeds[rows], aims[rows], [paths[row] for row in rows], suspect=suspect)
    made = {
        "kinds": shrunk.kinds,
        "least_path": [path.tolist() for path in shrunk.paths],
        "least_image": as_pngs(to_bytes(shrunk.images)).to_pylist(),
        "least_change": described(space, shrunk.points, len(rows)).to_pylist(),
        "least_forwards": shrunk.forwards.tolist(),
    }
    columns: Columns = {name: [None] * len(paths) for name in made} | {"kinds": list(kinds)}
    for name, values in made.items():
        for row, value in zip(rows, values, strict=True):
            columns[name][row] = value
    return columns


def _films(frames: Sequence[Sequence[np.ndarray]], rows: Sequence[int]) -> list[bytes | None]:
    """PNGs of these rows' frames side by side."""
    films: list[bytes | None] = [None] * len(frames)
    for row in rows:
        films[row] = encode_png(np.concatenate(frames[row], 2))
    return films


def _judged_again(objective: Objective, claimed: Tensor, after: Tensor, aims: Tensor) -> Tensor:
    """The final pixels decide: a claim that they do not bear out is no finding, and one that only rounding to 8 bits
    made is one. An answer that is not a number is `invalid`."""
    holds = objective.found(after, aims.to(after.device)).cpu()
    outcome = torch.where(claimed == INVALID, INVALID, torch.where(holds, FOUND, EXHAUSTED))
    return torch.where(after.isfinite().all(2).all(0).cpu(), outcome, INVALID)
