"""A genetic algorithm (Holland 1975; Goldberg 1989): paper 1's first alternative to hill climbing (Sec. 2, end).

A genome is a fixed number of moves, each its uniform draws, so it works in every space that can be walked, pixel swaps
included. In each generation: the best `parents` of the last children and of `elite` survivors make the pool; children
come of two parents, each the better of `rivals` that are drawn from the pool; crossover takes each move from either
parent (or all up to a cut from one of them); mutation draws some of the uniforms anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from foible.basket import Basket, Budget, Precision
from foible.errors import UserError
from foible.objectives import Objective
from foible.randomness import integers, uniforms
from foible.search.climb.jury import best
from foible.search.climb.population import evolve, need_at_least, pick
from foible.search.task import Found, Trials

CROSSOVERS = ("uniform", "one-point")


class Pool(NamedTuple):
    """The best of each lane, fittest first. genomes: (n, parents, moves, draws). fitness: (n, parents)."""

    genomes: Tensor
    fitness: Tensor


@dataclass(frozen=True)
class Genetic:
    members: int
    parents: int
    moves: int
    draws: int
    elite: int
    rivals: int
    crossover: str
    mutation: float
    seed: int

    def begin(self, lanes: Tensor) -> Pool:
        nobody = torch.zeros(len(lanes), self.parents, self.moves, self.draws, device=lanes.device)
        return Pool(nobody, torch.full(nobody.shape[:2], -torch.inf, device=lanes.device))

    def sample(self, state: Pool, lanes: Tensor, generation: int) -> Tensor:
        key: dict[str, Any] = {"member": torch.arange(self.members, device=lanes.device)}
        where = self.seed, lanes[:, None], generation
        shape = len(lanes), self.members, self.moves, self.draws
        fresh = uniforms(*where, stream="genetic.moves", count=self.moves * self.draws, **key).view(shape)
        if generation == 0:
            return fresh
        rivals = integers(*where, high=self.parents, stream="genetic.rivals", count=2 * self.rivals, **key)
        mother, father = rivals.unflatten(2, (2, self.rivals)).amin(3).unbind(2)  # the pool is sorted: the least wins
        if self.crossover == "uniform":
            first = uniforms(*where, stream="genetic.crossover", count=self.moves, **key) < 0.5
        else:
            cut = integers(*where, high=self.moves + 1, stream="genetic.crossover", count=1, **key)
            first = torch.arange(self.moves, device=lanes.device) < cut
        child = torch.where(first[..., None], pick(state.genomes, mother), pick(state.genomes, father))
        chance = uniforms(*where, stream="genetic.mutation", count=self.moves * self.draws, **key)
        return torch.where(chance.view(shape) < self.mutation, fresh, child)

    def paths(self, genomes: Tensor) -> Tensor:
        return genomes

    def learn(self, state: Pool, genomes: Tensor, fitness: Tensor) -> Pool:
        genomes = torch.cat([state.genomes[:, : self.elite], genomes], 1)
        fitness = torch.cat([state.fitness[:, : self.elite], fitness], 1)
        top = best(fitness, self.parents)
        return Pool(pick(genomes, top), pick(fitness, top))


def genetic(
    space: Any,
    objective: Objective,
    basket: Basket,
    trials: Trials,
    *,
    suspect: str,
    seed: int = 0,
    members: int = 30,
    parents: int = 10,
    moves: int = 10,
    elite: int = 2,
    rivals: int = 2,
    crossover: str = "uniform",
    mutation: float = 0.05,
    generations: int = 100,
    width: int | None = None,
    budget: Budget | None = None,
    precision: Precision = "float32",
    tick: Callable[[int], None] | None = None,
) -> Found:
    """Breed `members` children a generation around every seed image.

    moves: in a genome. mutation: the share of draws that a child has anew. crossover: "uniform" or "one-point".
    elite: of the pool, how many compete with their children. rivals: in a tournament; 1 leaves parents to chance.
    """
    if crossover not in CROSSOVERS:
        raise UserError(f"crossover is {crossover!r}: expected {' or '.join(map(repr, CROSSOVERS))}")
    if not 0 <= mutation <= 1:
        raise UserError(f"mutation is {mutation}: expected a share from 0 to 1")
    need_at_least(1, moves=moves, rivals=rivals, members=members)
    need_at_least(0, elite=elite)
    idea = Genetic(members, parents, moves, space.draws, elite, rivals, crossover, mutation, seed)
    return evolve(
        idea, space, objective, basket, trials, suspect=suspect, generations=generations, width=width, budget=budget,
        precision=precision, tick=tick,
    )  # fmt: skip
