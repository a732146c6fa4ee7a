"""Hunt: images that a suspect gets wrong while all its peers get them right (paper 1).

    seeds that the whole basket gets right → a search through a space of small changes → findings

Every trial is a lane, numbered from 0; the same lane starts from the same seed image and draws the same numbers
whichever network is the suspect, so that suspects compare pairwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.findings import Findings
from foible.recipes.hunt import HUNT
from foible.runs.job import run


def hunt(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs | None = None,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Findings:
    """Hunt with each suspect in turn; findings in memory, or with `out` in a run folder that can be resumed.

    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "mnist" or "folder:photos", a `Dataset`, or `Photographs`; without, what the basket was
        trained on.
    workers: processes (default: one a core on a CPU, where basket and data can be opened by each).
    trust: load network files that can run code.
    options: the fields of `HuntConfig`: suspect, peers, trials, seed, split, space, objective, search, canvas, …
        `space`, `objective` and `search` may also be objects and functions.
    """
    return run(HUNT, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
