"""Can it be told? How well each network's answers tell the images that fool it from real ones, kept beside a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.data import Dataset, Photographs
from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings import Findings
from foible.records import COUNT, NUMBER, TEXT, read_versioned
from foible.rejection.fitting import judge_source
from foible.rejection.rule import as_rows
from foible.rejection.scores import told_apart

FILE = "told-apart.json"
VERSION = 1
REAL = 2000  # images, at most
FEW = 5  # fooling images that tell nothing
ROW = {
    "score": TEXT, **dict.fromkeys(("auroc", "low", "high", "passes", "passes_low", "passes_high"), NUMBER),
    "real": COUNT, "fooling": COUNT,
}  # fmt: skip
FORM = {"schema_version": COUNT, "suspects": {str: [ROW]}}


def keep(run: Path, basket: Basket, suspects: Sequence[str], data: Dataset | Photographs, seed: int) -> None:
    """Judge real images beside what the run found for each suspect, and write how well each score tells them apart."""
    told = {}
    for suspect in suspects:
        networks = basket.only([suspect, *basket.peers(suspect)])
        found = Findings.open(run).filter(outcome="found", suspect=suspect)
        if len(found) < FEW:
            continue
        try:
            real, fooling = (judge_source(networks, source, REAL, seed, True)[2] for source in (data, found))
            told[suspect] = as_rows(told_apart(real, fooling))
        except UserError:
            continue  # a network that answers with NaN: its rows say so
    text = json.dumps({"schema_version": VERSION, "suspects": told}, indent=1, ensure_ascii=False)
    write_atomically(run / FILE, text.encode())


def kept(run: Path | None) -> dict[str, list[dict[str, Any]]]:
    """What `keep` wrote, by suspect; nothing where there is nothing, or nothing that can be read."""
    try:
        had = read_versioned(run / FILE, FORM, VERSION, missing="", advice="") if run else {"suspects": {}}
    except UserError:
        return {}
    return dict(had["suspects"])
