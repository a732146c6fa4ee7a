"""MAP-Elites over classes (paper 5): every class is a cell, every child challenges the elite of every class, and the
parents are drawn evenly from the elites.

    fresh genomes → images → scores for every class → whoever is better than its elite takes its place
    elites → children → …

A lane is one evolution with its own archive; lanes share batches and never touch. Draws depend on the seed, the lane,
the generation and the child's number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from foible.images import settle
from foible.randomness import uniforms
from foible.search.task import some_rows

Draw = Callable[[str, int], Tensor]
Shape = tuple[int, int, int]


class Encoding(Protocol):
    """How an image is written down: a NamedTuple of tensors, one row a genome."""

    def fresh(self, draw: Draw, shape: Shape) -> Any: ...
    def children(self, parents: Any, mates: Any, draw: Draw, shape: Shape) -> Any: ...
    def render(self, genomes: Any, shape: Shape, size: tuple[int, int] | None = None) -> Tensor: ...
    def written(self, genomes: Any, shape: Shape) -> list[list[float]]: ...


class Evolved(NamedTuple):
    """The archives of R lanes with C cells each, after the last generation."""

    genomes: Any  # R · C rows, a lane's cells together
    score: Tensor  # (R, C); −inf where nobody stands
    first: Any  # the same after the first generation
    trace: Tensor  # (marks, R, C): scores after the marked generations
    marks: tuple[int, ...]
    last: int  # generations done
    broken: Tensor  # (R,) children that a network answered with NaN or infinity


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
    watch: Callable[[int, Any], None] | None = None,
    tick: Callable[[float], None] | None = None,
) -> Evolved:
    """Evolve an archive for each of the lanes (R,), on their device.

    every: images (n, *shape) on 8 bits -> scores (n, classes), NaN where there is no answer. rows: images at once.
    watch(generation, genomes of all cells) is called after each marked generation. tick hears of lanes as the work
    goes on.
    """
    marks = marks_of(generations)
    device, count = lanes.device, len(lanes)
    members = torch.arange(population, device=device)
    lane_of = torch.arange(count, device=device)[:, None]
    genomes: Any = None
    score = torch.empty(0)
    first: Any = None
    kept: list[Tensor] = []
    broken = torch.zeros(count, dtype=torch.int64, device=device)
    for generation in range(1, generations + 1):

        def draw(what: str, many: int, step: int = generation) -> Tensor:
            drawn = uniforms(seed, lanes[:, None], step, member=members, stream=f"fool.{what}", count=many)
            return drawn.flatten(0, 1)

        if genomes is None:
            children = encoding.fresh(draw, shape)
        else:
            cells = score.shape[1]
            who = (draw("parents", 2) * cells).long().view(count, population, 2) + (lane_of * cells)[..., None]
            parents, mates = (some_rows(genomes, who[..., place].flatten()) for place in (0, 1))
            children = encoding.children(parents, mates, draw, shape)
        reached = _scores(encoding, every, children, shape, rows).view(count, population, -1)
        bad = reached.isnan().any(2)
        broken += bad.sum(1)
        best = reached.masked_fill(bad[..., None], -torch.inf).max(1)
        winner = (best.indices + lane_of * population).flatten()
        if genomes is None:
            genomes, score = some_rows(children, winner), best.values
            first = genomes
        else:
            better = best.values > score
            score = torch.where(better, best.values, score)
            genomes = _replaced(genomes, children, winner, better.flatten())
        if generation in marks:
            kept.append(score)
            if watch is not None:
                watch(generation, genomes)
        if tick is not None:
            tick(count / generations)
    return Evolved(genomes, score, first, torch.stack(kept), marks, generations, broken)


def _scores(encoding: Encoding, every: Callable[[Tensor], Tensor], genomes: Any, shape: Shape, rows: int) -> Tensor:
    """(n, classes), of images as a PNG would hold them, so many at once."""
    total = len(genomes[0])
    parts: Sequence[Any] = [genomes]
    if total > rows:
        parts = [type(genomes)(*(field[at : at + rows] for field in genomes)) for at in range(0, total, rows)]
    said = [every(settle(encoding.render(part, shape))) for part in parts]
    return said[0] if len(said) == 1 else torch.cat(said)


def _replaced(old: Any, new: Any, rows: Tensor, better: Tensor) -> Any:
    """Genomes (cells), where `better` those of `new` at `rows`."""
    fields = []
    for was, now in zip(old, new, strict=True):
        mask = better.view(-1, *[1] * (was.ndim - 1))
        fields.append(torch.where(mask, now.index_select(0, rows), was))
    return type(old)(*fields)
