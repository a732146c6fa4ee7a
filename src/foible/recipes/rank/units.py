"""The units of a ranking: a first pass that judges every image of a pool, and a second that keeps the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import pyarrow as pa
import torch
from torch import Tensor

from foible import realism
from foible.basket import Basket
from foible.basket.accuracy import none_read
from foible.basket.judging import Judged, judged
from foible.class_names import align
from foible.data import Dataset, Photographs, read
from foible.errors import UserError
from foible.findings import SCHEMA, with_metadata
from foible.objectives import Dissent
from foible.recipes.rank.rows import Counts, Ranking, Side, as_shard, finding_rows, gather, rank_batch
from foible.recipes.seeds import peers_of
from foible.runs.local import Tick
from foible.runs.spans import Span
from foible.runs.task import ImageUnits, Task


class Ranker:
    """What both passes need. truths: (images of the pool,), -1 where the data tells none."""

    def __init__(self, task: Task) -> None:
        self.task, self.settings, names = task, task.settings, task.basket.names
        self.truths = _truths(task.matched.data, task.basket)
        self.objective = Dissent(self.settings["peer_confidence"], self.settings["suspect_confidence"])
        suspects, peers = self.settings["suspects"], self.settings["peers"]
        sides = [(suspect, *peers_of(task.basket, suspect, peers)) for suspect in suspects]
        self.sides = [Side(tuple(map(names.index, side))) for side in sides]
        if task.named["realism"].startswith("network:"):
            _ = self.realism  # what is wrong with it should be said now and not after the last image

    @cached_property
    def realism(self) -> realism.Realism | None:
        """Fitted to some of the pool, evenly spread."""
        index, (height, width) = self.task.matched.index, self.task.matched.size
        if self.settings["realism"] == "none":
            return None
        most = min(len(index), max(64, min(1000, 10_000_000 // (height * width))))
        some = index[torch.linspace(0, len(index) - 1, most, dtype=torch.float64).long()]
        images = read(self.task.matched.data, some, [self.task.matched.canvas]).images[0]
        return realism.fit(self.task.named["realism"], images, basket=self.task.basket, may=self.task.may)

    def judged(self, index: Tensor) -> Iterator[Judged]:
        matched, threads = self.task.matched, self.task.workers
        return judged(self.task.basket, matched.data, index=index, canvas=matched.canvas, keep=True, workers=threads)


class Judging(Ranker, ImageUnits):
    """The first pass: of every unit of images, the best so far of each suspect."""

    def unit(self, span: Span, tick: Tick) -> pa.Table:
        """The ranking of one unit of positions."""
        basket, matched = self.task.basket, self.task.matched
        rankings, counts = [Ranking(self.settings["top"]) for _ in self.sides], Counts()
        for seen in self.judged(self.part(span)):
            counts.add(rank_batch(basket, matched, self.truths, self.sides, self.objective, seen, rankings))
            tick(len(seen.index) + len(seen.problems))
        return as_shard(rankings, counts, {self.task.key: self.settings})


class Keeping(Ranker):
    """The second pass: the best of all units read again, and written best first."""

    def __init__(self, task: Task, before: Iterable[pa.Table]) -> None:
        super().__init__(task)
        self.best, self.counts = gather(before, len(self.sides), self.settings["top"])
        if not self.counts.images:
            data = task.matched.data
            raise none_read(data.name, len(data), self.counts.unreadable[0])

    @property
    def lanes(self) -> list[int]:
        """Images kept for each suspect."""
        return [len(ranking.score) for ranking in self.best]

    @property
    def most(self) -> int:
        """Few enough rows for their images to be held."""
        return max(16, min(1000, 21_000_000 // (self.task.matched.size[0] * self.task.matched.size[1])))

    def unit(self, span: Span, tick: Tick) -> pa.Table:
        """Findings of one suspect, in the order of its ranking."""
        basket, matched, key = self.task.basket, self.task.matched, self.task.key
        suspect, start, end = span
        position, aims = self.best[suspect].position[start:end], self.best[suspect].aim[start:end]
        tables, done = [SCHEMA.empty_table()], 0
        for seen in self.judged(position) if len(position) else ():
            if seen.problems:
                place, why = seen.problems[0]
                raise UserError(f"image {place} of {matched.data.name!r} could be read and cannot now: {why}")
            aim = aims[done : done + len(seen.index)]
            done += len(seen.index)
            tables.append(
                finding_rows(
                    basket, matched, self.truths, self.sides[suspect], self.objective, seen, aim, self.realism,
                    people=self.settings["label"] == "people", key=key,
                )
            )  # fmt: skip
            tick(len(seen.index))
        return with_metadata(pa.concat_tables(tables), basket.classes, {key: self.settings})


def _truths(data: Dataset | Photographs, basket: Basket) -> Tensor:
    """(n,) what the data itself says of its images, as the basket counts classes; -1 where it says nothing."""
    if not data.classes:
        return torch.full((len(data),), -1)
    places = torch.tensor([-1 if place is None else place for place in align(data.classes, basket.classes)])
    return torch.where(data.labels >= 0, places[data.labels.clamp_min(0)], -1)
