"""Run folders made up of findings: config.json as a real run has it, and shards that belong to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foible.findings import SCHEMA, read_shard, with_metadata
from foible.records import read_classes, read_configs
from foible.runs.record import settings_hash

SHARED = {"data": "fake", "data_sha256": "0", "split": "test", "unit": 16, "device": "cpu", "canvas_given": None}
SUSPECTS = {"suspects": ["mlp-10"], "peers": []}
MADE: dict[str, dict[str, Any]] = {
    "hunt": {**SUSPECTS, "trials": 10, "seed": 0, "space": "affine", "objective": "dissent", "search": "hill-climb"},
    "compare": {"names": ["old", "new"], "old": "old", "new": "new", "labelled": True},
    "distort": {
        "source": "mlp-10", "target": "any", "norm": "l2", "layer": None, "images": 10, "seed": 0, "likeliest": None,
        "wrong": False, "lattice": True, "budget": None, "method": "closest", "unlabelled": False, "rows": 10,
    },
    "pool": {
        **SUSPECTS, "labels": False, "top": 10, "label": "consensus", "realism": "none", "peer_confidence": 0.9,
        "suspect_confidence": 0.0,
    },
}  # fmt: skip
PLACES = {
    "basket": ["basket"], "data": "fake", "device": "cpu", "trust": False, "space": "affine", "objective": "dissent",
    "search": "hill-climb", "method": "closest",
}  # fmt: skip


def genuine(run: Path, settings: dict[str, Any] | None = None, *, units: int | None = None, **more: Any) -> Path:
    """The run with a config.json of these settings, completed where some are missing, and its shards marked as its own.

    settings: those that the shards carry without.
    units: how many it is to have; as many as there are shards without. more: entries of config.json.
    """
    files = sorted((run / "shards").iterdir())
    (there,) = read_configs(pq.read_schema(files[0]).metadata, "").values()
    given = {"recipe": "hunt", **(there if settings is None else settings)}
    full = SHARED | MADE[given["recipe"]] | {name: value for name, value in given.items() if value is not None}
    names = {*full.get("names", ()), *full.get("suspects", ()), *full.get("peers", ()), full.get("source", "mlp-10")}
    full = {"networks": dict.fromkeys(sorted(names), "0"), "preprocess": {name: {} for name in names}} | full
    key = settings_hash(full)
    for unit, file in enumerate(files):
        table = read_shard(file)
        keys = pa.array([key] * len(table), pa.string())
        rows = table.set_column(SCHEMA.get_field_index("config"), SCHEMA.field("config"), keys)
        file.unlink()
        marked = with_metadata(rows, read_classes(table.schema.metadata, str(file)), {key: full})
        pq.write_table(marked, run / "shards" / f"unit-{unit:06d}.parquet")
    config = {"hash": key, "settings": full, "where": PLACES, "units": len(files) if units is None else units}
    (run / "config.json").write_text(json.dumps(config | more), "utf-8")
    return run
