"""How MAP-Elites makes children: in a box, places and steps of chosen kinds; elsewhere, one further move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from foible.cells import MOVES, SIZES
from foible.errors import UserError
from foible.randomness import uniforms
from foible.search.elites.archive import Elite, Step
from foible.spaces import is_box

PROBED = 64  # seed images that show which kinds of move do something
FAR = 2 * SIZES[-1]  # fresh points lie at most so many largest moves from their seed image


@dataclass(frozen=True)
class Children:
    """Points that nobody has judged yet, n rows."""

    trial: Tensor  # (n,)
    points: Any
    draws: Tensor  # (n, draws) of the last move of the path
    kind: Tensor  # (n,)
    size_bin: Tensor  # (n,)
    parents: Sequence[Elite | None]
    boxed: bool

    def elite(self, row: int, number: int, trace: Tensor, score: float, found: bool) -> Elite:
        """One of them, as it would stand in a cell."""
        parent = self.parents[row]
        before = () if self.boxed or parent is None else parent.path
        draws = self.draws[row].cpu().clone()
        point = (
            2 * draws - 1 if self.boxed else type(self.points)(*(field[row : row + 1].clone() for field in self.points))
        )
        return Elite(int(self.trial[row]), (*before, Step(number, draws, trace)), point, score, found)


def variation_for(space: Any, seeds: Tensor) -> Boxed | Walked:
    return Boxed(space, seeds) if is_box(space) else Walked(space)


class Walked:
    """A space that is no box: a child is its parent, or a seed image, one move on."""

    def __init__(self, space: Any) -> None:
        self.space = space

    def children(
        self, parents: Sequence[Elite | None], trial: Tensor, seeds: Tensor,
        seed: int, lane: Tensor, step: int, members: Tensor,
    ) -> Children:  # fmt: skip
        """One child each: of its parent, or of the trial's seed image where that is None (these stand first)."""
        fresh = [row for row, parent in enumerate(parents) if parent is None]
        old = [parent for parent in parents if parent is not None]
        parts = ([self.space.start(seeds[trial[fresh]])] if fresh else []) + [parent.point for parent in old]
        points = type(parts[0])(*(torch.cat(fields) for fields in zip(*parts, strict=True)))
        drawn = uniforms(seed, lane, step, member=members, stream="map_elites.moves", count=self.space.draws)
        moves = torch.tensor([0 if parent is None else len(parent.path) for parent in parents]) + 1
        return Children(
            _trials(parents, trial), self.space.move(points, drawn), drawn, torch.zeros_like(trial),
            torch.bucketize(moves.float(), torch.tensor(MOVES), right=True), parents, boxed=False,
        )  # fmt: skip


class Boxed:
    """A box. A point is its amounts: how many largest moves from the seed image, draw by draw.

    A fresh point is as likely in one bin of size as in another, and of one kind half of the time. A child is its parent
    plus a step of up to one largest move: mostly of all kinds; at times of one kind alone, or of one kind with all the
    others undone. Half of the children start from another seed image than their parent did.
    """

    def __init__(self, space: Any, seeds: Tensor) -> None:
        self.space = space
        some = seeds[:PROBED]  # a largest move may be nothing: one of size 0, or of the colour of a grey image
        probe = space.move(space.start(some), torch.full((len(some), space.draws), 0.75, device=seeds.device))
        live = ((2 * space.draws_of(probe) - 1).abs() > 1e-3).any(0).cpu()
        self.reaches = torch.tensor(space.reaches) * live
        names = dict.fromkeys(kind for kind, reach in zip(space.kinds, self.reaches.tolist(), strict=True) if reach)
        if not names:
            raise UserError(f"no move of the space {space!r} changes anything: give at least one of its sizes above 0")
        self.masks = torch.tensor([[kind == name for kind in space.kinds] for name in names])

    def children(
        self, parents: Sequence[Elite | None], trial: Tensor, seeds: Tensor,
        seed: int, lane: Tensor, step: int, members: Tensor,
    ) -> Children:  # fmt: skip
        """One child each: of its parent, or of the trial's seed image where that is None."""
        draws = self.space.draws
        drawn = uniforms(seed, lane, step, member=members, stream="map_elites.moves", count=draws + 4).cpu()
        how, which, length, other = drawn[:, :4].unbind(1)
        fresh = torch.tensor([parent is None for parent in parents])
        start = torch.stack([torch.zeros(draws) if p is None else p.point for p in parents])
        of_kind = self.masks[(which * len(self.masks)).long()].float()
        toward = 2 * drawn[:, 4:] - 1
        alone = torch.where(fresh, how < 1 / 2, how < 1 / 3)[:, None]
        toward = torch.where(alone, toward * of_kind, toward) * (self.reaches > 0)
        ends = torch.tensor([0.0, *SIZES, FAR])
        place = (length * (len(ends) - 1)).long()
        size = ends[place] + (length * (len(ends) - 1) - place) * (ends[place + 1] - ends[place])
        leap = toward / toward.norm(dim=1, keepdim=True).clamp(min=1e-6) * size[:, None]
        undone = (~fresh & (how < 1 / 6))[:, None]
        amounts = torch.where(undone, start * of_kind, start) + torch.where(
            fresh[:, None], leap, toward * length[:, None]
        )
        moved = (0.5 + 0.5 * amounts.clamp(-self.reaches, self.reaches)).to(seeds.device)
        own = torch.where((other < 1 / 2).to(trial.device), trial, _trials(parents, trial))
        points = self.space.move(self.space.start(seeds[own]), moved)
        amounts = 2 * self.space.draws_of(points) - 1
        return Children(own, points, moved, self.kind(amounts), self.bin(amounts), parents, boxed=True)

    def kind(self, amounts: Tensor) -> Tensor:
        """(n,) which kind makes up most of a change, in the order in which the space names them."""
        return (amounts.double().square() @ self.masks.to(amounts.device).double().t()).argmax(1)

    def bin(self, amounts: Tensor) -> Tensor:
        edges = torch.tensor(SIZES, dtype=torch.float64, device=amounts.device)
        return torch.bucketize(amounts.double().norm(dim=1), edges, right=True)


def _trials(parents: Sequence[Elite | None], trial: Tensor) -> Tensor:
    """Whose trial each child is: its parent's, or the one given."""
    given = trial.tolist()
    own = [place if parent is None else parent.trial for parent, place in zip(parents, given, strict=True)]
    return torch.tensor(own, device=trial.device)
