"""An evolution strategy (Rechenberg 1973; Schwefel 1981), in the box: (μ/μ, λ) with a step size and scales that adapt.

Each lane holds a mean and how far to look around it; members are x = mean + σ √variance · z with normal z. The best μ
of λ members, weighted by rank, make the next mean. σ grows while successive steps go the same way and shrinks while
they undo each other (Hansen and Ostermeier 2001, `path`); the variance of every coordinate follows the steps that were
taken (separable CMA: Ros and Hansen 2008, `drift`). Where σ has become small beside its first value, the lane begins
anew at its seed image, with further draws. x counts in largest moves of the space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.objectives import Objective
from foible.randomness import normals
from foible.search.climb.jury import best
from foible.search.climb.population import evolve, need_at_least, need_box, pick
from foible.search.task import Found, Trials

LEAST_VARIANCE = 1e-6  # a coordinate that the box holds fast would otherwise reach 0, and be divided by


class Around(NamedTuple):
    """Where lanes look: (n, draws) each, and sigma (n, 1)."""

    mean: Tensor
    sigma: Tensor
    variance: Tensor
    path: Tensor
    drift: Tensor


class Rates(NamedTuple):
    """Constants of the method, from the number of coordinates and the weights (Hansen's tutorial, 2016; c₁ and c_μ
    times (d + 2) / 3 because only the diagonal is learnt)."""

    mass: float  # μ_eff, how many members the weighted mean is worth
    path: float  # c_σ
    damping: float  # d_σ
    drift: float  # c_c
    one: float  # c₁
    rank: float  # c_μ
    length: float  # E‖z‖

    @classmethod
    def of(cls, d: int, weights: Tensor) -> Rates:
        mass = 1 / float((weights**2).sum())
        path = (mass + 2) / (d + mass + 5)
        damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (d + 1)) - 1) + path
        drift = (4 + mass / d) / (d + 4 + 2 * mass / d)
        one = min(0.5, (d + 2) / 3 * 2 / ((d + 1.3) ** 2 + mass))
        rank = min(1 - one, (d + 2) / 3 * 2 * (mass - 2 + 1 / mass) / ((d + 2) ** 2 + mass))
        return cls(mass, path, damping, drift, one, rank, math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d)))


@dataclass(frozen=True)
class Strategy:
    space: Any
    members: int
    sigma: float
    collapse: float
    seed: int

    moves: ClassVar[int] = 1

    @property
    def parents(self) -> int:
        return self.members // 2

    @cached_property
    def weights(self) -> Tensor:
        """(μ,), best first, summing to 1: logarithms of the rank."""
        weights = math.log((self.members + 1) / 2) - torch.arange(1, self.parents + 1).double().log()
        return (weights / weights.sum()).float()

    @cached_property
    def rates(self) -> Rates:
        return Rates.of(self.space.draws, self.weights)

    def begin(self, lanes: Tensor) -> Around:
        nowhere = torch.zeros(len(lanes), self.space.draws, device=lanes.device)
        sigma = torch.full((len(lanes), 1), self.sigma, device=lanes.device)
        return Around(nowhere, sigma, torch.ones_like(nowhere), nowhere, nowhere)

    def sample(self, state: Around, lanes: Tensor, generation: int) -> Tensor:
        members, draws = torch.arange(self.members, device=lanes.device), self.space.draws
        z = normals(self.seed, lanes[:, None], generation, member=members, stream="strategy.members", count=draws)
        x = state.mean[:, None] + (state.sigma * state.variance.sqrt())[:, None] * z
        ends = torch.tensor(self.space.reaches, device=lanes.device)
        return x.clamp(-ends, ends)

    def paths(self, genomes: Tensor) -> Tensor:
        return (0.5 + 0.5 * genomes)[:, :, None]

    def learn(self, state: Around, genomes: Tensor, fitness: Tensor) -> Around:
        rates, weights = self.rates, self.weights.to(genomes.device)[:, None]
        steps = (pick(genomes, best(fitness, self.parents)) - state.mean[:, None]) / state.sigma[:, None]
        step = (weights * steps).sum(1)
        path = _follow(state.path, step / state.variance.sqrt(), rates.path, rates.mass)
        drift = _follow(state.drift, step, rates.drift, rates.mass)
        growth = rates.path / rates.damping * (path.norm(dim=1, keepdim=True) / rates.length - 1)
        variance = (
            (1 - rates.one - rates.rank) * state.variance
            + rates.one * drift**2
            + rates.rank * (weights * steps**2).sum(1)
        ).clamp(min=LEAST_VARIANCE)
        sigma = (state.sigma * growth.clamp(-1, 1).exp()).clamp(max=max(self.space.reaches))
        after = Around(state.mean + state.sigma * step, sigma, variance, path, drift)
        anew = sigma < self.collapse * self.sigma
        return Around(*(torch.where(anew, *fields) for fields in zip(self.begin(fitness), after, strict=True)))


def _follow(path: Tensor, step: Tensor, rate: float, mass: float) -> Tensor:
    """A path that forgets: of the same length as a random step while steps are random."""
    return (1 - rate) * path + math.sqrt(rate * (2 - rate) * mass) * step


def strategy(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    members: int | None = None,
    sigma: float = 2.0,
    collapse: float = 0.2,
    generations: int = 200,
    width: int | None = None,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Look around every seed image, `members` points a generation (λ; default 4 + 3 ln draws), the better half parents.

    sigma: the first step size, in largest moves. collapse: the part of it at which a lane begins anew.
    """
    need_box(space, "strategy")
    if not (sigma > 0 and 0 <= collapse < 1):
        raise UserError(f"sigma is {sigma} and collapse {collapse}: expected above 0, and 0 to 1")
    members = 4 + int(3 * math.log(space.draws)) if members is None else members
    need_at_least(2, members=members)
    return evolve(
        Strategy(space, members, sigma, collapse, seed), space, objective, basket, trials, suspect=suspect,
        generations=generations, width=width, budget=budget, precision=precision, tick=tick,
    )  # fmt: skip
