"""Rows that these studies share."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from foible.studies.common import Row


def median_row(table: str, quantity: str, paper: float | None, values: Iterable[float]) -> Row:
    """A median, with the interval between two order statistics (95 % or a little more, whatever the distribution);
    none where there are fewer than six values."""
    from scipy.stats import binom

    seen = np.sort(np.fromiter((float(value) for value in values), np.float64))
    n = len(seen)
    if not n:
        return Row(table, quantity, paper, None, n=0)
    place = int(binom.ppf(0.025, n, 0.5))
    low, high = (float(seen[place - 1]), float(seen[n - place])) if place else (None, None)
    return Row(table, quantity, paper, float(np.median(seen)), low, high, n)
