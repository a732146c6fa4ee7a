"""FiftyOne: the layout that it calls `FiftyOneImageClassificationDataset`.

Labels are the truth, with what the networks said as attributes; the tags of a finding are the tags of its label.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foible.recipes.export.rows import Chosen, Row, place


def write_fiftyone(chosen: Chosen, folder: Path) -> int:
    """OUT/data/ID.png and OUT/labels.json: the class names, and by the image's name the label with its attributes."""
    data = folder / "data"
    data.mkdir(parents=True)
    count = 0
    with (folder / "labels.json").open("w", encoding="utf-8") as labels:
        labels.write(f'{{"classes": {json.dumps(list(chosen.classes), ensure_ascii=False)},\n"labels": {{')
        for row in chosen.with_images():
            stem = place(data, row["id"], row["image"]).removesuffix(".png")
            labels.write(",\n" if count else "\n")
            labels.write(f"{json.dumps(stem)}: {json.dumps(_label(chosen, row), ensure_ascii=False, allow_nan=False)}")
            count += 1
        labels.write("\n}}\n")
    return count


def _label(chosen: Chosen, row: Row) -> dict[str, Any] | None:
    """None for an image without a class: FiftyOne has nowhere else to hang the attributes."""
    label = chosen.label(row)
    if label is None:
        return None
    flat = chosen.flat(row) | {"tags": row["tags"] or []}
    flat["finding"] = flat.pop("id")  # a label's own `id` is FiftyOne's
    return {"label": label, "attributes": {name: value for name, value in flat.items() if value is not None}}
