"""Which findings tell most at a glance: those that a report shows step by step, and that a film is kept of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BEST = 4  # of each class and suspect

Floats = npt.NDArray[np.float32]


def telling(starts: Floats, ends: Floats, own: int, moves: npt.NDArray[np.integer]) -> Floats:
    """(n,), greater is more telling. starts, ends: (n, networks), each network's probability of the right class before
    and after; own: the column of the suspect. moves: (n,) accepted."""
    peers = np.delete(ends, own, axis=1)
    clear = (peers.min(1) if peers.shape[1] else np.float32(1.0)) - ends[:, own]  # the mistake, and
    scores = clear + np.float32(0.5) * starts.min(1)  # how sure all were of the origin
    return np.asarray(scores + ((moves >= 3) & (moves <= 6)), np.float32)  # the length that reads best


def best_of_each(scores: Floats, labels: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """The rows with the BEST greatest scores of each label, the earlier of two alike; in the order of the rows."""
    order = np.lexsort((np.arange(len(scores)), -scores, labels))
    order = order[np.isfinite(scores[order])]
    ranked = labels[order]
    first = np.searchsorted(ranked, ranked)  # where each row's label begins
    return np.sort(order[np.arange(len(order)) - first < BEST])
