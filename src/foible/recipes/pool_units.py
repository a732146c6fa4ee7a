"""One unit of a pool's ranking, and one of its findings: everything that they need, and what they depend on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible import realism
from foible.basket import Basket
from foible.data import Dataset, Photographs, read
from foible.errors import UserError
from foible.findings import SCHEMA, with_metadata
from foible.judging import Judged, judged
from foible.meeting import Meeting, meet
from foible.networks.classes import align
from foible.objectives import Dissent
from foible.recipes.config import PoolConfig
from foible.recipes.pool_rows import Counts, Ranking, Side, as_shard, finding_rows, rank_batch
from foible.recipes.reopen import reopen
from foible.recipes.seeds import peers_of
from foible.runs import RunFolder, settings_hash
from foible.runs.local import Tick


@dataclass(frozen=True, eq=False)
class Ranker:
    """Everything that a unit of work needs. truths: (images of the pool,), -1 where the data tells none."""

    basket: Basket
    meeting: Meeting
    truths: Tensor
    settings: dict[str, Any]
    workers: int | None = None
    trust: bool = False

    @property
    def units(self) -> int:
        return math.ceil(len(self.meeting.index) / int(self.settings["unit"]))

    @cached_property
    def sides(self) -> list[Side]:
        names, peers = self.basket.names, self.settings["peers"]
        return [
            Side(tuple(names.index(name) for name in (suspect, *peers_of(self.basket, suspect, peers))))
            for suspect in self.settings["suspects"]
        ]

    @cached_property
    def objective(self) -> Dissent:
        return Dissent(self.settings["peer_confidence"], self.settings["suspect_confidence"])

    @cached_property
    def realism(self) -> realism.Realism | None:
        """Fitted to some of the pool, evenly spread."""
        index = self.meeting.index
        most = min(len(index), max(64, min(1000, 10_000_000 // (self.meeting.size[0] * self.meeting.size[1]))))
        if self.settings["realism"] == "none":
            return None
        some = index[torch.linspace(0, len(index) - 1, most, dtype=torch.float64).long()]
        images = read(self.meeting.data, some, [self.meeting.canvas]).images[0]
        return realism.fit(self.settings["realism"], images, basket=self.basket, trust=self.trust)

    def slices(self, best: Sequence[Ranking]) -> list[tuple[int, int, int]]:
        """(suspect, from, to) of every shard of findings: few enough rows for their images to be held, and at least
        one shard, if only to say that nothing was found."""
        size = max(16, min(1000, 21_000_000 // (self.meeting.size[0] * self.meeting.size[1])))
        found = [
            (suspect, start, min(start + size, len(ranking.score)))
            for suspect, ranking in enumerate(best)
            for start in range(0, len(ranking.score), size)
        ]
        return found or [(0, 0, 0)]

    def rank(self, unit: int, tick: Tick) -> pa.Table:
        """The ranking of one unit of positions."""
        size, top = self.settings["unit"], self.settings["top"]
        part = self.meeting.index[unit * size : (unit + 1) * size]
        rankings, counts = [Ranking(top) for _ in self.sides], Counts()
        for seen in self._judged(part):
            counts.add(rank_batch(self.basket, self.meeting, self.truths, self.sides, self.objective, seen, rankings))
            tick(len(seen.index) + len(seen.problems))
        return as_shard(rankings, counts)

    def rows(self, best: Sequence[Ranking], suspect: int, start: int, end: int) -> pa.Table:
        """Findings of one suspect, those from `start` to `end` in its ranking."""
        position, aims = best[suspect].position[start:end], best[suspect].aim[start:end]
        key, told = settings_hash(self.settings), self.settings["label"] == "people"
        tables, done = [SCHEMA.empty_table()], 0
        for seen in self._judged(position) if len(position) else ():
            if seen.problems:
                place, why = seen.problems[0]
                raise UserError(f"image {place} of {self.meeting.data.name!r} could be read and cannot now: {why}")
            aim = aims[done : done + len(seen.index)]
            done += len(seen.index)
            tables.append(
                finding_rows(
                    self.basket, self.meeting, self.truths, self.sides[suspect], self.objective, seen, aim,
                    self.realism, people=told, key=key,
                )
            )  # fmt: skip
        return with_metadata(pa.concat_tables(tables), self.basket.classes, {key: self.settings})

    def _judged(self, index: Tensor) -> Iterator[Judged]:
        return judged(
            self.basket, self.meeting.data, index=index, canvas=self.meeting.canvas, keep=True, workers=self.workers
        )


def make_ranker(basket: Basket, data: Dataset | Photographs, config: PoolConfig, **more: Any) -> Ranker:
    meeting = meet(data, basket, canvas=config.canvas, labelled=False)
    truths = _truths(data, basket)
    pixels = meeting.size[0] * meeting.size[1]
    settings = {
        "recipe": "pool", "data": data.name, "data_sha256": meeting.data.sha256, "split": data.split,
        "labels": config.labelled, "canvas": None if meeting.canvas is None else meeting.canvas.to_json(),
        "canvas_given": config.canvas, "networks": dict(basket.fingerprints),
        "lists": {name: settings_hash({"classes": basket.lists[name]}) for name in basket.names},
        "preprocess": {name: how.to_json() for name, how in basket.preprocess.items()},
        "suspects": list(config.suspect) or [name for name in basket.names if name not in config.peers],
        "peers": list(config.peers), "top": config.top, "label": config.label, "realism": config.realism,
        "peer_confidence": config.peer_confidence, "suspect_confidence": config.suspect_confidence,
        "unit": config.unit or max(256, min(4096, 21_000_000 // pixels)), "device": basket.device.type,
    }  # fmt: skip
    return Ranker(basket, meeting, truths, settings, **more)


def _truths(data: Dataset | Photographs, basket: Basket) -> Tensor:
    """(n,) what the data itself says of its images, as the basket counts classes; -1 where it says nothing."""
    if not data.classes:
        return torch.full((len(data),), -1)
    places = torch.tensor([-1 if place is None else place for place in align(data.classes, basket.classes)])
    return torch.where(data.labels >= 0, places[data.labels.clamp_min(0)], -1)


def open_pool(run: str | Path, *, basket: Basket | None = None, trust: bool = False) -> tuple[Basket, Meeting]:
    """The networks and the data of a ranking on disk; refuses networks that have changed."""
    has_labels = RunFolder(run).config["settings"]["labels"]
    return reopen(run, has_labels=has_labels, labelled=False, basket=basket, trust=trust)
