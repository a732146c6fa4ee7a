"""MAP-Elites over classes (paper 5): every class is a cell, every child challenges the elite of every class, and the
parents are drawn evenly from the elites.

    fresh genomes → images → scores for every class → whoever is better than its elite takes its place
    elites → children → …

A lane is one evolution with its own archive; lanes share batches and never touch. Draws depend on the seed, the lane,
the generation and the child's number: so an evolution that was broken off goes on from a checkpoint as if it had not
been.

The archive is not the atlas's (`archive.py`): here all cells are there from the first generation and every child
challenges each of them, so that a generation is one maximum over tensors. An atlas reaches its cells one by one, keeps
a path of moves with each elite and puts finds before stepping stones: as tensors it would need cells that are numbered
as they come and room that grows, for a handful of challengers a step, and be longer and slower than its dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from foible.errors import UserError
from foible.images import settle
from foible.networks.progress_file import Checkpoint
from foible.randomness import uniforms
from foible.records import COUNT, TEXT
from foible.search.task import some_rows

Draw = Callable[[str, int], Tensor]
Shape = tuple[int, int, int]
KEPT = {"generation": COUNT, "about": TEXT}  # beside the tensors of a checkpoint


class Encoding(Protocol):
    """How an image is written down: a NamedTuple of tensors, one row a genome."""

    def fresh(self, draw: Draw, shape: Shape) -> Any: ...
    def children(self, parents: Any, mates: Any, draw: Draw, shape: Shape) -> Any: ...
    def render(self, genomes: Any, shape: Shape, size: tuple[int, int] | None = None) -> Tensor: ...
    def written(self, genomes: Any, shape: Shape) -> list[list[float]]: ...

    def sound(self, genomes: Any, shape: Shape) -> bool:
        """Whether these can be drawn: they may be anybody's."""


class Evolved(NamedTuple):
    """The archives of R lanes with C cells each, after so many generations."""

    genomes: Any  # R · C rows, a lane's cells together
    score: Tensor  # (R, C); −inf where nobody stands
    first: Any  # the same after the first generation
    trace: Tensor  # (marks, R, C): scores after the marked generations
    way: Any  # genomes of the shown cells after each of these, mark after mark
    broken: Tensor  # (R,) children that a network answered with NaN or infinity
    marks: tuple[int, ...]
    last: int  # generations done


def marks_of(generations: int) -> tuple[int, ...]:
    """Generations after which scores are kept: 1, 2, 3, 5, 7, 10, 15, 20, 30, …, and the last."""
    steps = {int(unit * 10**power) for power in range(7) for unit in (1, 1.5, 2, 3, 5, 7) if unit * 10**power >= 1}
    return tuple(sorted({step for step in steps if step < generations} | {generations}))


@torch.no_grad()
def evolve(
    encoding: Encoding,
    every: Callable[[Tensor], Tensor],
    shape: Shape,
    lanes: Tensor,
    *,
    population: int,
    generations: int,
    seed: int = 0,
    rows: int = 4096,
    shown: Sequence[int] = (),
    tick: Callable[[float], None] | None = None,
    kept: Checkpoint | None = None,
    about: str = "",
) -> Evolved:
    """Evolve an archive for each of the lanes (R,), on their device.

    every: images (n, *shape) on 8 bits -> scores (n, classes), NaN where there is no answer. rows: images at once.
    shown: cells, counted over all lanes, whose genomes are noted after each marked generation. tick hears of lanes as
    the work goes on. kept: where evolution goes on from, and is noted from time to time; about: all that it depends on,
    as a hash.
    """
    marks, device, count = marks_of(generations), lanes.device, len(lanes)
    members = torch.arange(population, device=device)
    lane_of = torch.arange(count, device=device)[:, None]
    noted = torch.tensor(shown, dtype=torch.int64, device=device)

    def draws(generation: int) -> Draw:
        def draw(what: str, many: int) -> Tensor:
            drawn = uniforms(seed, lanes[:, None], generation, member=members, stream=f"fool.{what}", count=many)
            return drawn.flatten(0, 1)

        return draw

    def scores(children: Any) -> Tensor:
        return _scores(encoding, every, children, shape, rows)

    now = None
    if kept is not None and (had := _read(kept, about, generations)) is not None:
        fresh = encoding.fresh(draws(1), shape)
        now = _taken_up(*had, fresh, (count, scores(some_rows(fresh, members[:1])).shape[1]), len(noted), marks)
        if now is not None and not all(encoding.sound(some, shape) for some in (now.genomes, now.first, now.way)):
            now = None
    if now is not None and tick is not None:
        tick(count * now.last / generations)
    while now is None or now.last < generations:
        generation = 1 if now is None else now.last + 1
        draw = draws(generation)
        if now is None:
            children = encoding.fresh(draw, shape)
        else:
            cells = now.score.shape[1]
            who = (draw("parents", 2) * cells).long().view(count, population, 2) + (lane_of * cells)[..., None]
            parents, mates = (some_rows(now.genomes, who[..., place].flatten()) for place in (0, 1))
            children = encoding.children(parents, mates, draw, shape)
        reached = scores(children).view(count, population, -1)
        bad = reached.isnan().any(2)
        best = reached.masked_fill(bad[..., None], -torch.inf).max(1)
        winner = (best.indices + lane_of * population).flatten()
        if now is None:
            genomes = some_rows(children, winner)
            now = Evolved(
                genomes, best.values, genomes, best.values[None][:0], some_rows(genomes, noted[:0]), bad.sum(1),
                marks, generation,
            )  # fmt: skip
        else:
            better = best.values > now.score
            now = now._replace(
                genomes=_replaced(now.genomes, children, winner, better.flatten()),
                score=torch.where(better, best.values, now.score), broken=now.broken + bad.sum(1), last=generation,
            )  # fmt: skip
        if generation in marks:
            now = now._replace(
                trace=torch.cat([now.trace, now.score[None]]), way=_joined(now.way, some_rows(now.genomes, noted))
            )
        if tick is not None:
            tick(count / generations)
        if kept is not None and kept.due and generation < generations:
            kept.write(lambda held=now: _tensors(held), {"generation": generation, "about": about})  # type: ignore[misc]
    return now


def _scores(encoding: Encoding, every: Callable[[Tensor], Tensor], genomes: Any, shape: Shape, rows: int) -> Tensor:
    """(n, classes), of images as a PNG would hold them, so many at once."""
    said = [every(settle(encoding.render(part, shape))) for part in in_parts(genomes, rows)]
    return said[0] if len(said) == 1 else torch.cat(said)


def in_parts(genomes: Any, rows: int) -> list[Any]:
    """At most so many at once."""
    total = len(genomes[0])
    if total <= rows:
        return [genomes]
    return [type(genomes)(*(field[at : at + rows] for field in genomes)) for at in range(0, total, rows)]


def _replaced(old: Any, new: Any, rows: Tensor, better: Tensor) -> Any:
    """Genomes (cells), where `better` those of `new` at `rows`."""
    fields = []
    for was, now in zip(old, new, strict=True):
        mask = better.view(-1, *[1] * (was.ndim - 1))
        fields.append(torch.where(mask, now.index_select(0, rows), was))
    return type(old)(*fields)


def _joined(one: Any, other: Any) -> Any:
    return type(one)(*(torch.cat(both) for both in zip(one, other, strict=True)))


GENOMES = ("genomes", "first", "way")


def _tensors(now: Evolved) -> dict[str, Tensor]:
    """What a checkpoint holds."""
    named = {f"{name}.{key}": field for name in GENOMES for key, field in getattr(now, name)._asdict().items()}
    named |= {name: field.clone() for name, field in named.items() if name.startswith("first.")}  # may be the genomes
    return {"score": now.score, "trace": now.trace, "broken": now.broken, **named}


def _read(kept: Checkpoint, about: str, generations: int) -> tuple[dict[str, Tensor], int] | None:
    """What a checkpoint of this very evolution holds, and after which generation; None where there is none."""
    try:
        had = kept.read()
    except UserError:  # damaged: evolution begins anew, and the file is replaced
        return None
    if had is None or had[1]["about"] != about or not 0 < had[1]["generation"] < generations:
        return None
    return had[0], had[1]["generation"]


def _taken_up(
    held: dict[str, Tensor], last: int, like: Any, score: tuple[int, int], shown: int, marks: tuple[int, ...]
) -> Evolved | None:
    """Where an evolution stood; None where these are no tensors of it. like: some of its genomes. score: (R, C)."""
    seen, cells = sum(mark <= last for mark in marks), score[0] * score[1]
    wanted = {
        "score": (score, torch.float32), "trace": ((seen, *score), torch.float32), "broken": (score[:1], torch.int64)
    }  # fmt: skip
    for name, count in zip(GENOMES, (cells, cells, seen * shown), strict=True):
        for key, field in like._asdict().items():
            wanted[f"{name}.{key}"] = ((count, *field.shape[1:]), field.dtype)
    if {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in held.items()} != wanted:
        return None
    here = {name: tensor.to(like[0].device) for name, tensor in held.items()}
    genomes, first, way = (type(like)(*(here[f"{name}.{key}"] for key in like._fields)) for name in GENOMES)
    return Evolved(genomes, here["score"], first, here["trace"], way, here["broken"], marks, last)
