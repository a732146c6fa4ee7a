"""Beside a find, what would have mended it: `foible explain RUN` keeps it with that run, for its report to show."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foible.disk import write_atomically
from foible.errors import UserError
from foible.images import encode_png
from foible.records import TEXT, check, read_json
from foible.report.pages.explain import COLUMNS, changes_of, coloured, scale_of
from foible.report.pictures import picture
from foible.report.run import OpenRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foible.report.why import Map

MENDED = "mended.json"
MOST = 400  # finds that are shown so
_FORM = {"mended": [{"id": TEXT, "words": TEXT, "pictures": [TEXT]}]}


def keep_beside(run: str | Path, explained: str | Path, ids: Sequence[str]) -> Path:
    """Write what mends each finding into the run that was explained. ids: of its findings, in the order that they were
    shown to `explain`."""
    kept: list[dict[str, Any]] = []
    for table in OpenRun.open(explained).tables((*COLUMNS, "origin_index")):
        for row in table.to_pylist():
            png = row["least_image"] or row["image"]
            if row["outcome"] != "found" or png is None or len(kept) >= MOST:
                continue
            pair = changes_of(row)
            change = pair[1] if pair[1] is not None else pair[0]
            if change is not None:
                drawn = encode_png(coloured(change, scale_of([change])))
                distance = dict(row["least_change"] or row["change"] or ()).get("latent distance")
                words = "what mends it" if distance is None else f"what mends it, ‖e‖ {distance:.2f}"
                pictures = [b64encode(one).decode() for one in (png, drawn)]
                kept.append({"id": ids[row["origin_index"]], "words": words, "pictures": pictures})
    file = Path(run) / MENDED
    new = {one["id"] for one in kept}
    older = [one for one in _read(Path(run)) if one["id"] not in new]  # of another suspect's finds, say
    write_atomically(file, json.dumps({"mended": [*kept, *older][: 4 * MOST]}).encode())
    return file


def _read(run: Path) -> list[dict[str, Any]]:
    """What is kept with a run; nothing where there is no such file, or where it is not ours."""
    try:
        return list(check(read_json(run / MENDED, ""), _FORM, MENDED)["mended"])
    except (OSError, UserError):
        return []


def mended_of(source: OpenRun) -> dict[str, list[Map]]:
    """What was kept with a run, by finding; none where there is no such file, or where it is not ours."""
    from foible.report.why import Map

    found: dict[str, list[Map]] = {}
    for one in [] if source.folder is None else _read(source.folder):
        for text, words in zip(
            one["pictures"][:2], (one["words"], "added (orange) and taken away (blue)"), strict=False
        ):
            try:
                shown = picture(b64decode(text, validate=True))
            except ValueError:
                shown = None
            if shown is not None:
                found.setdefault(one["id"], []).append(Map(shown, words, None))
    return found
