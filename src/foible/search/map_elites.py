"""MAP-Elites (Mouret and Clune, 2015) over mistakes: one best example of each kind, not a thousand of one kind.

An archive has a cell for every right class × what the suspect said × kind of move × size of move (`foible.atlas`). Each
step draws elites from it as parents, or fresh seed images, moves them a little and renders them. The suspect is asked
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
from foible.images import settle, to_floats
from foible.objectives import Objective, of_class, probabilities
from foible.randomness import integers
from foible.search.archive import Archive, Cell, Elite, found_of
from foible.search.found import Found, Trials
from foible.search.variation import Children, variation_for

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
    jury = _Jury(objective, basket, suspect, precision)
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
        aim = aims[children.trial]
        jury.judge(archive, children, space.render(children.points), aim, born)
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


class _Jury:
    """Judges children with few inferences, and puts those that deserve it into the archive."""

    def __init__(self, objective: Objective, basket: Basket, suspect: str, precision: Precision) -> None:
        self.objective, self.basket, self.precision = objective, basket, precision
        self.everyone = [suspect, *basket.peers(suspect)]
        self.whole = getattr(objective, "whole", False)  # its score takes every network's answer

    def judge(self, archive: Archive, children: Children, images: Tensor, aim: Tensor, born: int) -> None:
        """Judge children; `born` is how many there were before."""
        asked = self.everyone if self.whole else self.everyone[:1]
        first = self.basket.judge(images, asked, self.precision)
        own = first[0]
        score = self.objective.score(first if self.whole else own, aim)
        archive.spend(children.trial, len(asked), candidates=1)
        bad = score.isnan() | ~own.isfinite().all(1)
        archive.broken[children.trial[bad].cpu()] = True
        wrong = own.argmax(1) != aim
        cells = _cells(own, aim, children)
        best, held = archive.standing(cells)
        best, held = best.to(score), held.to(score.device)
        rows = (((score > best) | (wrong & ~held)) & ~bad).nonzero()[:, 0]
        rows, said = self._allowed(archive, children.trial, images, aim, first, rows)
        if not len(rows):
            return
        hit = self.objective.found(said, aim[rows])
        place = _best_of_each(cells, rows.tolist(), hit.tolist(), score[rows].tolist())
        chosen = torch.tensor(place, device=rows.device)
        sure = torch.zeros(len(place), dtype=torch.bool)
        settled = hit[chosen].nonzero()[:, 0]
        if len(settled):  # found means found on what a PNG will hold, in float32
            shown = rows[chosen[settled]]
            archive.spend(children.trial[shown], len(self.everyone))
            judged = self.basket.judge(settle(images.index_select(0, shown)), self.everyone)
            sure[settled.cpu()] = self.objective.found(judged, aim[shown]).cpu()
            for row, (right, answer) in zip(shown.tolist(), _pairs(judged[0], aim[shown]), strict=True):
                cells[row] = (right, answer, *cells[row][2:])  # rounding may turn one wrong answer into another
        trace = of_class(probabilities(said[:, chosen]), aim[rows[chosen]]).t().cpu()
        for row, found, line in zip(rows[chosen].tolist(), sure.tolist(), trace, strict=True):
            archive.enter(cells[row], children.elite(row, born + row, line, float(score[row]), found))

    def _allowed(
        self, archive: Archive, trial: Tensor, images: Tensor, aim: Tensor, first: Tensor, rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The rows that all peers allow, and what everybody said of them. The first peer is asked alone: what it
        refuses need not be shown to anybody else."""
        said, peers = first[:, rows], self.everyone[1:]
        if self.whole:
            kept = self.objective.allows(said[1:], aim[rows]).nonzero()[:, 0]
            return rows[kept], said[:, kept]
        for some in (peers[:1], peers[1:]):
            if some and len(rows):
                answers = self.basket.judge(images.index_select(0, rows), some, self.precision)
                archive.spend(trial[rows], len(some))
                kept = self.objective.allows(answers, aim[rows]).nonzero()[:, 0]
                rows, said = rows[kept], torch.cat([said, answers])[:, kept]
        return rows, said


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
