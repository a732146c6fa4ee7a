"""What a ranking came to: who dissented how often, and how often the consensus was right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.disk import write_atomically
from foible.errors import UserError
from foible.recipes.pool_rows import Counts, Ranking
from foible.recipes.pool_units import Ranker
from foible.runs import RunFolder, settings_hash
from foible.summary import wilson

SUMMARY = "pool.json"


def write_summary(ranker: Ranker, folder: RunFolder, best: Sequence[Ranking], counts: Counts) -> None:
    """Write it to RUN/pool.json, with Wilson's interval where the data tells the truth of what was found."""
    suspects = []
    for number, (side, ranking) in enumerate(zip(ranker.sides, best, strict=True)):
        names = [ranker.basket.names[place] for place in side.places]
        right, known = counts.right[number], counts.known[number]
        low, high = wilson(right, known)
        suspects.append(
            {
                "suspect": names[0], "peers": names[1:], "dissent": counts.dissent[number],
                "found": counts.found[number], "kept": len(ranking.score),
                "reliability": {"right": right, "n": known, "share": right / known, "low": low, "high": high}
                if known else None,
            }
        )  # fmt: skip
    summary = {
        "images": counts.images, "unreadable": len(ranker.meeting.data.problems) + len(counts.unreadable),
        "invalid": counts.invalid, "agree": counts.agree, "top": ranker.settings["top"],
        "label": ranker.settings["label"], "suspects": suspects, "classes": list(ranker.basket.classes),
        "notes": [*ranker.basket.notes, *ranker.meeting.notes], "config": settings_hash(ranker.settings),
    }  # fmt: skip
    write_atomically(folder.path / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False).encode())


def read_summary(run: str | Path) -> dict[str, Any]:
    """What a finished ranking came to: images, who dissented how often, how often the consensus was right."""
    try:
        return dict(json.loads((Path(run) / SUMMARY).read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{str(run)!r} has no summary of a finished ranking ({error}): rank the pool again") from error
