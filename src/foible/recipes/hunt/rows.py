"""From what a search found to rows of findings. The harness judges again here: found means found on these pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.basket.precision import noise
from foible.data import Dataset, Photographs
from foible.findings import OUTCOMES
from foible.findings.rows import (
    Columns,
    answered,
    as_film,
    as_lists,
    as_offsets,
    as_pngs,
    as_table,
    cost,
    described,
    ended,
    identity,
    judged_again,
    origin,
    place,
    spread,
    thumbnails,
    walked,
)
from foible.findings.telling import best_of_each, telling
from foible.images import to_bytes, to_floats
from foible.objectives import Objective, of_class, probabilities, slack_of
from foible.progress import Stages
from foible.realism import Realism
from foible.search.shrink import Shrunk, shrink
from foible.search.task import EXHAUSTED, FOUND, Accepted, Found, Trials
from foible.search.walking import Paths, recorded, retrace


def film(space: Any, seeds: Tensor, paths: Paths) -> list[bytes]:
    """Of each row a PNG: its seed image and what every move of its path (moves, draws) made of it, side by side."""
    frames = [[frame] for frame in thumbnails(seeds)]

    def seen(rows: Tensor, points: Any) -> None:
        for row, frame in zip(rows.tolist(), thumbnails(space.render(points)[: len(rows)]), strict=True):
            frames[row].append(frame)

    retrace(space, seeds, paths, seen)
    return [as_film(each) for each in frames]


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
    going: Stages | None = None,
    smallest: Callable[..., Shrunk] = shrink,
) -> Callable[[], pa.Table]:
    """A row for each of the trials that `found` speaks of, by `foible.findings.SCHEMA`. All that networks have to say
    is asked here; the function that is given back puts it together.

    index: (n,) where in the data the seed images stand. labelled: the aims are known labels, not a consensus. Of a
    trial that found nothing a row keeps what it takes to see it again: the place of its seed image, and its path.
    going: hears how far this is. smallest: what makes a find's change as small as can be, where that is asked for.
    """
    going = going or Stages()
    count, aims, several = len(trials.lanes), trials.aims, found.trial is not None
    everyone, accepted = [suspect, *basket.peers(suspect)], found.accepted
    moves = torch.bincount(accepted.row, minlength=count)
    paths = Paths(accepted.draws, moves)
    seeds = to_floats(trials.seeds.to(basket.device))
    points, pixels = recorded(space, trials.seeds.to(basket.device), paths, precise=seeds.is_cuda)
    before, after = basket.judge(seeds, everyone), basket.judge(to_floats(pixels), everyone)
    firm = noise(basket, to_floats(pixels), everyone) if pixels.is_cuda else 0.0
    slack = slack_of(objective, after, aims.to(after.device))
    outcome = judged_again(objective, found.outcome, after, aims, None if slack is None else slack.amin(0) > firm)
    held, kept = ((outcome == FOUND).nonzero()[:, 0], (outcome != EXHAUSTED).nonzero()[:, 0])
    said = answers(after.cpu())
    before, after = (probabilities(logits).cpu() for logits in (before, after))
    lanes, at, start = trials.lanes.tolist(), place(space, points, count), of_class(before, aims).t()
    seen, begun = pixels[kept.to(pixels.device)], seeds[kept.to(seeds.device)]
    images, origins = _pngs(seen), _pngs(to_bytes(begun))
    typical = None if realism is None else realism.score(to_floats(seen), begun).cpu()
    films = _films(space, seeds, paths, accepted, start, aims, held)
    going.done("rows")
    least: Callable[[], Columns] = dict
    if shrinks and len(held):
        first = seeds[held.to(seeds.device)]
        shrunk = smallest(
            space, objective, basket, first, aims[held], paths[held], suspect=suspect,
            tick=going.tick("shrink", len(held) / max(1, count)),
        )  # fmt: skip
        least = _least(space, shrunk, held, None if several else at["kinds"], count)

    def table() -> pa.Table:
        return as_table(
            identity(
                [everyone] * count, lanes, config=config, device=basket.device, which=_nth(lanes) if several else None
            ),
            origin(data, index.tolist(), spread(origins(), kept, count)),
            # Without labels the class aimed at: what replay and reports go by, also where the peers end up differing.
            answered(
                before, after, said, truth=aims if labelled else None,
                label_from="label" if labelled else "consensus", consensus=None if labelled else aims,
            ),
            cost(found.forwards, found.backwards, candidates=found.candidates, moves=moves),
            walked(accepted, moves, start, kept),
            at,
            ended(
                [OUTCOMES[value] for value in outcome.tolist()], spread(images(), kept, count),
                score=None if slack is None else slack.amin(0),
                realism=None if typical is None else spread(pa.array(typical.numpy()), kept, count),
            ),
            least(),
            {"film": films},
            count=count,
        )  # fmt: skip

    return table


def _pngs(pixels: Tensor) -> Callable[[], pa.Array]:
    """As files, which are made beside what comes next where another device does the work."""
    if not pixels.is_cuda:
        return partial(as_pngs, pixels)
    pool = ThreadPoolExecutor(1)
    made = pool.submit(as_pngs, pixels.cpu())
    pool.shutdown(wait=False)
    return made.result


def _nth(lanes: Sequence[int]) -> list[int]:
    """Where a lane may have several rows, which of them each is."""
    seen: dict[int, int] = {}
    places = []
    for lane in lanes:
        places.append(seen.get(lane, 0))
        seen[lane] = places[-1] + 1
    return places


def _least(
    space: Any, shrunk: Shrunk, rows: Tensor, kinds: list[list[str]] | None, count: int
) -> Callable[[], Columns]:
    """The columns of the least change that still holds, for these of `count` rows; null in the others. kinds: of all
    rows, to be replaced by those of the least change; None leaves them alone, as in an atlas, which keeps apart what it
    found as it found it."""
    images, change = _pngs(to_bytes(shrunk.images)), described(space, shrunk.points, len(rows))

    def columns() -> Columns:
        paths = shrunk.paths
        made = {
            "least_path": pa.ListArray.from_arrays(as_offsets(paths.lengths), as_lists(paths.draws)),
            "least_image": images(),
            "least_change": change,
            "least_forwards": pa.array(shrunk.forwards.numpy()),
        }
        whole: Columns = {name: spread(values, rows, count) for name, values in made.items()}
        if kinds is not None:
            own = dict(zip(rows.tolist(), shrunk.kinds, strict=True))
            whole["kinds"] = [own.get(row, those) for row, those in enumerate(kinds)]
        return whole

    return columns


def _films(
    space: Any, seeds: Tensor, paths: Paths, accepted: Accepted, start: Tensor, aims: Tensor, held: Tensor
) -> pa.Array:
    """PNGs of the most telling of the rows that were found; null in the others."""
    moves = paths.lengths
    last = torch.where(moves > 0, len(paths) + moves.cumsum(0) - 1, torch.arange(len(paths)))
    ends = torch.cat([start, accepted.trace])[last]
    scores = telling(start[held].numpy(), ends[held].numpy(), 0, moves[held].numpy())
    rows = held[torch.from_numpy(best_of_each(scores, aims[held].numpy()))]
    films = film(space, seeds[rows.to(seeds.device)], paths[rows]) if len(rows) else []
    return spread(pa.array(films, pa.binary()), rows, len(paths))
