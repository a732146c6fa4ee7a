"""Rank a pool: existing images without labels, by how clearly a suspect dissents from its peers (paper 1, Sec. 2).

    pool → every network through its own preprocessing → rankings → the best of them as findings with an empty path

Two passes. The first judges every image and keeps a few numbers of each that dissents, unit by unit in RUN/ranking; the
second reads the best again and writes them, best first, as the run's findings. Neither holds more than a few batches,
so a pool may be of any size. The peers' consensus stands in for the label, or people are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible import realism
from foible.basket import Basket
from foible.basket.accuracy import tell_unreadable
from foible.data import Dataset, Photographs
from foible.errors import UserError
from foible.findings import Findings
from foible.objectives import Dissent
from foible.recipes.config import RankConfig
from foible.recipes.rank import RANK
from foible.recipes.rank.summary import read_summary, write_summary
from foible.recipes.rank.units import Keeping
from foible.recipes.seeds import chosen
from foible.runs.folder import RunFolder
from foible.runs.job import run
from foible.runs.recipe import Recipe, known_options
from foible.runs.task import Task

__all__ = ["rank", "read_summary"]


def read_options(recipe: Recipe, options: dict[str, Any]) -> tuple[RankConfig, dict[str, Any]]:
    """The config, checked; a ranking has no part that could be an object."""
    config = RankConfig(**known_options(recipe.config, options, recipe.name))
    realism.check(config.realism)
    Dissent(config.peer_confidence, config.suspect_confidence)  # or an error that names the wrong one
    return config, {}


def with_peers(basket: Basket, config: RankConfig) -> Basket:
    """Those that are asked for, if there are at least two."""
    if len(basket) < 2:
        raise UserError(f"{basket.names[0]!r} is the only network: give at least one peer for it to dissent from")
    return chosen(basket, config)


def settings_of(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    config, names = task.config, task.basket.names
    return {
        "labels": config.labelled,
        "suspects": list(config.suspect) or [name for name in names if name not in config.peers],
        "peers": list(config.peers), "top": config.top, "label": config.label,
        "peer_confidence": config.peer_confidence, "suspect_confidence": config.suspect_confidence,
    }  # fmt: skip


def finish(task: Task, work: Keeping, folder: RunFolder | None) -> None:
    """What could not be read, on standard error and in the folder; what all units came to, in RUN/pool.json."""
    if not task.quiet:
        tell_unreadable(work.counts.unreadable)
    if folder is not None:
        folder.list_unreadable([*task.matched.data.problems, *work.counts.unreadable])
        write_summary(work, folder)


def rank(
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
    """The images of a pool on which a suspect dissents from peers who agree, the clearest first, suspect by suspect.

    basket: a `Basket`, a folder that `foible train` wrote, or a list of `[NAME=]SPEC`.
    data: a data spec such as "folder:photos" (every image file below it), a `Dataset`, or `Photographs`. Its labels,
        where it has any, decide nothing.
    out: a run folder, which can be resumed; findings in memory without.
    workers: processes (default: this one, with a thread a core).
    options: the fields of `RankConfig`: suspect, peers, top, label, split, canvas, peer_confidence, …
    """
    return run(RANK, basket, data, out=out, workers=workers, device=device, trust=trust, quiet=quiet, **options)
