"""What a search is given (trials) and what it gives back (found): tensors with one row a lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

FOUND, EXHAUSTED, INVALID = 0, 1, 2  # positions in foible.findings.OUTCOMES


Rows = TypeVar("Rows", bound=tuple[Any, ...])


def some_rows(fields: Rows, index: Tensor) -> Rows:
    """A NamedTuple of tensors, at these rows."""
    return type(fields)(*(field.index_select(0, index) for field in fields))


class Trials(NamedTuple):
    """Where lanes begin. lanes: (n,) int64, their numbers, which their draws depend on.
    seeds: (n, channels, height, width), uint8 or floats in [0, 1]. aims: (n,) int64, the class each must keep."""

    lanes: Tensor
    seeds: Tensor
    aims: Tensor

    def to(self, device: torch.device) -> Trials:
        return Trials(*(field.to(device) for field in self))

    def rows(self, index: Tensor) -> Trials:
        return some_rows(self, index)


@dataclass(frozen=True)
class Accepted:
    """Accepted moves of all lanes, ordered by lane and then by time: m rows."""

    row: Tensor  # (m,) which trial
    step: Tensor  # (m,) which candidate of that lane
    draws: Tensor  # (m, draws) the uniforms of the move: applying them again gives the same point
    trace: Tensor  # (m, networks) probability of the aimed-at class, the suspect's first, then the peers'

    @classmethod
    def gather(cls, events: Sequence[tuple[Tensor, ...]], draws: int, networks: int) -> Accepted:
        """From what was accepted step by step: (row, step, draws, trace) each, of any number of rows."""
        none = torch.empty(0, dtype=torch.int64)
        events = events or [(none, none, torch.empty(0, draws), torch.empty(0, networks))]
        row, step, drawn, trace = (torch.cat(parts) for parts in zip(*events, strict=True))
        order = torch.argsort((row << 32) + step)
        return cls(*(values[order].cpu() for values in (row, step, drawn, trace)))


@dataclass(frozen=True)
class Found:
    """What each of n trials came to. Costs are per row.

    A search that keeps several points of one trial, or none, says in `trial` (n,) which trial each row came from."""

    outcome: Tensor  # (n,) FOUND, EXHAUSTED or INVALID
    candidates: Tensor  # (n,) points tried
    forwards: Tensor  # (n,) inferences, over all networks
    backwards: Tensor  # (n,)
    accepted: Accepted
    trial: Tensor | None = None
