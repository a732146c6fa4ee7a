"""The units of a comparison: every network judges some images; the answers of all, and findings of some."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket.accuracy import answers
from foible.basket.judging import Judged, judged
from foible.findings import SCHEMA, with_metadata
from foible.objectives import of_class, probabilities
from foible.recipes.compare.answers import with_answers
from foible.recipes.compare.rows import Flagged, Rule, finding_rows
from foible.runs.local import Shard, Tick
from foible.runs.spans import Span
from foible.runs.task import ImageUnits, Task
from foible.text import shown


class Comparing(ImageUnits):
    """The units of a comparison: some images each, with the answers of every network beside the findings."""

    def __init__(self, task: Task) -> None:
        self.task, self.settings = task, task.settings
        names = task.basket.names
        self.labelled: bool = task.settings["labelled"]
        old, new = (names.index(self.settings[version]) for version in ("old", "new"))
        self.rule = Rule(len(names), old, new, self.labelled)

    def unit(self, span: Span, tick: Tick) -> Shard:
        """Answers and findings of one unit, and what could not be read."""
        basket, matched, key = self.task.basket, self.task.matched, self.task.key
        tables, flagged = [], []
        unreadable: list[str] = []
        threads = self.task.workers
        for seen in judged(
            basket, matched.data, index=self.part(span), canvas=matched.canvas, keep=True, workers=threads
        ):
            assert seen.canvas is not None
            said, labels = answers(seen.logits), matched.labels[seen.index]
            tables.append(_answers(seen, matched.data.files, labels, said))
            tags = self.rule.tags(said, labels)
            if tags:
                rows, suspects = torch.tensor(list(tags)).t()
                flagged.append(
                    Flagged(
                        seen.index[rows], suspects, list(tags.values()), labels[rows], seen.logits[:, rows],
                        seen.canvas[rows],
                    )
                )  # fmt: skip
            unreadable += map(matched.told, seen.problems)
            tick(len(seen.index) + len(seen.problems))
        notes = {"foible.classes": json.dumps(basket.classes), "foible.networks": json.dumps(basket.names)}
        told = pa.concat_tables(tables).replace_schema_metadata(notes)
        found = SCHEMA.empty_table()
        if flagged:
            found = finding_rows(basket, matched, self.rule, Flagged.gather(flagged), key)
        rows = with_metadata(found, basket.classes, {key: self.settings})
        return with_answers(span, told, rows, list(map(shown, unreadable)))


def _answers(seen: Judged, files: Sequence[str] | None, labels: Tensor, said: Tensor) -> pa.Table:
    """One row an image: what every network said, how sure it was, and what it gave to the label."""
    shares = probabilities(seen.logits)
    sure = shares.gather(2, said.clamp_min(0)[..., None])[..., 0]
    given = torch.where(labels >= 0, of_class(shares, labels.clamp_min(0)), torch.nan)
    named = [None if files is None else files[place] for place in seen.index.tolist()]
    offsets = pa.array(range(0, said.numel() + 1, len(said)), pa.int32())
    return pa.table(
        {
            "index": pa.array(seen.index.numpy()),
            "file": pa.array(named, pa.string()),
            "label": pa.array(labels.numpy(), mask=(labels < 0).numpy()).cast(pa.int32()),
            "said": pa.ListArray.from_arrays(offsets, pa.array(said.t().flatten().int().numpy())),
            "confidence": pa.ListArray.from_arrays(offsets, pa.array(sure.t().flatten().numpy())),
            "given": pa.ListArray.from_arrays(offsets, pa.array(given.t().flatten().numpy())),
        }
    )
