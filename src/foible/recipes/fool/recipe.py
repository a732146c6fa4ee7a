"""Fool a network (paper 5): genomes, or pixels → as much confidence in every class as can be had → findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.findings import Findings
from foible.recipes.fool import FOOL
from foible.runs.job import run


def fool(
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
    """Make images from nothing that a network takes for each class with confidence; findings in memory, or with `out`
    in a run folder that can be resumed.

    Arguments as `foible.hunt` takes them; of the data the size of images and the classes are taken, and the mean image
    where pixels climb. options: the fields of `FoolConfig`: suspect, encoding, target, runs, generations, population,
    of, confidence, seed, …
    """
    return run(FOOL, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
