"""compare.json, what a comparison came to: read as it is, once every figure in it is one."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.recipes.compare.against import FORM as AGAINST
from foible.records import COUNT, NUMBER, POSITIVE, SIZE, TEXT, check, read_json

SUMMARY = "compare.json"
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
    "doubtful?": (None, COUNT), "against?": (None, AGAINST),
}  # fmt: skip
# What there is with labels, and without.
LABELLED = {"accuracy": [{"share": NUMBER}], "per_class": list, "flips": dict, "doubtful": int}
UNLABELLED = {"consensus": dict}


def summary_of(run: str | PathLike[str]) -> dict[str, Any]:
    """What a finished comparison came to."""
    return read_summary(Path(run) / SUMMARY)


def read_summary(file: Path) -> dict[str, Any]:
    """The file as it is; a damaged one is named."""
    try:
        summary = check(read_json(file, ADVICE), FORM, str(file), ADVICE)
    except OSError as error:
        raise UserError(f"{file} cannot be read ({error.strerror or error}): {ADVICE}") from error
    check(summary, LABELLED if summary["labelled"] else UNLABELLED, str(file), ADVICE)
    if any(row["network"] not in summary["dissent"] for row in summary.get("accuracy") or ()):
        raise UserError(f"{file} lacks dissent of a network: {ADVICE}")
    against = summary.get("against")
    if against and (
        [one["network"] for one in against["networks"]] != summary["networks"]
        or any(len(one["thresholds"]) != len(summary["classes"]) for one in against["networks"])
    ):
        raise UserError(f"{file} has thresholds of other networks or classes: {ADVICE}")
    return dict(summary)
