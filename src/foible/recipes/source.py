"""Images that are no data set: the findings of a run, or one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from foible.data import Dataset
from foible.data.decode import picture, pixels_of, reason
from foible.errors import UserError
from foible.findings import Findings
from foible.images import MOST_JUDGED, decode_png
from foible.text import did_you_mean


def images_from(
    source: str, truth: str | None, *, consensus: bool = False, classes: Sequence[str] = ()
) -> tuple[Dataset, list[str]]:
    """The found images of a run, with what is right; or an image file, which `truth` names the class of, out of
    `classes`. And the ids of findings."""
    path = Path(source)
    if path.is_dir():
        if truth is not None:
            raise UserError("--truth is for one image file: a run knows what is right")
        return _of_run(path, consensus)
    if not path.is_file():
        raise UserError(f"there is no run and no image {source!r}")
    if truth is None:
        raise UserError(f"{source!r}: say what it shows, as in --truth cat")
    if truth not in classes:
        known = ", ".join(classes)
        raise UserError(f"--truth {truth!r} is no class{did_you_mean(truth, classes)}: expected one of {known}")
    try:
        pixels = torch.from_numpy(pixels_of(picture(path.read_bytes())).copy())
    except Exception as error:  # the bytes may be anything
        raise UserError(f"{source!r} is no image that can be read: {reason(error)}") from error
    return Dataset(path.name, "test", pixels[None], torch.tensor([list(classes).index(truth)]), tuple(classes)), []


def _of_run(path: Path, consensus: bool) -> tuple[Dataset, list[str]]:
    findings = Findings.open(path).filter(outcome="found")
    if not len(findings):
        raise UserError(f"{str(path)!r} has no findings to explain")
    rows = list(findings)
    column = "consensus" if consensus else "truth"
    known = [row for row in rows if row[column] is not None and row["image"] is not None]
    if not known:
        advice = "the peers agree on none" if consensus else "say --consensus to take what the peers agree on"
        raise UserError(f"the findings of {str(path)!r} have no truth: {advice}")
    images = torch.stack([decode_png(row["image"], repr(row["id"]), MOST_JUDGED) for row in known])
    labels = torch.tensor([row[column] for row in known])
    ids = [row["id"] for row in known]
    return Dataset(f"run:{path.name}", "test", images, labels, tuple(findings.classes)), ids
