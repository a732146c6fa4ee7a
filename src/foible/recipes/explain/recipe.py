"""Explain: why was this image misclassified, and what would have mended it (paper 2).

mistakes of a network → shifts in the latent space of a generator, down the cross entropy → findings
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.findings import Findings
from foible.recipes.explain import EXPLAIN
from foible.runs.job import run


def explain(
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
    """Mend each mistake of the suspect by the shift in a latent space that gradient descent finds first, and by the
    smallest one; findings in memory, or with `out` in a run folder that can be resumed.

    Arguments as `foible.hunt` takes them. options: the fields of `ExplainConfig`: generator (a folder, a spec, or an
    object with `encode` and `decode`), suspect, to, images, rate, steps, restarts, momentum, effort, split, seed, …
    """
    return run(EXPLAIN, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
