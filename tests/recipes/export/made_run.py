"""A run made up by the schema: colour images, awkward class names, every kind of row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foible.findings import SCHEMA, with_metadata
from foible.images import encode_png

CLASSES = ("NA", "=1+1", "007", '<b a="x">&', "\x1b[2J")  # nothing, a formula, a number, markup, a control character
NETWORKS = ["old", "new", "c"]
SETTINGS = {"recipe": "compare", "data": "folder:x", "split": "test", "seed": 0}
VERSIONS = json.dumps({"foible": "0.1.0", "torch": "2.13", "python": "3.11", "device": "cpu"})


def picture(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (3, 9, 7), dtype=np.uint8)


def row(number: int, truth: int | None, said: int | None, consensus: int | None, **changed: Any) -> dict[str, Any]:
    sure = np.full((3, len(CLASSES)), 0.05)
    if said is not None:
        sure[0, said] = 0.8
    if consensus is not None:
        sure[1:, consensus] = (0.6, 0.7)
    return {
        "id": f"new-{number:06d}", "config": "0123456789ab", "suspect": "new", "networks": NETWORKS, "lane": number,
        "outcome": "found", "tags": ["broken"], "image": encode_png(picture(number)),
        "origin": encode_png(picture(100 + number)), "origin_data": "folder:x", "origin_split": "test",
        "origin_index": number, "origin_file": f"cat/IMG {number}.jpg", "truth": truth, "consensus": consensus,
        "said": said, "before": sure.tolist(), "after": sure.tolist(), "moves": 0, "candidates": 0, "forwards": 3,
        "backwards": 0, "path": [], "trace": [], "point": [], "change": [], "film": None, "versions": VERSIONS,
    } | changed  # fmt: skip


ROWS = [
    *(row(number, number % 5, (number + 1) % 5, number % 5) for number in range(8)),
    row(
        8,
        2,
        1,
        2,
        tags=["fixed", "dissent"],
        suspect="test",
        id="test-000008",
        change=[("rotation °", -7.5)],
        least_change=[("rotation °", -2.5)],
        kinds=["rotation", "shift"],
        size=1.5,
        realism=-0.25,
        score=0.125,
        target=3,
        distance=0.75,
        distance_exact=0.5,
        label_from="label",
        least_forwards=9,
    ),
    row(9, None, 3, 0, tags=None, origin=None, origin_file=None, score=float("-inf")),  # unlabelled: the peers' answer
    row(10, None, 3, None, tags=[], origin_file=None),  # unlabelled, and the peers differ
    row(11, 1, None, 1, outcome="invalid", after=[[float("nan")] * 5] * 3),
    row(12, 4, 0, 0, outcome="doubtful", tags=["against-label"]),
    row(13, 4, 4, 4, outcome="exhausted", tags=[]),
]
ROWS[0]["origin"] = ROWS[0]["image"]  # as in a comparison, which changes nothing
FOUND = ROWS[:11]


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return with_metadata(pa.Table.from_pylist(rows, schema=SCHEMA), CLASSES, {"0123456789ab": SETTINGS})


def write_run(folder: Path) -> Path:
    """The rows in two shards."""
    (folder / "shards").mkdir(parents=True)
    for number, rows in enumerate((ROWS[:6], ROWS[6:])):
        pq.write_table(table_of(rows), folder / "shards" / f"unit-{number:06d}.parquet")
    return folder
