"""Label Studio: tasks to import, the labelling page's configuration, the images, and how to serve them.

The people who label see the image and nothing that a network said of it, unless predictions are asked for.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from foible.recipes.export.rows import Chosen, Row, place
from foible.recipes.export.spreadsheet import write_lines

MANY = 20  # classes; more are offered as a list to search in, not as buttons
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
README = """\
Images to label, for Label Studio (https://labelstud.io).

1. Start Label Studio so that it may serve files from this folder (run this here):

     LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true \\
     LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT="$PWD" label-studio start

2. Create a project. Under Labeling Setup choose "Custom template" and paste label_config.xml.

3. In the project's Settings > Cloud Storage, add a source storage of the type "Local files" whose absolute local path
   is the folder images/ in this one. Leave "Treat every bucket object as a source file" off, and do not sync: the
   tasks come from the next step. (Label Studio shows local files only of folders that a project names in this way.)

4. Import tasks.json.

5. When they are labelled, export the project as JSON and take it back into the run that this came from:

     foible import project-1.json RUN

Each task carries the id of its finding (data.finding), by which labels find their way back: findings.csv has a line
for each, with what the networks said. Nobody who labels needs to see that file.
"""


def write_label_studio(chosen: Chosen, folder: Path, *, predictions: bool = False) -> int:
    """OUT/tasks.json, OUT/label_config.xml, OUT/images/ID.png and OUT/README.txt; and, not for those who label,
    OUT/findings.csv with all else that is known of each."""
    images = folder / "images"
    images.mkdir(parents=True)
    (folder / "README.txt").write_bytes(README.encode())
    (folder / "label_config.xml").write_bytes(_config(chosen).encode())

    def placed() -> Iterator[tuple[Row, Row]]:
        with (folder / "tasks.json").open("w", encoding="utf-8") as tasks:
            tasks.write("[")
            before = "\n"
            for row in chosen.with_images():
                name = place(images, row["id"], row["image"])
                # No more: a task's data is shown to those who label, and even the name of a file may tell its class.
                task: dict[str, Any] = {"data": {"image": f"/data/local-files/?d=images/{name}", "finding": row["id"]}}
                if predictions:
                    task["predictions"] = _predictions(chosen, row)
                tasks.write(before + json.dumps(task, ensure_ascii=False, allow_nan=False))
                before = ",\n"
                yield row, {"file": f"images/{name}"}
            tasks.write("\n]\n")

    return write_lines(chosen, folder / "findings.csv", placed(), ("file",))


def _config(chosen: Chosen) -> str:
    layout = "select" if len(chosen.classes) > MANY else "inline"
    choices = "".join(f"    <Choice value={quoteattr(choice_of(name))}/>\n" for name in chosen.classes)
    return (
        '<View>\n  <Image name="image" value="$image"/>\n'
        f'  <Choices name="label" toName="image" choice="single" layout="{layout}">\n{choices}  </Choices>\n</View>\n'
    )


def choice_of(name: str) -> str:
    """A class name as XML can hold it; where it had to change, a hash keeps names apart."""
    plain = _NOT_XML.sub("\ufffd", name)
    return name if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _predictions(chosen: Chosen, row: Row) -> list[dict[str, Any]]:
    """What the peers agree on and what the suspect said, each with its probability (the peers': their mean)."""
    found = []
    for who, answer, networks in (
        ("peers", row["consensus"], row["after"][1:]),
        (row["suspect"], row["said"], row["after"][:1]),
    ):
        if answer is None:
            continue
        sure = sum(network[answer] for network in networks) / max(1, len(networks))
        value = {"choices": [choice_of(chosen.classes[answer])]}
        result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]
        found.append({"model_version": who, "result": result} | ({"score": sure} if math.isfinite(sure) else {}))
    return found
