"""The archive of MAP-Elites: the best point of every cell, and what every trial has spent."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from foible.search.task import EXHAUSTED, FOUND, INVALID, Accepted, Found

Cell = tuple[int, ...]  # right class, said, kind, bin of size


class Step(NamedTuple):
    """One move of a path."""

    number: int  # of the child, among all of the search
    draws: Tensor  # (draws,)
    trace: Tensor  # (networks,) probability of the right class, the suspect's first


class Elite(NamedTuple):
    """A point that stands in a cell."""

    trial: int
    path: tuple[Step, ...]  # from the trial's seed image
    point: Any  # where it is: whatever the variation goes on from
    score: float
    found: bool  # a mistake on settled pixels, not a stepping stone


class Archive:
    """Elites by cell, in the order in which cells were first reached."""

    def __init__(self, trials: int) -> None:
        self.cells: dict[Cell, Elite] = {}
        self.candidates, self.forwards = (torch.zeros(trials, dtype=torch.int64) for _ in range(2))
        self.broken = torch.zeros(trials, dtype=torch.bool)  # trials that the suspect answered with NaN or infinity
        self.spent = 0

    @property
    def parents(self) -> list[Elite]:
        """Who may have children: everybody whose trial still gets answers."""
        if not self.broken.any():
            return list(self.cells.values())
        return [elite for elite in self.cells.values() if not self.broken[elite.trial]]

    def standing(self, cells: list[Cell]) -> tuple[Tensor, Tensor]:
        """Score (−inf where a cell is empty) and whether it is a find, of the elites of these cells."""
        elites = [self.cells.get(cell) for cell in cells]
        score = torch.tensor([-torch.inf if elite is None else elite.score for elite in elites], dtype=torch.float64)
        return score, torch.tensor([elite is not None and elite.found for elite in elites])

    def enter(self, cell: Cell, elite: Elite) -> None:
        """Take a place: a find before a stepping stone, and among equals the higher score."""
        held = self.cells.get(cell)
        if held is None or (elite.found, elite.score) > (held.found, held.score):
            self.cells[cell] = elite

    def spend(self, trial: Tensor, forwards: int | Tensor, candidates: int = 0) -> None:
        """So many inferences, or (n,) of them, and so many candidates for each of these trials (n,)."""
        each = torch.as_tensor(forwards, device="cpu").expand(len(trial))
        self.forwards.index_add_(0, trial.cpu(), each)
        self.candidates += candidates * torch.bincount(trial.cpu(), minlength=len(self.candidates))
        self.spent += int(each.sum())


def found_of(archive: Archive, draws: int, networks: int) -> Found:
    """The rows of an archive: its finds by trial, then by cell; and a row for every trial without a find or with an
    answer that was none."""
    rows: list[tuple[int, Elite | None]] = [
        (elite.trial, elite) for _, elite in sorted(archive.cells.items()) if elite.found
    ]
    fruitful = {trial for trial, _ in rows}
    broken = archive.broken.tolist()
    rows += [(trial, None) for trial in range(len(broken)) if broken[trial] or trial not in fruitful]
    rows.sort(key=lambda row: row[0])
    trial = torch.tensor([number for number, _ in rows], dtype=torch.int64)
    outcome = [FOUND if elite is not None else INVALID if broken[number] else EXHAUSTED for number, elite in rows]
    events = [
        (torch.tensor([row]), torch.tensor([step.number]), step.draws[None].cpu(), step.trace[None])
        for row, (_, elite) in enumerate(rows)
        for step in (() if elite is None else elite.path)
    ]
    return Found(
        torch.tensor(outcome, dtype=torch.int64),
        spread_costs(archive.candidates, trial),
        spread_costs(archive.forwards, trial),
        torch.zeros(len(rows), dtype=torch.int64),
        Accepted.gather(events, draws, networks),
        trial,
    )


def spread_costs(costs: Tensor, trial: Tensor) -> Tensor:
    """Each trial's costs over its rows, evenly; the first rows take what is left over."""
    rows = torch.bincount(trial, minlength=len(costs))
    first = rows.cumsum(0) - rows
    within = torch.arange(len(trial)) - first[trial]
    return costs[trial] // rows[trial] + (within < costs[trial] % rows[trial]).to(torch.int64)
