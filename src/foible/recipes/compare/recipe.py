"""Compare: labelled images as they are, judged by several networks. What did the new one break, and what did it fix?

    data → every network through its own preprocessing → answers of all images, and findings with an empty path

Of two versions the paired counts tell most: broken (the old one was right, the new one is wrong), fixed, both wrong.
With three networks or more, an image where one dissents from all the others, who are right, is paper 1's high-value
mistake without any transform. Where every network agrees against the label, the label is in doubt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import Accuracy, answers, hints, none_read, tell, tell_unreadable
from foible.basket.judging import Judged, ask_first, judged
from foible.data import Dataset, Photographs, read
from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings import SCHEMA, read_shard, shard_files, with_metadata
from foible.objectives import probabilities
from foible.recipes.compare.answers import FOLDER, answer_files, with_answers
from foible.recipes.compare.rows import Flagged, Rule, finding_rows
from foible.recipes.compare.summary import Counts, read_summary, summarise_counts
from foible.recipes.config import CompareConfig
from foible.runs.folder import RunFolder
from foible.runs.job import ImageUnits, Task, run
from foible.runs.local import Shard, Tick
from foible.runs.recipe import Recipe
from foible.text import shown

SUMMARY = "compare.json"
FEW = 64  # images that hints are tried on


class Comparing(ImageUnits):
    """The units of a comparison: some images each, with the answers of every network beside the findings."""

    def __init__(self, task: Task) -> None:
        self.task, self.settings = task, task.settings
        names = task.basket.names
        self.labelled: bool = task.settings["labelled"]
        old, new = (names.index(self.settings[version]) for version in ("old", "new"))
        self.rule = Rule(len(names), old, new, self.labelled)

    def unit(self, number: int, tick: Tick) -> Shard:
        """Answers and findings of one unit, and what could not be read."""
        basket, matched, key = self.task.basket, self.task.matched, self.task.key
        tables, flagged = [], []
        unreadable: list[str] = []
        threads = self.task.workers
        for seen in judged(
            basket, matched.data, index=self.parts[number], canvas=matched.canvas, keep=True, workers=threads
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
        return with_answers(number, told, rows, list(map(shown, unreadable)))


def _answers(seen: Judged, files: Sequence[str] | None, labels: Tensor, said: Tensor) -> pa.Table:
    """One row an image: what every network said, and how sure it was."""
    sure = probabilities(seen.logits).gather(2, said.clamp_min(0)[..., None])[..., 0]
    named = [None if files is None else files[place] for place in seen.index.tolist()]
    offsets = pa.array(range(0, said.numel() + 1, len(said)), pa.int32())
    return pa.table(
        {
            "index": pa.array(seen.index.numpy()),
            "file": pa.array(named, pa.string()),
            "label": pa.array(labels.numpy(), mask=(labels < 0).numpy()).cast(pa.int32()),
            "said": pa.ListArray.from_arrays(offsets, pa.array(said.t().flatten().int().numpy())),
            "confidence": pa.ListArray.from_arrays(offsets, pa.array(sure.t().flatten().numpy())),
        }
    )


def _two_versions(basket: Basket, config: CompareConfig) -> Basket:
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


def _settings(task: Task) -> dict[str, Any]:
    """What the findings depend on, besides what all recipes have."""
    old, new = _versions(task.basket, task.config)
    pixels = task.matched.size[0] * task.matched.size[1]
    return {
        "names": list(task.basket.names), "old": old, "new": new, "labelled": not task.config.unlabelled,
        "unit": task.config.unit or max(256, min(4096, 21_000_000 // pixels)),
    }  # fmt: skip


def _finish(task: Task, work: Comparing, folder: RunFolder) -> None:
    """What all units came to, in RUN/compare.json; how good each network is, on standard error."""
    unreadable = _unreadable(folder)
    total = len(task.matched.index)
    if len(unreadable) >= total:
        raise none_read(task.matched.data.name, total, unreadable[0])
    if not task.quiet:
        tell_unreadable(unreadable)
    if work.labelled:
        clean = Accuracy(task.basket.names, task.basket.classes)
        for said, labels in read_answers(folder.path):
            clean.add(said, labels)
        folder.note(clean=clean.rows())
        if not task.quiet:
            few = read(task.matched.data, task.matched.index[:FEW], [task.matched.canvas])
            advice = hints(task.basket, clean, few.images[0], task.matched.labels[few.index])
            tell(clean, [*task.basket.notes, *task.matched.notes], advice)
    _summarise(task, work, folder, [*task.matched.data.problems, *unreadable])


def _summarise(task: Task, work: Comparing, folder: RunFolder, unreadable: list[str]) -> None:
    basket, matched, rule = task.basket, task.matched, work.rule
    counts = Counts(len(basket), len(basket.classes), rule.old, rule.new)
    for said, labels in read_answers(folder.path):
        counts.add(said, labels, work.labelled)
    folder.list_unreadable(unreadable)
    outcomes = [row for file in shard_files(folder.path) for row in read_shard(file, ["outcome"])[0].to_pylist()]
    summary = {
        "networks": list(basket.names), "old": task.settings["old"], "new": task.settings["new"],
        "labelled": work.labelled, "unreadable": len(unreadable), "notes": [*basket.notes, *matched.notes],
        "left_out": len(matched.data) - len(matched.index), "classes": list(basket.classes),
        "canvas": task.settings["canvas"],
        **summarise_counts(counts, basket.names, basket.classes, work.labelled),
        "findings": len(outcomes), "unsettled": outcomes.count("unsettled"), "config": task.key,
    }  # fmt: skip
    write_atomically(folder.path / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False).encode())


def read_answers(run: str | Path) -> Iterator[tuple[Tensor, Tensor]]:
    """(said (networks, n), labels (n,) with -1 for none) of every unit of a compare run."""
    width = len(RunFolder(run).config["settings"]["names"])
    for table in answer_files(run, ("label", "said")):
        said = table.column("said").combine_chunks()
        labels = table.column("label").fill_null(-1).to_numpy()
        yield torch.tensor(said.flatten().to_numpy()).view(-1, width).t().long(), torch.tensor(labels).long()


def _unreadable(folder: RunFolder) -> list[str]:
    files = sorted((folder.path / FOLDER).glob("*.unreadable"))
    return [line for file in files for line in file.read_text("utf-8").splitlines()]


def _labels(settings: Any) -> tuple[bool, bool]:
    """Of the settings of a run, or of a config."""
    labelled = settings["labelled"] if "labelled" in settings else not settings["unlabelled"]
    return labelled, labelled


# A comparison borrows from paper 1 the mistakes that only one network makes, from Yan et al. the negative flips, and
# its tests from the others; without labels there are no flips to count.
_PAPERS = ("baluja2015virtues", "yan2021positive", "mcnemar1947note", "tango1998equivalence", "wilson1927probable")

COMPARE = Recipe(
    "compare", CompareConfig, work=Comparing, doing="Comparing", networks=_two_versions,
    check=lambda task: ask_first(task.basket, task.matched), labels=_labels, settings=_settings, alone=True,
    finish=_finish, replay="foible.recipes.replay:as_it_is", summary=lambda run: read_summary(Path(run) / SUMMARY),
    told="foible.cli.compare:print_comparison", page="foible.report.pages.compare:render",
    papers=lambda settings: _PAPERS if settings.get("labelled") is not False else _PAPERS[:1], frozen="places",
)  # fmt: skip


def compare(
    networks: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs = "digits",
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
    return read_summary(Path(out) / SUMMARY)
