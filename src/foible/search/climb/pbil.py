"""Population-based incremental learning (Baluja 1994), in the box: a population that is only a vector of probabilities.

Every coordinate of the box is written in `bits` bits, as a Gray code, so that neighbours differ in one bit. Each lane
holds the probability of a 1 for every bit, 0.5 at first. A generation samples its members from these, and moves them
towards the best member: p ← (1 − rate) p + rate × bit. Now and then one is shaken towards 0 or 1; and a lane whose
probabilities have all but become certain begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.objectives import Objective
from foible.randomness import uniforms
from foible.search.climb.jury import best
from foible.search.climb.population import evolve, need_at_least, need_box, pick
from foible.search.task import Found, Trials
from foible.spaces import far

SHAKE = 0.05  # how far a shaken probability goes towards 0 or 1


class Chances(NamedTuple):
    """chance: (n, draws × bits), the probability that a bit is 1. lane, generation: (n,), which shaking depends on."""

    chance: Tensor
    lane: Tensor
    generation: Tensor


def places(bits: Tensor) -> Tensor:
    """Gray codes (..., bits) of 0s and 1s as places in [-1, 1]: the middle of each of 2**bits cells."""
    binary = bits.cumsum(-1) % 2
    weights = 0.5 ** torch.arange(1, bits.shape[-1] + 1, device=bits.device)
    return 2 * (binary * weights).sum(-1) + weights[-1] - 1


@dataclass(frozen=True)
class Pbil:
    space: Any
    members: int
    bits: int
    rate: float
    shake: float
    certain: float
    seed: int

    parents: ClassVar[int] = 1
    moves: ClassVar[int] = 1

    def begin(self, lanes: Tensor) -> Chances:
        chance = torch.full((len(lanes), self.space.draws * self.bits), 0.5, device=lanes.device)
        return Chances(chance, lanes, torch.zeros_like(lanes))

    def sample(self, state: Chances, lanes: Tensor, generation: int) -> Tensor:
        members = torch.arange(self.members, device=lanes.device)
        count = state.chance.shape[1]
        drawn = uniforms(self.seed, lanes[:, None], generation, member=members, stream="pbil.bits", count=count)
        return (drawn < state.chance[:, None]).float()

    def paths(self, genomes: Tensor) -> Tensor:
        return far(self.space, places(genomes.unflatten(2, (self.space.draws, self.bits))))[:, :, None]

    def learn(self, state: Chances, genomes: Tensor, fitness: Tensor) -> Chances:
        chance = torch.lerp(state.chance, pick(genomes, best(fitness, 1))[:, 0], self.rate)
        key = self.seed, state.lane, state.generation
        which, way = uniforms(*key, stream="pbil.shakes", count=2 * chance.shape[1]).chunk(2, 1)
        chance = torch.where(which < self.shake, torch.lerp(chance, (way < 0.5).float(), SHAKE), chance)
        settled = (2 * chance - 1).abs().mean(1, keepdim=True) > self.certain
        return Chances(torch.where(settled, 0.5, chance), state.lane, state.generation + 1)


def pbil(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    members: int = 20,
    bits: int = 8,
    rate: float = 0.2,
    shake: float = 0.02,
    certain: float = 0.8,
    generations: int = 100,
    width: int | None = None,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Learn where in the box around every seed image the fittest members are.

    bits: for each coordinate. rate: how far the probabilities go towards the best of `members`. shake: the share of
    probabilities that are shaken in a generation. certain: the mean certainty |2p − 1| at which a lane begins anew.
    """
    need_box(space, "pbil")
    for name, value in (("rate", rate), ("shake", shake), ("certain", certain)):
        if not 0 <= value <= 1:
            raise UserError(f"{name} is {value}: expected 0 to 1")
    need_at_least(1, bits=bits)
    if bits > 24:
        raise UserError(f"bits is {bits}: expected at most 24, which is all that a float32 can tell apart")
    idea = Pbil(space, members, bits, rate, shake, certain, seed)
    return evolve(
        idea, space, objective, basket, trials, suspect=suspect, generations=generations, width=width, budget=budget,
        precision=precision, tick=tick,
    )  # fmt: skip
