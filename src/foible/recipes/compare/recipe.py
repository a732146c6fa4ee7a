"""Compare: labelled images as they are, judged by several networks. What did the new one break, and what did it fix?

    data → every network through its own preprocessing → answers of all images, and findings with an empty path

Of two versions the paired counts tell most: broken (the old one was right, the new one is wrong), fixed, both wrong.
With three networks or more, an image where one dissents from all the others, who are right, is paper 1's high-value
mistake without any transform. Where all networks disagree with the label, `against.py` says what is known of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.errors import UserError
from foible.recipes.compare import COMPARE
from foible.recipes.compare.summary import summary_of
from foible.recipes.config import CompareConfig
from foible.runs.job import run
from foible.runs.task import Task


def two_versions(basket: Basket, config: CompareConfig) -> Basket:
    """All networks, if there are an old and a new one."""
    old, new = _versions(basket, config)
    for name in (old, new):
        basket.peers(name)  # or an error that names it
    if len(basket) < 2:
        raise UserError(
            f"{basket.names[0]!r} is the only network: give at least two to compare, --network once for each"
        )
    if old == new:
        raise UserError(f"old and new are both {old!r}: name two networks")
    return basket


def _versions(basket: Basket, config: CompareConfig) -> tuple[str, str]:
    return config.old or basket.names[0], config.new or basket.names[-1]


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    old, new = _versions(task.basket, task.config)
    return {"names": list(task.basket.names), "old": old, "new": new, "labelled": not task.config.unlabelled}


def compare(
    networks: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs | None = None,
    *,
    out: str | Path,
    workers: int | None = None,
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Judge every image with every network; the run at `out` holds findings, all answers and the summary.

    networks: a `Basket`, a basket folder, or a list of `[NAME=]SPEC`. The first is the old version and the last the
        new one, unless `old` and `new` name others.
    workers: processes (default: this one, with a thread a core).
    options: the fields of `CompareConfig`. Returns the summary, which is also in `out`/compare.json.
    """
    run(COMPARE, networks, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
    return summary_of(out)
