"""Who else falls for it? Of images that one network takes for a class, how many others do (paper 5, Table S1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foible.statistics import wilson


def same_class(
    names: Sequence[str], sure: NDArray[np.float64], first: NDArray[np.bool_], level: float
) -> list[dict[str, Any]]:
    """A record for each network but the first, by Wilson's interval. sure: (n, networks), what each gives the class of
    an image; first: (n, networks), whether it prefers it. Counted are the images that the first network takes for
    their class: `same`, those that the other takes for it too; `both`, at `level` or more; `higher`, where the first
    network is the surer one."""
    told = []
    own = first[:, 0]
    for place, name in enumerate(names[1:], 1):
        same = own & first[:, place]
        both = same & (sure[:, 0] >= level) & (sure[:, place] >= level)
        low, high = wilson(int(same.sum()), int(own.sum()))
        told.append({"judge": name, "images": int(own.sum()), "same": int(same.sum()), "low": low, "high": high,
                     "both": int(both.sum()), "higher": int((same & (sure[:, 0] > sure[:, place])).sum())})  # fmt: skip
    return told
