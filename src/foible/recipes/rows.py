"""From what a search found to rows of findings. The harness judges again here: found means found on these pixels."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import interpolate

import foible
from foible.basket import Basket
from foible.findings import OUTCOMES, SCHEMA
from foible.images import LEAST_ROWS, encode_png, encode_pngs, to_bytes, to_floats
from foible.objectives import Objective, probabilities
from foible.realism import Realism
from foible.search.found import EXHAUSTED, FOUND, INVALID, Accepted, Found, Trials
from foible.search.shrink import kinds_of, shrink
from foible.spaces import is_box

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
    origin: dict[str, Any],
    labelled: bool,
    config: str,
    shrinks: bool = False,
    realism: Realism | None = None,
) -> pa.Table:
    """A row for each of the trials that `found` speaks of, by `foible.findings.SCHEMA`.

    origin: the columns origin_data, _split, _index and _file. labelled: the aims are known labels, not a consensus.
    """
    count, peers = len(trials.lanes), basket.peers(suspect)
    everyone, accepted = [suspect, *peers], found.accepted
    moves = torch.bincount(accepted.row, minlength=count)
    paths = accepted.draws.split(moves.tolist())
    seeds = to_floats(trials.seeds.to(basket.device))
    points, frames = retrace(space, seeds, paths, (found.outcome == FOUND).tolist())
    pixels = to_bytes(space.render(points)[:count])
    before, after = basket.judge(seeds, everyone), basket.judge(to_floats(pixels), everyone)
    outcome = _judged_again(objective, found.outcome, after, trials.aims).tolist()
    held = [row for row in range(count) if outcome[row] == FOUND]
    late = [row for row in held if not frames[row]]  # made by rounding: film them too
    if late:
        _, films = retrace(space, seeds[late], [paths[row] for row in late], [True] * len(late))
        for row, film in zip(late, films, strict=True):
            frames[row] = film
    slack = getattr(objective, "slack", None)
    score = None if slack is None else slack(after, trials.aims.to(after.device)).amin(0).cpu().numpy()
    aims = trials.aims.tolist()
    # Without labels the class aimed at: that is what replay and reports go by, also where the peers end up differing.
    consensus = _agreed(after[1:]) if labelled else aims
    before, after = (probabilities(logits).transpose(0, 1).cpu() for logits in (before, after))
    said = torch.where(after[:, 0].isnan().any(1), -1, after[:, 0].argmax(1)).tolist()
    start = before.gather(2, trials.aims[:, None, None].expand(-1, len(everyone), 1))[..., 0]
    kinds = kinds_of(space, type(points)(*(field[:count] for field in points)))
    columns: dict[str, Any] = {
        "id": _ids(suspect, trials.lanes.tolist(), found.trial is not None),
        "config": [config] * count,
        "suspect": [suspect] * count,
        "networks": [everyone] * count,
        "lane": trials.lanes.numpy(),
        "outcome": [OUTCOMES[value] for value in outcome],
        "tags": [[]] * count,
        "image": encode_pngs(pixels.cpu().numpy()),
        "origin": encode_pngs(to_bytes(seeds).cpu().numpy()),
        **origin,
        "truth": aims if labelled else [None] * count,
        "label_from": ["label" if labelled else "consensus"] * count,
        "consensus": consensus,
        "said": [None if value < 0 else value for value in said],
        "before": as_nested(before),
        "after": as_nested(after),
        "moves": moves.numpy(),
        "candidates": found.candidates.numpy(),
        "forwards": found.forwards.numpy(),
        "backwards": found.backwards.numpy(),
        "path": _path(accepted, moves),
        "trace": _trace(start, accepted, moves),
        "point": _flat(points, count),
        "change": _described(space, points, count),
        "score": score,
        "size": _sizes(space, points, count),
        "realism": None if realism is None else realism.score(to_floats(pixels)).cpu().numpy(),
        "kinds": kinds,
        **(_least(space, objective, basket, seeds, trials.aims, paths, held, suspect, kinds) if shrinks else {}),
        **({"kinds": kinds} if found.trial is not None else {}),  # an atlas keeps apart what it found, as it found it
        "film": [
            encode_png(np.concatenate(film, 2)) if state == FOUND else None
            for film, state in zip(frames, outcome, strict=True)
        ],
        "versions": [versions(basket.device)] * count,
    }
    return as_table(columns, count)


def as_table(columns: dict[str, Any], count: int) -> pa.Table:
    """Columns of `count` rows by `foible.findings.SCHEMA`; one that is not there is null."""
    arrays = []
    for field in SCHEMA:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(values.cast(field.type) if isinstance(values, pa.Array) else pa.array(values, field.type))
    return pa.table(arrays, schema=SCHEMA)


def _ids(suspect: str, lanes: list[int], several: bool) -> list[str]:
    """A name for each row: suspect and lane, and where a lane may have several rows, which of them."""
    if not several:
        return [f"{suspect}-{lane:06d}" for lane in lanes]
    seen: dict[int, int] = {}
    named = []
    for lane in lanes:
        named.append(f"{suspect}-{lane:06d}-{seen.get(lane, 0)}")
        seen[lane] = seen.get(lane, 0) + 1
    return named


def _least(
    space: Any, objective: Objective, basket: Basket, seeds: Tensor, aims: Tensor, paths: Sequence[Tensor],
    rows: list[int], suspect: str, kinds: list[list[str]],
) -> dict[str, Any]:  # fmt: skip
    """The columns of the least change that still holds, for these rows (the found ones); for the others null, and
    their own kinds."""
    if not rows:
        return {}
    shrunk = shrink(space, objective, basket, seeds[rows], aims[rows], [paths[row] for row in rows], suspect=suspect)
    described = _described(space, shrunk.points, len(rows))
    changes = described.to_pylist() if isinstance(described, pa.Array) else described
    made = {
        "kinds": shrunk.kinds,
        "least_path": [path.tolist() for path in shrunk.paths],
        "least_image": encode_pngs(to_bytes(shrunk.images).cpu().numpy()),
        "least_change": changes,
        "least_forwards": shrunk.forwards.tolist(),
    }
    columns: dict[str, Any] = {name: [None] * len(paths) for name in made} | {"kinds": list(kinds)}
    for name, values in made.items():
        for row, value in zip(rows, values, strict=True):
            columns[name][row] = value
    return columns


def _sizes(space: Any, points: Any, count: int) -> Any:
    """How far each point is from its start, in largest moves; None where the space is no box."""
    if not is_box(space):
        return None
    return (2 * space.draws_of(points)[:count].double() - 1).norm(dim=1).float().cpu().numpy()


def _judged_again(objective: Objective, claimed: Tensor, after: Tensor, aims: Tensor) -> Tensor:
    """The final pixels decide: a claim that they do not bear out is no finding, and one that only rounding to 8 bits
    made is one. An answer that is not a number is `invalid`."""
    holds = objective.found(after, aims.to(after.device)).cpu()
    outcome = torch.where(claimed == INVALID, INVALID, torch.where(holds, FOUND, EXHAUSTED))
    return torch.where(after.isfinite().all(2).all(0).cpu(), outcome, INVALID)


def _agreed(peers: Tensor) -> list[int | None]:
    """The class that all peers' logits (peers, n, classes) prefer; None where they differ, or where nobody is asked."""
    votes: list[list[int]] = peers.argmax(2).t().tolist()
    return [said[0] if len(set(said)) == 1 else None for said in votes]


def as_offsets(lengths: Tensor) -> pa.Array:
    return pa.array(torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32).numpy())


def as_lists(values: Tensor) -> pa.Array:
    """(n, k) as n lists of k floats."""
    lengths = torch.full((len(values),), values.shape[1])
    return pa.ListArray.from_arrays(as_offsets(lengths), pa.array(values.float().flatten().numpy()))


def as_nested(values: Tensor) -> pa.Array:
    """(n, networks, classes) as lists of lists."""
    return pa.ListArray.from_arrays(
        as_offsets(torch.full((len(values),), values.shape[1])), as_lists(values.flatten(0, 1))
    )


def _path(accepted: Accepted, moves: Tensor) -> pa.Array:
    steps = pa.array(accepted.step.to(torch.int32).numpy())
    return pa.ListArray.from_arrays(
        as_offsets(moves), pa.StructArray.from_arrays([steps, as_lists(accepted.draws)], ["step", "draws"])
    )


def _trace(start: Tensor, accepted: Accepted, moves: Tensor) -> pa.Array:
    """The start (n, networks) before the accepted moves of each row."""
    rows = torch.cat([torch.arange(len(start)), accepted.row])
    order = rows.argsort(stable=True)  # each start stands before its moves, which are in order already
    return pa.ListArray.from_arrays(as_offsets(moves + 1), as_lists(torch.cat([start, accepted.trace])[order]))


def _described(space: Any, points: Any, count: int) -> pa.Array | list[Any]:
    """The change in human units, where the space can say it."""
    describe = getattr(space, "describe", None)
    if describe is None:
        return [[] for _ in range(count)]
    parts = describe(points)
    values = torch.stack([part[:count].float() for part in parts.values()], 1).cpu()
    offsets = as_offsets(torch.full((count,), len(parts)))
    return pa.MapArray.from_arrays(offsets, pa.array(list(parts) * count), pa.array(values.flatten().numpy()))


def _flat(points: Any, count: int) -> pa.Array | list[Any]:
    fields = [field for name, field in zip(points._fields, points, strict=True) if name != "image"]
    if not fields:
        return [[] for _ in range(count)]
    return as_lists(torch.cat([field.float().reshape(len(field), -1) for field in fields], 1)[:count].cpu())
