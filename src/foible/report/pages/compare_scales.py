"""Places along an axis of shares, in percent of its length, for dots, intervals and arrows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
_TICKS = 5  # intervals between ticks, at most


@dataclass(frozen=True)
class Scale:
    """From `low` to `high`, both shares in [0, 1], with a tick at every `step`."""

    low: float
    high: float
    step: float

    @classmethod
    def over(cls, shares: Iterable[float]) -> Scale:
        """Round ends about these shares. Not from 0: dots and arrows show places, not lengths."""
        known = [min(1.0, max(0.0, share)) for share in shares if share == share] or [0.0, 1.0]
        low, high = min(known), max(known)
        for step in _STEPS:
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            if last == first:
                last, first = min(last + 1, round(1 / step)), max(0, first - 1)
            if last - first <= _TICKS:
                break
        return cls(first * step, last * step, step)

    def at(self, share: float) -> float:
        """Where a share lies, 0 to 100."""
        return round(100 * min(1.0, max(0.0, (share - self.low) / (self.high - self.low))), 3)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Place and label of each tick."""
        count = round((self.high - self.low) / self.step)
        digits = 1 if self.step < 0.01 else 0
        return [
            (self.at(self.low + k * self.step), f"{100 * (self.low + k * self.step):.{digits}f}")
            for k in range(count + 1)
        ]
