"""What walks between classes came to: where networks change their mind, and how often they disagree."""

from __future__ import annotations

from typing import Any

import numpy as np

from foible.recipes.boundary.reading import Interpolations, Ints, Run, candidates, interpolations, people_one_by_one
from foible.statistics import wilson


def summarise(run: Run) -> dict[str, Any]:
    """Counts of a run, with Wilson's interval of the share on which networks disagree; of candidates, how many."""
    sheet = candidates(run)
    if sheet:
        return {"candidates": sheet, "images": sheet}
    made = interpolations(run)
    count = len(made.ids)
    apart = int((made.said != made.said[:1]).any(0).sum()) if count else 0
    low, high = wilson(apart, count)
    people = people_one_by_one(run)
    return {
        "images": count, "walks": len(np.unique(made.pair)), "disagree": apart,
        "share": apart / count if count else None, "low": low, "high": high, "people": len(people),
        "labelled": int((people >= 0).any(0).sum()), "invalid": int((made.said < 0).any(0).sum()),
        "networks": [
            {"network": name, **along(made, said), "sure": _mean(sure)}
            for name, said, sure in zip(made.networks, made.said, made.sure, strict=True)
        ],
    }  # fmt: skip


def along(made: Interpolations, said: Ints) -> dict[str, Any]:
    """What one judge does on the way. flips: changes of the answer, the mean of all walks; once: the share of them with
    just one; where: the median α of the first; third: the share of images of another class than both ends."""
    changes = [flips(said[made.pair == walk], made.alpha[made.pair == walk]) for walk in np.unique(made.pair)]
    first = [some[0] for some in changes if some]
    other = (said >= 0) & (said != made.ends[:, 0]) & (said != made.ends[:, 1])
    return {
        "flips": _mean([len(some) for some in changes]), "once": _mean([len(some) == 1 for some in changes]),
        "where": float(np.median(first)) if first else None, "third": _mean(other),
    }  # fmt: skip


def flips(said: Ints, alpha: Any) -> list[float]:
    """Where along a walk an answer differs from the one before: half-way between the two images. What nobody said (-1)
    is passed over."""
    told = np.flatnonzero(said >= 0)
    said, alpha = said[told], alpha[told]
    return [float(at) for at in ((alpha[1:] + alpha[:-1]) / 2)[said[1:] != said[:-1]]]


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
