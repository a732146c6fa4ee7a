"""What a search may spend on each of its lanes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Budget:
    """The most that one lane may spend; None is no limit. A gradient costs a forward and a backward."""

    forwards: int | None = None
    backwards: int | None = None

    def spent(self, forwards: Tensor, backwards: Tensor) -> Tensor:
        """(n,) bool: lanes that have nothing left."""
        over = torch.zeros_like(forwards, dtype=torch.bool)
        if self.forwards is not None:
            over |= forwards >= self.forwards
        if self.backwards is not None:
            over |= backwards >= self.backwards
        return over
