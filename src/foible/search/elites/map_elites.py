"""MAP-Elites (Mouret and Clune, 2015) over mistakes: one best example of each kind, not a thousand of one kind.

An archive has a cell for every right class × what the suspect said × kind of move × size of move (`cells`). Each step
draws elites from it as parents, or fresh seed images, moves them a little and renders them. The suspect is asked
about every child. The peers are asked about those that would enter their cell: it is empty, or its elite has a lower
score, or is not a mistake yet while the child is. What the peers allow goes in.

Every child has a cell. Where the suspect still is right, what it "said" is its strongest wrong class: such an elite is
no finding but a stepping stone. A stone never takes the place of a find.

This is a population: lanes touch by design. One call is one archive, and what a trial comes to depends on the others of
its call. Draws depend on the seed, the call's first lane, the step and the member.

In a box (`foible.spaces.Box`) a point is a place, and its path is the one move that leads there. Elsewhere a path grows
by a move a generation, the kind is the space's name, and the size is the number of moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.images import to_floats
from foible.objectives import Objective
from foible.randomness import integers
from foible.search.asking import Asker, trace_of
from foible.search.elites.archive import Archive, Cell, Elite, found_of
from foible.search.elites.variation import Children, variation_for
from foible.search.task import Found, Trials

DRAWN = 8  # of so many elites drawn evenly the best is the parent
FRESH = 10  # one child in so many comes straight from a seed image, once every seed image had a child
EACH = 250  # children a trial, in the mean, where neither steps nor a budget are given


@torch.no_grad()
def map_elites(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    steps: int | None = None,
    width: int = 500,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Fill one archive from all these trials' seed images, `width` children a step.

    steps: how many; by default as many as a budget allows, and without one 250 children a trial in the mean.
    budget: `forwards` for each trial, which all trials share; it is never exceeded.

    Rows of what is returned: every find of the archive, by trial; and for each trial that gave none, or that a network
    answered with NaN or infinity, a row that says so. A child's inferences are its trial's, and a trial's are spread
    evenly over its rows, so that the rows sum to all that was spent. `tick` hears of trials as the work goes on.
    """
    if width < 1 or (steps is not None and steps < 1):
        raise UserError(f"width is {width} and steps is {steps}: expected at least 1")
    count, networks = len(trials.lanes), 1 + len(basket.peers(suspect))
    most = None if budget is None or budget.forwards is None else budget.forwards * count
    if steps is None and most is None:
        steps = math.ceil(EACH * count / width)
    archive = Archive(count)
    if not count:
        return found_of(archive, space.draws, networks)
    asker = Asker(objective, basket, suspect, precision)
    seeds, aims = to_floats(trials.seeds.to(basket.device)), trials.aims.to(basket.device)
    way = variation_for(space, seeds)
    lane, told, step, born, started = trials.lanes[:1].to(basket.device), 0, 0, 0, 0
    while steps is None or step < steps:
        # A child that turns out to be a find costs two answers of every network.
        room = width if most is None else min(width, (most - archive.spent) // (2 * networks))
        usable = (~archive.broken).nonzero()[:, 0]
        if room < 1 or not len(usable):
            break
        members = torch.arange(room, device=basket.device)
        parents = archive.parents
        fresh = room if started < count or not parents else max(1, room // FRESH)
        trial = usable[(started + torch.arange(room)) % len(usable)]
        started += fresh
        chosen: list[Elite | None] = [None] * room
        if fresh < room:
            drawn = integers(
                seed, lane, step, member=members[fresh:], stream="map_elites.parents", high=len(parents), count=DRAWN
            )
            chosen[fresh:] = [
                _parent([parents[p] for p in line], odd % 2 == 1) for odd, line in enumerate(drawn.tolist())
            ]
        children = way.children(chosen, trial.to(basket.device), seeds, seed, lane, step, members)
        _judge(asker, archive, children, space.render(children.points), aims[children.trial], born)
        born += room
        step += 1
        done = max(archive.spent / most if most else 0.0, step / steps if steps else 0.0)
        if tick is not None and int(count * done) > told:
            tick(int(count * done) - told)
            told = int(count * done)
    if tick is not None and told < count:
        tick(count - told)
    return found_of(archive, space.draws, networks)


def _parent(drawn: list[Elite], stones: bool) -> Elite:
    """The elite with the highest score; of the stepping stones, where there is one and they are asked for.

    Asking for them half of the time fills a fifth more cells than never or always (digits, three small networks).
    """
    some = [elite for elite in drawn if not elite.found] if stones else []
    return max(some or drawn, key=lambda elite: elite.score)


def _judge(asker: Asker, archive: Archive, children: Children, images: Tensor, aim: Tensor, born: int) -> None:
    """Judge children with few inferences, and put those that deserve it into the archive; `born` is how many there
    were before."""
    said, score = asker.ask(images, aim)
    archive.spend(children.trial, len(asker.first), candidates=1)
    own = said[0]
    bad = score.isnan() | ~own.isfinite().all(1)
    archive.broken[children.trial[bad].cpu()] = True
    wrong = own.argmax(1) != aim
    cells = _cells(own, aim, children)
    best, held = archive.standing(cells)
    best, held = best.to(score), held.to(score.device)
    worth = (((score > best) | (wrong & ~held)) & ~bad).nonzero()[:, 0]
    rows, said, costs = asker.allowed(images, aim, said, worth)
    archive.spend(children.trial[worth], costs)
    if not len(rows):
        return
    hit = asker.objective.found(said, aim[rows])
    place = _best_of_each(cells, rows.tolist(), hit.tolist(), score[rows].tolist())
    chosen = torch.tensor(place, device=rows.device)
    sure = torch.zeros(len(place), dtype=torch.bool)
    hits = hit[chosen].nonzero()[:, 0]
    if len(hits):
        shown = rows[chosen[hits]]
        archive.spend(children.trial[shown], len(asker.everyone))
        found, settled = asker.settled(images.index_select(0, shown), aim[shown])
        sure[hits.cpu()] = found.cpu()
        for row, (right, answer) in zip(shown.tolist(), _pairs(settled[0], aim[shown]), strict=True):
            cells[row] = (right, answer, *cells[row][2:])  # rounding may turn one wrong answer into another
    trace = trace_of(said[:, chosen], aim[rows[chosen]]).cpu()
    for row, is_find, line in zip(rows[chosen].tolist(), sure.tolist(), trace, strict=True):
        archive.enter(cells[row], children.elite(row, born + row, line, float(score[row]), is_find))


def _pairs(own: Tensor, aim: Tensor) -> list[tuple[int, int]]:
    """Right class and what the suspect said, or its strongest wrong class while it is right."""
    others = own.scatter(1, aim[:, None], -torch.inf).argmax(1)
    return list(zip(aim.tolist(), others.tolist(), strict=True))


def _cells(own: Tensor, aim: Tensor, children: Children) -> list[Cell]:
    parts = zip(_pairs(own, aim), children.kind.tolist(), children.size_bin.tolist(), strict=True)
    return [(*pair, kind, size) for pair, kind, size in parts]


def _best_of_each(cells: list[Cell], rows: list[int], hit: list[bool], score: list[float]) -> list[int]:
    """Of the children of each cell the best: which of `rows`, in order."""
    best: dict[Cell, int] = {}
    for place, row in enumerate(rows):
        other = best.get(cells[row])
        if other is None or (hit[place], score[place]) > (hit[other], score[other]):
            best[cells[row]] = place
    return sorted(best.values())
