"""Hugging Face: an ImageFolder with its metadata, and Parquet with Image and ClassLabel features.

`datasets` takes every metadata column called `*_file_name` for a path to an image, so `origin_file_name` leads to a
copy of the seed image, and the data set has two image columns: `image` and `origin`. The metadata is JSON lines and not
CSV because `datasets` reads CSV with pandas, which turns a class called `NA` into nothing and `007` into 7.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foible.errors import UserError
from foible.recipes.export.rows import FLAT, Chosen, Row, check_png, place, safe_name

SPLITS = ("train", "validation", "test")  # folder names that `datasets` takes for splits
_GROUP = 8 * 2**20  # bytes of images in a row group: what is held in memory

_picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_COLUMNS: dict[str, pa.DataType] = {"image": _picture, "label": pa.int64(), "origin": _picture, **FLAT}


def write_imagefolder(chosen: Chosen, folder: Path, *, split: str | None = None) -> int:
    """OUT/SPLIT/ID.png, OUT/SPLIT/origin/ID.png and OUT/SPLIT/metadata.jsonl; labels are class names."""
    split = split or "train"
    if split not in SPLITS:
        raise UserError(f"the split is {split!r}: expected {', '.join(SPLITS)}, which `datasets` knows by name")
    home, origins = folder / split, folder / split / "origin"
    origins.mkdir(parents=True)
    count = 0
    with (home / "metadata.jsonl").open("w", encoding="utf-8") as lines:
        for row in chosen.with_images():
            name = place(home, row["id"], row["image"])
            origin = None
            if row["origin"] == row["image"]:
                origin = name
            elif row["origin"] is not None:
                origin = f"origin/{place(origins, row['id'], row['origin'])}"
            label = chosen.name(chosen.label(row))
            line = {"file_name": name, "label": label, "origin_file_name": origin, **chosen.flat(row)}
            lines.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
            count += 1
    if not any(origins.iterdir()):
        origins.rmdir()
    return count


def write_parquet(chosen: Chosen, file: Path) -> int:
    """One Parquet file with the note by which `datasets` knows images and class names; `parquet:PATH` reads it back."""
    schema = pa.schema(
        list(_COLUMNS.items()), metadata={"huggingface": json.dumps({"info": {"features": _features(chosen)}})}
    )
    count = 0
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for rows in _groups(chosen):
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def _features(chosen: Chosen) -> dict[str, Any]:
    """The columns as `datasets` describes them."""
    called = {"double": "float64"}  # Arrow's word, and that of `datasets`
    features: dict[str, Any] = {
        name: {"dtype": called.get(str(kind), str(kind)), "_type": "Value"} for name, kind in _COLUMNS.items()
    }
    features["image"] = features["origin"] = {"_type": "Image"}
    features["label"] = {"names": list(chosen.classes), "_type": "ClassLabel"}
    return features


def _groups(chosen: Chosen) -> Iterator[list[Row]]:
    """The rows, a row group at a time."""
    group: list[Row] = []
    size = 0
    for row in chosen.with_images():
        pictures = {name: _image(row["id"], row[name]) for name in ("image", "origin")}
        group.append({**pictures, "label": chosen.label(row), **chosen.flat(row)})
        size += len(row["image"]) + len(row["origin"] or b"")
        if size >= _GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def _image(id: str, png: bytes | None) -> dict[str, Any] | None:
    return None if png is None else {"bytes": check_png(id, png), "path": f"{safe_name(id)}.png"}
