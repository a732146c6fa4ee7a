"""A sample of a long stream of numbers, for medians and histograms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass
class Sample:
    """Every value of a stream while there are few, then every 2nd, 4th, 8th ...: bounded, and no dice.

    The counts of signs are of all values.
    """

    limit: int = 20_000
    stride: int = 1
    seen: int = 0
    below: int = 0
    above: int = 0
    kept: list[Floats] = field(default_factory=list)

    def add(self, values: Floats) -> None:
        values = values[np.isfinite(values)]
        self.below += int((values < 0).sum())
        self.above += int((values > 0).sum())
        self.kept.append(values[-self.seen % self.stride :: self.stride].copy())
        self.seen += len(values)
        while sum(map(len, self.kept)) > self.limit:
            self.kept = [np.concatenate(self.kept)[::2]]
            self.stride *= 2

    @property
    def values(self) -> Floats:
        return np.concatenate(self.kept) if self.kept else np.zeros(0, np.float32)

    def quartiles(self) -> tuple[float, float, float]:
        """Lower quartile, median, upper quartile; zeros where there is nothing."""
        values = self.values
        if not len(values):
            return 0.0, 0.0, 0.0
        low, middle, high = np.quantile(values.astype(np.float64), [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)
