"""What a ranking came to: who dissented how often, and how often the consensus was right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foible.disk import write_atomically
from foible.errors import UserError
from foible.records import COUNT, NUMBER, POSITIVE, TEXT, check, read_json
from foible.runs.folder import RunFolder
from foible.statistics import wilson

if TYPE_CHECKING:
    from foible.recipes.rank.units import Keeping

SUMMARY = "pool.json"
ADVICE = "rank the pool again"
RELIABILITY = {"right": COUNT, "n": POSITIVE, "share": NUMBER, "low": NUMBER, "high": NUMBER}
FORM = {
    **dict.fromkeys(("unreadable", "invalid", "agree", "top"), COUNT), "images": POSITIVE, "label": TEXT,
    "suspects": [
        {"suspect": TEXT, "peers": [TEXT], "dissent": COUNT, "found": COUNT, "kept": COUNT,
         "reliability": (None, RELIABILITY)}
    ],
    "classes?": [TEXT], "notes?": [TEXT], "config?": TEXT,
}  # fmt: skip


def write_summary(work: Keeping, folder: RunFolder) -> None:
    """Write it to RUN/pool.json, with Wilson's interval where the data tells the truth of what was found."""
    task, counts, suspects = work.task, work.counts, []
    for number, (side, ranking) in enumerate(zip(work.sides, work.best, strict=True)):
        names = [task.basket.names[place] for place in side.places]
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
        "images": counts.images, "unreadable": len(task.matched.data.problems) + len(counts.unreadable),
        "invalid": counts.invalid, "agree": counts.agree, "top": task.settings["top"],
        "label": task.settings["label"], "suspects": suspects, "classes": list(task.basket.classes),
        "notes": [*task.basket.notes, *task.matched.notes], "config": task.key,
    }  # fmt: skip
    write_atomically(folder.path / SUMMARY, json.dumps(summary, indent=1, ensure_ascii=False).encode())


def read_summary(run: str | Path) -> dict[str, Any]:
    """What a finished ranking came to: images, who dissented how often, how often the consensus was right."""
    try:
        return dict(check(read_json(Path(run) / SUMMARY, ADVICE), FORM, str(Path(run) / SUMMARY), ADVICE))
    except OSError as error:
        raise UserError(f"{str(run)!r} has no summary of a finished ranking ({error}): {ADVICE}") from error
