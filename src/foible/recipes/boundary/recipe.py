"""Between two classes (paper 4): codes of a generator → lines between them, drawn and judged → findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.findings import Findings
from foible.recipes.boundary import BOUNDARY
from foible.runs.job import run


def boundary(
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
    """Draw images between two classes and have every network judge them; findings in memory, or with `out` in a run
    folder that can be resumed.

    Arguments as `foible.hunt` takes them; of the data the size of images and the classes are taken, what is typical of
    them, and real images to begin with where `ends` says so. options: the fields of `BoundaryConfig`: generator (also
    an object with `decode`), ends, pairs, steps, path, samples, sure, candidates, first, second, seed, …
    """
    return run(BOUNDARY, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
