"""From what a search found to rows of findings. The harness judges again here: found means found on these pixels."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import interpolate

import foible
from foible.basket import Basket
from foible.findings import OUTCOMES, SCHEMA
from foible.images import LEAST_ROWS, encode_png, to_bytes, to_floats
from foible.objectives import Objective, probabilities
from foible.search.found import EXHAUSTED, FOUND, INVALID, Found, Trials

FILM_HEIGHT = 64  # frames of a film are shrunk to at most this


def versions(device: torch.device) -> str:
    """What made a row, as JSON."""
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    made = {
        "foible": foible.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": kind,
    }
    return json.dumps(made)


def retrace(
    space: Any, seeds: Tensor, paths: Sequence[Tensor], *, film: bool = False
) -> tuple[Any, list[list[Tensor]]]:
    """Walk each row's path (moves, draws) again from its seed: where it ends, and each step as uint8 frames.

    All rows take their j-th move together. Batches are padded to the same least number of rows as everywhere.
    """
    rows = len(seeds)
    if rows < LEAST_ROWS:
        seeds = torch.cat([seeds, seeds[-1:].expand(LEAST_ROWS - rows, *seeds.shape[1:])])
        paths = [*paths, *[paths[-1]] * (LEAST_ROWS - rows)]
    points = space.start(seeds)
    frames: list[list[Tensor]] = [[_thumbnail(image)] if film else [] for image in seeds[:rows]]
    for j in range(max((len(path) for path in paths), default=0)):
        index = torch.tensor([row for row, path in enumerate(paths) if len(path) > j], device=seeds.device)
        spare = torch.cat([index, index[-1:].expand(max(0, LEAST_ROWS - len(index)))])
        drawn = torch.stack([paths[row][j] for row in spare.tolist()]).to(seeds.device)
        moved = space.move(type(points)(*(field.index_select(0, spare) for field in points)), drawn)
        fields = []
        for old, new in zip(points, moved, strict=True):
            fields.append(old.index_copy(0, index, new[: len(index)]))
        points = type(points)(*fields)
        if film:
            images = space.render(moved)[: len(index)]
            for row, image in zip(index.tolist(), images, strict=True):
                if row < rows:
                    frames[row].append(_thumbnail(image))
    return points, frames


def _thumbnail(image: Tensor) -> Tensor:
    if image.shape[1] > FILM_HEIGHT:
        size = (FILM_HEIGHT, max(1, round(image.shape[2] * FILM_HEIGHT / image.shape[1])))
        image = interpolate(image[None], size, mode="area")[0]
    return to_bytes(image)


@torch.no_grad()
def make_rows(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    found: Found,
    *,
    suspect: str,
    origin: dict[str, Any],
    truth: list[int | None],
    config: str,
) -> pa.Table:
    """One row a trial, by `foible.findings.SCHEMA`. `origin` holds the columns origin_data, _split and _index."""
    count, peers = len(trials.lanes), basket.peers(suspect)
    everyone = [suspect, *peers]
    ends = torch.bincount(found.accepted.row, minlength=count).cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    paths = [found.accepted.draws[start:end] for start, end in zip(starts, ends, strict=True)]
    seeds = to_floats(trials.seeds.to(basket.device))
    points, _ = retrace(space, seeds, paths)
    pixels = to_bytes(space.render(points)[:count])
    before, after = basket.judge(seeds, everyone), basket.judge(to_floats(pixels), everyone)
    outcome = _judged_again(objective, found.outcome, after, trials.aims)
    films = _films(space, seeds, paths, outcome)
    described = _described(space, points, count)
    said = torch.where(after[0].isfinite().all(1), after[0].argmax(1), -1).cpu()
    voted = after[1:].argmax(2).cpu()
    agreed = (voted == voted[:1]).all(0) if peers else torch.zeros(count, dtype=torch.bool)
    consensus = voted[0] if peers else torch.zeros(count, dtype=torch.int64)
    before_p, after_p = (probabilities(logits).transpose(0, 1).cpu() for logits in (before, after))
    first = before_p.gather(2, trials.aims.cpu()[:, None, None].expand(-1, len(everyone), 1))[..., 0]
    pixels, seed_pixels = pixels.cpu(), to_bytes(seeds).cpu()
    steps = found.accepted.step.tolist()
    columns: dict[str, Any] = {
        "id": [f"{suspect}-{lane:06d}" for lane in trials.lanes.tolist()],
        "config": [config] * count,
        "suspect": [suspect] * count,
        "networks": [everyone] * count,
        "lane": trials.lanes.tolist(),
        "outcome": [OUTCOMES[value] for value in outcome.tolist()],
        "image": [encode_png(image) for image in pixels.numpy()],
        "origin": [encode_png(image) for image in seed_pixels.numpy()],
        **origin,
        "truth": truth,
        "consensus": [int(vote) if same else None for vote, same in zip(consensus, agreed, strict=True)],
        "said": [None if value < 0 else value for value in said.tolist()],
        "before": before_p.tolist(),
        "after": after_p.tolist(),
        "moves": [end - start for start, end in zip(starts, ends, strict=True)],
        "candidates": found.candidates.tolist(),
        "forwards": found.forwards.tolist(),
        "backwards": found.backwards.tolist(),
        "path": [
            [{"step": step, "draws": draws} for step, draws in zip(steps[start:end], path.tolist(), strict=True)]
            for start, end, path in zip(starts, ends, paths, strict=True)
        ],
        "trace": [
            [first[row].tolist(), *found.accepted.trace[start:end].tolist()]
            for row, (start, end) in enumerate(zip(starts, ends, strict=True))
        ],
        "point": _flat(points, count),
        "change": described,
        "film": films,
        "versions": [versions(basket.device)] * count,
    }
    return pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names}, schema=SCHEMA)


def _judged_again(objective: Objective, claimed: Tensor, after: Tensor, aims: Tensor) -> Tensor:
    """A claim that the final pixels do not bear out is not a finding; an answer that is not a number is `invalid`."""
    holds = objective.found(after, aims.to(after.device)).cpu()
    outcome = torch.where((claimed == FOUND) & ~holds, EXHAUSTED, claimed)
    return torch.where(after.isfinite().all(2).all(0).cpu(), outcome, INVALID)


def _films(space: Any, seeds: Tensor, paths: list[Tensor], outcome: Tensor) -> list[bytes | None]:
    films: list[bytes | None] = [None] * len(paths)
    index = (outcome == FOUND).nonzero()[:, 0]
    if len(index):
        chosen = [paths[row] for row in index.tolist()]
        _, frames = retrace(space, seeds.index_select(0, index.to(seeds.device)), chosen, film=True)
        for row, film in zip(index.tolist(), frames, strict=True):
            films[row] = encode_png(torch.cat([frame.cpu() for frame in film], 2))
    return films


def _described(space: Any, points: Any, count: int) -> list[list[tuple[str, float]]]:
    """The change in human units, where the space can say it."""
    describe = getattr(space, "describe", None)
    if describe is None:
        return [[] for _ in range(count)]
    parts = {name: values.tolist() for name, values in describe(points).items()}
    return [[(name, values[row]) for name, values in parts.items()] for row in range(count)]


def _flat(points: Any, count: int) -> list[list[float]]:
    fields = [field for name, field in zip(points._fields, points, strict=True) if name != "image"]
    if not fields:
        return [[] for _ in range(count)]
    numbers: list[list[float]] = torch.cat([field.float().flatten(1) for field in fields], 1)[:count].tolist()
    return numbers
