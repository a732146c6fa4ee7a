"""What a comparison comes to: counts over all answers, the figures made of them, and where they are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from foible.basket.accuracy import Accuracy, look_closer, none_read, tell, tell_unreadable
from foible.disk import write_atomically
from foible.findings import read_shard, shard_files
from foible.recipes.compare.answers import FOLDER, read_answers
from foible.recipes.compare.ranked import against_of
from foible.recipes.compare.summary import SUMMARY
from foible.recipes.compare.units import Comparing
from foible.runs.folder import RunFolder
from foible.runs.task import Task
from foible.statistics import mcnemar, paired, wilson


@dataclass
class Counts:
    """Counts by class, filled batch by batch, so that memory does not grow with the data."""

    networks: int
    classes: int
    old: int
    new: int
    images: int = 0
    agree: int = 0
    doubtful: int = 0
    right: Tensor = field(init=False)  # (networks, classes)
    shown: Tensor = field(init=False)  # (classes,) images of each class
    flips: Tensor = field(init=False)  # (4, classes): both right, fixed, broken, both wrong
    dissent: Tensor = field(init=False)  # (networks,)

    def __post_init__(self) -> None:
        self.right = torch.zeros(self.networks, self.classes, dtype=torch.int64)
        self.shown = torch.zeros(self.classes, dtype=torch.int64)
        self.flips = torch.zeros(4, self.classes, dtype=torch.int64)
        self.dissent = torch.zeros(self.networks, dtype=torch.int64)

    def add(self, said: Tensor, labels: Tensor, labelled: bool) -> None:
        """said: (networks, n), -1 for NaN; labels: (n,)."""
        self.images += len(labels)
        same = (said == said[0]).all(0) & (said[0] >= 0)
        self.agree += int(same.sum())
        for k in range(self.networks):
            others = said[[j for j in range(self.networks) if j != k]]
            alone = (others == others[0]).all(0) & (others[0] >= 0) & (said[k] != others[0])
            if labelled:
                alone &= others[0] == labels
            self.dissent[k] += int(alone.sum())
        if not labelled:
            return
        right = said == labels
        self.shown += torch.bincount(labels, minlength=self.classes)
        for k in range(self.networks):
            self.right[k] += torch.bincount(labels[right[k]], minlength=self.classes)
        old, new = right[self.old], right[self.new]
        for k, which in enumerate((old & new, ~old & new, old & ~new, ~old & ~new)):
            self.flips[k] += torch.bincount(labels[which], minlength=self.classes)
        self.doubtful += int((same & ~right[0]).sum())


def _share(right: int, n: int) -> dict[str, Any]:
    low, high = wilson(right, n)
    return {"right": right, "n": n, "share": right / n if n else None, "low": low, "high": high}


def summarise_counts(counts: Counts, names: Sequence[str], classes: Sequence[str], labelled: bool) -> dict[str, Any]:
    """The figures of compare.json; those that need labels are null without."""
    dissent = dict(zip(names, counts.dissent.tolist(), strict=True))
    if not labelled:
        split = counts.images - counts.agree - (sum(dissent.values()) if len(names) > 2 else 0)
        consensus = {"agree": counts.agree, "dissent": dissent, "split": split}
        return {
            "images": counts.images, "accuracy": None, "per_class": None, "flips": None, "doubtful": None,
            "dissent": dissent, "consensus": consensus,
        }  # fmt: skip
    shown = counts.shown.tolist()
    both_right, fixed, broken, both_wrong = counts.flips.sum(1).tolist()
    n = counts.images
    low, high = wilson(broken, n)
    worse_low, worse_high = paired(broken, fixed, n)
    return {
        "images": n,
        "accuracy": [
            {"network": name, **_share(int(counts.right[k].sum()), n)} for k, name in enumerate(names)
        ],
        "per_class": [
            {
                "class": classes[c],
                "n": shown[c],
                "networks": [
                    {"network": name, **_share(int(counts.right[k, c]), shown[c])} for k, name in enumerate(names)
                ],
                "fixed": int(counts.flips[1, c]),
                "broken": int(counts.flips[2, c]),
            }
            for c in range(len(classes))
            if shown[c]
        ],
        "flips": {
            "n": n, "both_right": both_right, "fixed": fixed, "broken": broken, "both_wrong": both_wrong,
            "negative_flip_rate": {"share": broken / n, "low": low, "high": high},
            "difference": {
                "points": 100 * (fixed - broken) / n, "low": -100 * worse_high, "high": -100 * worse_low
            },
            "mcnemar_p": mcnemar(broken, fixed),
        },
        "doubtful": counts.doubtful,
        "dissent": dissent,
    }  # fmt: skip


def finish(task: Task, work: Comparing, folder: RunFolder) -> None:
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
        look_closer(task.basket, clean, task.matched)
        folder.note(clean=clean.rows())
        if not task.quiet:
            tell(clean, [*task.basket.notes, *task.matched.notes])
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
        "against": against_of(task, folder.path) if work.labelled else None,
        "findings": len(outcomes), "unsettled": outcomes.count("unsettled"), "config": task.key,
    }  # fmt: skip
    write_atomically(folder.path / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False).encode())


def _unreadable(folder: RunFolder) -> list[str]:
    files = sorted((folder.path / FOLDER).glob("*.unreadable"))
    return [line for file in files for line in file.read_text("utf-8").splitlines()]
