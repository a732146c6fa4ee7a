"""What a comparison comes to: counts over all answers, and the figures made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.errors import UserError
from foible.records import COUNT, NUMBER, POSITIVE, SIZE, TEXT, check, read_json
from foible.statistics import mcnemar, paired, wilson

ADVICE = "delete it and run the same comparison again"
COUNTS = {str: COUNT}
SHARE = {"network": TEXT, "right": COUNT, "n": COUNT, "share": (None, NUMBER), "low": NUMBER, "high": NUMBER}
INTERVAL = {"low": NUMBER, "high": NUMBER}
FLIPS = {
    "n": POSITIVE, **dict.fromkeys(("both_right", "fixed", "broken", "both_wrong"), COUNT),
    "negative_flip_rate": {"share": NUMBER, **INTERVAL}, "difference": {"points": NUMBER, **INTERVAL},
    "mcnemar_p": NUMBER,
}  # fmt: skip
PER_CLASS = {"class": TEXT, "n": POSITIVE, "networks": [SHARE], "fixed": COUNT, "broken": COUNT}
CONSENSUS = {"agree": COUNT, "dissent": COUNTS, "split": COUNT}
FORM = {
    "networks": [TEXT], "old": (None, TEXT), "new": (None, TEXT), "labelled": bool, "images": COUNT,
    "unreadable": COUNT, "left_out?": (None, COUNT, COUNTS), "notes?": (None, [TEXT]), "classes": [TEXT],
    "canvas?": (None, {"size?": SIZE}), "dissent": COUNTS, "unsettled?": (None, COUNT), "accuracy?": (None, [SHARE]),
    "per_class?": (None, [PER_CLASS]), "flips?": (None, FLIPS), "consensus?": (None, CONSENSUS),
    "doubtful?": (None, COUNT),
}  # fmt: skip
# What there is with labels, and without.
LABELLED = {"accuracy": [{"share": NUMBER}], "per_class": list, "flips": dict, "doubtful": int}
UNLABELLED = {"consensus": dict}


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


def read_summary(file: Path) -> dict[str, Any]:
    """compare.json as it is, once every figure in it is one; a damaged one is named."""
    try:
        summary = check(read_json(file, ADVICE), FORM, str(file), ADVICE)
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror or error}): {ADVICE}") from error
    check(summary, LABELLED if summary["labelled"] else UNLABELLED, str(file), ADVICE)
    if any(row["network"] not in summary["dissent"] for row in summary.get("accuracy") or ()):
        raise UserError(f"{file} lacks dissent of a network: {ADVICE}")
    return dict(summary)
