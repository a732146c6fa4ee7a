"""Compare: labelled images as they are, judged by several networks. What did the new one break, and what did it fix?

    data → every network through its own preprocessing → answers of all images, and findings with an empty path

Of two versions the paired counts tell most: broken (the old one was right, the new one is wrong), fixed, both wrong.
With three networks or more, an image where one dissents from all the others, who are right, is paper 1's high-value
mistake without any transform. Where every network agrees against the label, the label is in doubt.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from foible.basket import Basket
from foible.clean import Clean, answers, hints, tell, tell_unreadable
from foible.data import Dataset, Photographs, open_data
from foible.data.dataset import shown
from foible.disk import write_atomically
from foible.errors import Interrupted, UserError
from foible.findings import SCHEMA, with_metadata
from foible.judging import Judged, judged
from foible.meeting import Meeting, meet
from foible.objectives import probabilities
from foible.progress import progress
from foible.recipes.compare_rows import Flagged, Rule, finding_rows
from foible.recipes.compare_summary import Counts, summarise_counts
from foible.recipes.config import CompareConfig
from foible.recipes.hunt import shape_of
from foible.recipes.parts import absolute
from foible.recipes.reopen import reopen
from foible.runs import RunFolder, settings_hash


@dataclass(frozen=True, eq=False)
class _Comparer:
    """Everything that a unit of work needs."""

    basket: Basket
    meeting: Meeting
    old: str
    new: str
    labelled: bool
    settings: dict[str, Any]

    def part(self, unit: int) -> Tensor:
        size = self.settings["unit"]
        return self.meeting.index[unit * size : (unit + 1) * size]

    @property
    def units(self) -> int:
        return math.ceil(len(self.meeting.index) / int(self.settings["unit"]))

    def work(self, unit: int, tick: Any) -> tuple[pa.Table, pa.Table, list[tuple[Tensor, Tensor]], list[str]]:
        """Answers and findings of one unit, a few images (for hints), and what could not be read."""
        data, key, names = self.meeting.data, settings_hash(self.settings), self.basket.names
        rule = Rule(len(names), names.index(self.old), names.index(self.new), self.labelled)
        tables, flagged = [], []
        few: list[tuple[Tensor, Tensor]] = []
        unreadable: list[str] = []
        for seen in judged(self.basket, data, index=self.part(unit), canvas=self.meeting.canvas, keep=True):
            assert seen.canvas is not None
            said, labels = answers(seen.logits), self.meeting.labels[seen.index]
            tables.append(_answers(seen, data.files, labels, said))
            tags = rule.tags(said, labels)
            if tags:
                rows, suspects = torch.tensor(list(tags)).t()
                flagged.append(
                    Flagged(
                        seen.index[rows], suspects, list(tags.values()), labels[rows], seen.logits[:, rows],
                        seen.canvas[rows],
                    )
                )  # fmt: skip
            unreadable += [f"{data.files[place] if data.files else place}: {why}" for place, why in seen.problems]
            if sum(len(images) for images, _ in few) < 64:
                few.append((seen.canvas[:64], labels[:64]))
            tick(len(seen.index) + len(seen.problems))
        notes = {"foible.classes": json.dumps(self.basket.classes), "foible.networks": json.dumps(names)}
        told = pa.concat_tables(tables).replace_schema_metadata(notes)
        found = SCHEMA.empty_table()
        if flagged:
            found = finding_rows(self.basket, self.meeting, rule, Flagged.gather(flagged), key)
        return told, with_metadata(found, self.basket.classes, {key: self.settings}), few, unreadable


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


def compare(
    networks: Basket | str | Path | Sequence[str],
    data: str | Dataset | Photographs = "digits",
    *,
    out: str | Path,
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Judge every image with every network; the run at `out` holds findings, all answers and the summary.

    networks: a `Basket`, a basket folder, or a list of `[NAME=]SPEC`. The first is the old version and the last the
        new one, unless `old` and `new` name others.
    options: the fields of `CompareConfig`. Returns the summary, which is also in `out`/compare.json.
    """
    config = CompareConfig.read(options)
    labelled = not config.unlabelled
    data_set = open_data(data, config.split, labelled=labelled, quiet=quiet)
    if not isinstance(networks, Basket):
        networks = Basket.open(
            networks, device=device, classes=data_set.classes or None, shape=shape_of(data_set), trust=trust
        )
    basket = networks
    old, new = config.old or basket.names[0], config.new or basket.names[-1]
    for name in (old, new):
        basket.peers(name)  # or an error that names it
    if len(basket) < 2:
        raise UserError(
            f"{basket.names[0]!r} is the only network: give at least two to compare, --network once for each"
        )
    if old == new:
        raise UserError(f"old and new are both {old!r}: name two networks")
    meeting = meet(data_set, basket, canvas=config.canvas, labelled=labelled)
    settings = {
        "recipe": "compare", "data": data_set.name, "data_sha256": meeting.data.sha256, "split": data_set.split,
        "names": list(basket.names), "old": old, "new": new, "labelled": labelled,
        "canvas": None if meeting.canvas is None else meeting.canvas.to_json(), "canvas_given": config.canvas,
        "networks": dict(basket.fingerprints),
        "lists": {name: settings_hash({"classes": basket.lists[name]}) for name in basket.names},
        "preprocess": {name: how.to_json() for name, how in basket.preprocess.items()},
        "unit": config.unit or max(256, min(4096, 21_000_000 // (meeting.size[0] * meeting.size[1]))),
        "device": basket.device.type,
    }  # fmt: skip
    comparer = _Comparer(basket, meeting, old, new, labelled, settings)
    folder = RunFolder(out)
    with folder.lock():
        where = {
            "basket": [absolute(spec) for spec in basket.source or []], "data": absolute(data_set.name),
            "device": basket.device.type, "trust": trust,
        }  # fmt: skip
        folder.begin(settings, where, comparer.units, notes=[*basket.notes, *meeting.notes])
        _work(comparer, folder, quiet)
        return _summary(comparer, folder)


def _work(comparer: _Comparer, folder: RunFolder, quiet: bool) -> None:
    """Do the units that are missing; what they could not read goes to a file beside each."""
    kept = folder.path / "answers"
    kept.mkdir(exist_ok=True)
    missing = folder.missing(comparer.units)
    total = len(comparer.meeting.index)
    few: list[tuple[Tensor, Tensor]] = []
    try:
        with progress("Comparing", total, quiet=quiet) as bar:
            done = total - sum(len(comparer.part(unit)) for unit in missing)
            if done:
                bar.advance(done, "already on disk")
            for unit in missing:
                started = time.perf_counter()
                told, found, sample, unreadable = comparer.work(unit, bar.advance)
                few = few or sample
                sink = pa.BufferOutputStream()
                pq.write_table(told, sink, compression="zstd")
                write_atomically(kept / f"unit-{unit:06d}.parquet", sink.getvalue().to_pybytes())
                if unreadable:
                    write_atomically(kept / f"unit-{unit:06d}.unreadable", "\n".join(map(shown, unreadable)).encode())
                folder.write(unit, found, {"seconds": time.perf_counter() - started})
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped; finished units are in {folder.path}: the same command goes on from there"
        ) from None
    if not quiet:
        tell_unreadable(_unreadable(folder))
    if comparer.labelled and few:
        clean = _clean(comparer, folder)
        folder.note(clean=clean.rows())
        images, labels = (torch.cat(parts) for parts in zip(*few, strict=True))
        notes = [*comparer.basket.notes, *comparer.meeting.notes]
        if not quiet:
            tell(clean, notes, hints(comparer.basket, clean, images, labels))


def read_answers(run: str | Path) -> Iterator[tuple[Tensor, Tensor]]:
    """(said (networks, n), labels (n,) with -1 for none) of every unit of a compare run."""
    for file in sorted((Path(run) / "answers").glob("unit-*.parquet")):
        table = pq.read_table(file, columns=["label", "said"], partitioning=None)
        said = table.column("said").combine_chunks()
        width = len(json.loads(table.schema.metadata[b"foible.networks"]))
        labels = table.column("label").fill_null(-1).to_numpy()
        yield torch.tensor(said.flatten().to_numpy()).view(-1, width).t().long(), torch.tensor(labels).long()


def _unreadable(folder: RunFolder) -> list[str]:
    files = sorted((folder.path / "answers").glob("*.unreadable"))
    return [line for file in files for line in file.read_text("utf-8").splitlines()]


def _clean(comparer: _Comparer, folder: RunFolder) -> Clean:
    clean = Clean(comparer.basket.names, comparer.basket.classes)
    for said, labels in read_answers(folder.path):
        clean.add(said, labels)
    return clean


def _summary(comparer: _Comparer, folder: RunFolder) -> dict[str, Any]:
    names = comparer.basket.names
    counts = Counts(len(names), len(comparer.basket.classes), names.index(comparer.old), names.index(comparer.new))
    for said, labels in read_answers(folder.path):
        counts.add(said, labels, comparer.labelled)
    lines = [*comparer.meeting.data.problems, *_unreadable(folder)]
    folder.list_unreadable(lines)
    outcomes = [row for file in folder.shards() for row in pq.read_table(file, columns=["outcome"])[0].to_pylist()]
    canvas = comparer.meeting.canvas
    summary = {
        "networks": list(names), "old": comparer.old, "new": comparer.new, "labelled": comparer.labelled,
        "unreadable": len(lines), "notes": [*comparer.basket.notes, *comparer.meeting.notes],
        "left_out": len(comparer.meeting.data) - len(comparer.meeting.index),
        "classes": list(comparer.basket.classes), "canvas": None if canvas is None else canvas.to_json(),
        **summarise_counts(counts, names, comparer.basket.classes, comparer.labelled),
        "findings": len(outcomes), "unsettled": outcomes.count("unsettled"),
        "config": settings_hash(comparer.settings),
    }  # fmt: skip
    write_atomically(folder.path / "compare.json", json.dumps(summary, indent=1, ensure_ascii=False).encode())
    return summary


def open_comparison(run: str | Path, *, basket: Basket | None = None, trust: bool = False) -> tuple[Basket, Meeting]:
    """The networks and the data of a comparison on disk; refuses networks that have changed."""
    labelled = RunFolder(run).config["settings"]["labelled"]
    return reopen(run, has_labels=labelled, labelled=labelled, basket=basket, trust=trust)
