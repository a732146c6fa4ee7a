"""What explaining came to: how many mistakes were mended, how far that is in the latent space, and who agrees."""

from __future__ import annotations

from collections import Counter
from os import PathLike
from typing import Any

import numpy as np

from foible.findings import Findings
from foible.findings.tally import Opened, tables
from foible.recipes.explain import ALONE
from foible.statistics import wilson

COLUMNS = (
    "suspect", "networks", "outcome", "truth", "target", "after", "change", "least_change", "tags", "candidates",
    "label_from",
)  # fmt: skip
LATENT, PIXELS = "latent distance", "pixel distance"


def explained(row: dict[str, Any]) -> dict[str, Any]:
    """One row that was found, in numbers. peers: how many of the others give the class too, of how many."""
    aim = row["truth"] if row["target"] is None else row["target"]
    change, least = dict(row["change"] or ()), dict(row["least_change"] or row["change"] or ())
    others = [answers for answers, name in zip(row["after"], row["networks"], strict=True) if name != row["suspect"]]
    return {
        "first": change.get(LATENT), "closest": least.get(LATENT),
        "first_pixels": change.get(PIXELS), "closest_pixels": least.get(PIXELS),
        "peers": sum(answers.index(max(answers)) == aim for answers in others), "of": len(others),
        "alone": ALONE in (row["tags"] or ()),
    }  # fmt: skip


def summarise(run: str | PathLike[str] | Findings | Opened) -> dict[str, Any]:
    """Counts of a run, with Wilson's interval of the share that was mended."""
    outcomes: Counter[str] = Counter()
    suspect, found, steps, targets = "", [], [], Counter[str]()
    for table in tables(run, COLUMNS):
        for row in table.to_pylist():
            suspect = row["suspect"]
            outcomes[row["outcome"]] += 1
            targets["truth" if row["target"] is None else "other"] += 1
            if row["outcome"] == "found":
                found.append(explained(row))
                steps.append(row["candidates"])
    count, mended = outcomes.total(), outcomes["found"]
    low, high = wilson(mended, count)

    def mean(name: str) -> float | None:
        values = [one[name] for one in found if one[name] is not None]
        return float(np.mean(values)) if values else None

    return {
        "suspect": suspect, "to": "truth" if targets["truth"] else "other", "images": count, "mended": mended,
        "share": mended / count if count else None, "low": low, "high": high, "invalid": outcomes["invalid"],
        "first": mean("first"), "closest": mean("closest"), "first_pixels": mean("first_pixels"),
        "closest_pixels": mean("closest_pixels"), "steps": float(np.median(steps)) if steps else None,
        "alone": sum(one["alone"] for one in found), "peers": found[0]["of"] if found else 0,
        "accepted": sum(one["peers"] == one["of"] for one in found if one["of"]),
    }  # fmt: skip
