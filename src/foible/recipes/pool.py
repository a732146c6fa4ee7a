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

import pyarrow as pa
import pyarrow.parquet as pq

from foible import realism
from foible.basket import Basket
from foible.clean import tell_unreadable
from foible.data import Dataset, Photographs, open_data, read
from foible.errors import Interrupted, UserError
from foible.findings import Findings
from foible.objectives import Dissent
from foible.progress import progress
from foible.recipes.config import PoolConfig
from foible.recipes.hunt import shape_of
from foible.recipes.parts import absolute
from foible.recipes.pool_rows import Counts, Ranking, gather
from foible.recipes.pool_summary import read_summary, write_summary
from foible.recipes.pool_units import Ranker, make_ranker, open_pool
from foible.recipes.seeds import chosen
from foible.runs import RunFolder
from foible.runs.local import do_unit, one_thread

__all__ = ["open_pool", "rank", "read_summary"]


def rank(
    basket: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs,
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
    out: a run folder, which can be resumed; findings in memory without. workers: threads that decode and judge.
    options: the fields of `PoolConfig`: suspect, peers, top, label, split, canvas, peer_confidence, …
    """
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}: expected at least 1")
    config = PoolConfig.read(options)
    realism.check(config.realism)
    Dissent(config.peer_confidence, config.suspect_confidence)  # or an error that names the wrong one
    data_set = open_data(data, config.split, labelled=config.labelled, quiet=quiet)
    if not isinstance(basket, Basket):
        basket = Basket.open(
            basket, device=device, classes=data_set.classes or None, shape=shape_of(data_set), trust=trust
        )
    if len(basket) < 2:
        raise UserError(f"{basket.names[0]!r} is the only network: give at least one peer for it to dissent from")
    basket = chosen(basket, config.suspect, config.peers)
    ranker = make_ranker(basket, data_set, config, workers=workers, trust=trust)
    with one_thread():
        first = read(ranker.meeting.data, ranker.meeting.index[:16], [ranker.meeting.canvas])
        if len(first.index):
            basket.check(first.images[0])
    _ = ranker.realism  # what is wrong with it should be said now and not after the last image
    total = len(ranker.meeting.index)
    if out is None:
        with progress("Ranking", total, quiet=quiet) as bar, one_thread():
            shards = [ranker.rank(unit, bar.advance) for unit in range(ranker.units)]
            best, counts = gather(shards, len(ranker.sides), config.top)
        _tell(counts, data_set, quiet)
        return Findings.concat(Findings(ranker.rows(best, *part)) for part in ranker.slices(best))
    folder = RunFolder(out)
    ranking = RunFolder(folder.path / "ranking")
    where = {
        "basket": [absolute(spec) for spec in basket.source or []], "data": absolute(data_set.name),
        "device": basket.device.type, "trust": trust,
    }  # fmt: skip
    with folder.lock():
        folder.begin(ranker.settings, where, 1, notes=[*basket.notes, *ranker.meeting.notes])
        ranking.path.mkdir(exist_ok=True)
        ranking.begin(ranker.settings, where, ranker.units)
        try:
            with progress("Ranking", total, quiet=quiet) as bar, one_thread():
                missing = ranking.missing(ranker.units)
                done = total - sum(min(ranker.settings["unit"], total - u * ranker.settings["unit"]) for u in missing)
                if done:
                    bar.advance(done, "already on disk")
                for unit in missing:
                    do_unit(ranker.rank, ranking, unit, bar.advance)
            best, counts = gather(map(_read, ranking.shards()), len(ranker.sides), config.top)
            _tell(counts, data_set, quiet)
            _write(ranker, folder, best)
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped; finished units are in {folder.path}: the same command goes on from there"
            ) from None
        folder.list_unreadable([*data_set.problems, *counts.unreadable])
        write_summary(ranker, folder, best, counts)
    return Findings.open(folder.path)


def _write(ranker: Ranker, folder: RunFolder, best: Sequence[Ranking]) -> None:
    """The shards of findings that are missing; how many there are to be is known only now."""
    slices = ranker.slices(best)
    if folder.config.get("units") != len(slices):
        folder.note(units=len(slices))
    with one_thread():
        for unit in folder.missing(len(slices)):
            do_unit(lambda unit, _: ranker.rows(best, *slices[unit]), folder, unit, lambda _: None)


def _read(file: Path) -> pa.Table:
    try:
        return pq.read_table(file, partitioning=None, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{file} cannot be read ({error}): delete it, and the same command goes on") from error


def _tell(counts: Counts, data: Dataset | Photographs, quiet: bool) -> None:
    if not counts.images:
        raise UserError(f"none of the {len(data)} images of {data.name!r} could be read: {counts.unreadable[0]}")
    if not quiet:
        tell_unreadable(counts.unreadable)
