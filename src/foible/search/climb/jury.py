"""A population judged with few inferences: the suspect sees every member, a peer only those that it can decide about.

The fitness of a point X′ is

    objective.score of the suspect  −  2 × the sum over peers of what each lacks, in log-odds,

where a peer whose condition holds lacks nothing, and another as much as its slack is below 0. The suspect's score is
thus an upper bound, and peers are asked only about the members that may still be among the `parents` best of their
generation, the first peer first. The best come out as if all networks had judged all members.

Where all conditions hold, the settled image is judged again by everyone. A budget cuts a generation short: members that
can no longer be paid for are not counted, and nothing is learnt from them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from foible.basket import Basket, Precision
from foible.objectives import Objective, slack_of
from foible.search.asking import Asker
from foible.search.task import some_rows

PRESSURE = 2.0  # above 1: what the suspect gains must not make up for what a peer loses
REFUSED = 1000.0  # what peers lack together where an objective cannot say how much: more than any score


class Verdict(NamedTuple):
    """What a generation of n lanes came to."""

    fitness: Tensor  # (n, members), exact for the `parents` best, an upper bound for all others
    exact: Tensor  # (n, members) bool: judged by every network
    tried: Tensor  # (n,) members looked at
    spent: Tensor  # (n,) inferences
    hit: Tensor  # (n,) the member that was found, or -1
    broken: Tensor  # (n,) bool: the suspect answered NaN


def best(values: Tensor, count: int) -> Tensor:
    """(n, count): positions of the highest of (n, members), best first; of equals the earlier."""
    return values.argsort(dim=1, descending=True, stable=True)[:, :count]


class Jury:
    """The networks of a basket, asked in turn about as few members as selection needs."""

    def __init__(self, space: Any, objective: Objective, basket: Basket, suspect: str, precision: Precision) -> None:
        self.space, self.objective, self.basket, self.precision = space, objective, basket, precision
        self.asker = Asker(objective, basket, suspect, precision)
        self.everyone = self.asker.everyone

    def judge(self, start: Any, aims: Tensor, paths: Tensor, parents: int, left: Tensor) -> Verdict:
        """start: points of n lanes. aims: (n,). paths: (n, members, moves, draws). left: (n,) inferences."""
        count, members = paths.shape[:2]
        device, asked, peers = paths.device, len(self.asker.first), len(self.asker.peers)
        first = members * torch.arange(count, device=device)[:, None]  # the row of each lane's first member
        lane = torch.arange(count, device=device).repeat_interleave(members)
        points = some_rows(start, lane)
        for move in paths.flatten(0, 1).unbind(1):
            points = self.space.move(points, move)
        images, aim = self.space.render(points), aims[lane]
        logits, score = self.asker.ask(images, aim)
        said = logits.new_zeros(len(self.everyone), *logits.shape[1:])
        said[:asked] = logits
        born = torch.arange(members, device=device) * asked < left[:, None]
        broken = (score.isnan().view_as(born) & born).any(1)
        known = torch.full_like(lane, asked - 1)  # peers that each row has been shown to
        if self.asker.all:
            score = score - self._lack(said, aim)
        fitness = score.nan_to_num(nan=-torch.inf).where(born.flatten(), -torch.inf)
        spent, hit = born.sum(1) * asked, torch.full_like(aims, -1)
        ready = best(fitness.view_as(born), members) + first if asked > peers else first[:0]
        while True:
            self._settle(ready.flatten(), images, said, aim, members, spent, hit, born.flatten() & ~broken[lane])
            rows = best(fitness.view_as(born), parents) + first
            pending = (known[rows] < peers) & (fitness[rows] > -torch.inf) & (hit < 0)[:, None] & ~broken[:, None]
            costs = torch.where(known[rows] == 0, 1, peers - 1) * pending
            pending &= spent[:, None] + costs.cumsum(1) - costs < left[:, None]
            if not pending.any():
                break
            spent += (costs * pending).sum(1)
            later = pending & (known[rows] > 0)
            for which, names in ((pending & ~later, slice(1, 2)), (later, slice(2, None))):
                shown = rows[which]
                if shown.numel():
                    said[names, shown] = self.basket.judge(
                        images.index_select(0, shown), self.everyone[names], self.precision
                    )
                    known[shown] += len(self.everyone[names])
                    fitness[shown] -= self._lack(torch.cat([said[:1, shown], said[names, shown]]), aim[shown])
            ready = rows[pending & (known[rows] == peers)]
        exact = (known == peers).view_as(born) & born
        return Verdict(fitness.view_as(born), exact, born.sum(1), spent, hit, broken)

    def _lack(self, said: Tensor, aim: Tensor) -> Tensor:
        """(n,): by how much the conditions of these peers fail, together; the suspect's answer comes first."""
        slack = slack_of(self.objective, said, aim)
        if slack is None:
            return torch.where(self.objective.allows(said[1:], aim), 0.0, REFUSED)
        lacking = -slack[1:].clamp(max=0)
        return PRESSURE * lacking.sum(0).nan_to_num(nan=torch.inf)

    def _settle(
        self, ready: Tensor, images: Tensor, said: Tensor, aim: Tensor, members: int, spent: Tensor, hit: Tensor,
        live: Tensor,
    ) -> None:  # fmt: skip
        """Of the rows that everyone has judged, the best found of each lane on the image that a PNG will hold."""
        rows = ready[live[ready]]
        rows = rows[self.objective.found(said[:, rows], aim[rows])]
        lane = rows // members
        rows = rows[torch.cat([torch.ones_like(lane[:1]), lane.diff()]) > 0]
        if rows.numel():
            spent[rows // members] += len(self.everyone)
            sure, _ = self.asker.settled(images.index_select(0, rows), aim[rows])
            rows = rows[sure]
            hit[rows // members] = rows % members
