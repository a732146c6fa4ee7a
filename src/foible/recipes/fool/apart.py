"""Can it be told? How well a network's answers tell the images that fool it from real ones, kept with the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings import Findings
from foible.records import COUNT, NUMBER, TEXT, read_versioned
from foible.rejection.fitting import judge_source
from foible.rejection.rule import as_rows
from foible.rejection.scores import told_apart
from foible.runs.folder import RunFolder
from foible.runs.task import Task

FILE = "told-apart.json"
VERSION = 1
REAL = 2000  # images, at most
FEW = 5  # fooling images that tell nothing
ROW = {
    "score": TEXT, **dict.fromkeys(("auroc", "low", "high", "passes", "passes_low", "passes_high"), NUMBER),
    "real": COUNT, "fooling": COUNT,
}  # fmt: skip
FORM = {"schema_version": COUNT, "suspects": {str: [ROW]}}


def finish(task: Task, _: Any, folder: RunFolder | None) -> None:
    """Judge real images beside what was found for each suspect, and keep how well each score tells them apart."""
    if folder is None:
        return
    told = {}
    for suspect in task.settings["suspects"]:
        basket = task.basket.only([suspect, *task.basket.peers(suspect)])
        found = Findings.open(folder.path).filter(outcome="found", suspect=suspect)
        if len(found) < FEW:
            continue
        try:
            real, fooling = (
                judge_source(basket, source, REAL, task.settings["seed"], True)[2]
                for source in (task.matched.data, found)
            )
            told[suspect] = as_rows(told_apart(real, fooling))
        except UserError:
            continue  # a network that answers with NaN: its rows say so
    text = json.dumps({"schema_version": VERSION, "suspects": told}, indent=1, ensure_ascii=False)
    write_atomically(folder.path / FILE, text.encode())


def kept(folder: Path | None) -> dict[str, list[dict[str, Any]]]:
    """What `finish` kept, by suspect; nothing where there is nothing, or nothing that can be read."""
    try:
        had = read_versioned(folder / FILE, FORM, VERSION, missing="", advice="") if folder else {"suspects": {}}
    except UserError:
        return {}
    return dict(had["suspects"])
