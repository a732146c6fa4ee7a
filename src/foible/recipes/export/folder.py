"""A folder of PNGs, one folder a class, as image loaders read it; `folder:PATH` reads it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from foible.recipes.export.rows import Chosen, Row, place, safe_name
from foible.recipes.export.spreadsheet import write_lines


def write_folder(chosen: Chosen, folder: Path) -> int:
    """OUT/CLASS/ID.png (the truth; the peers' answer where there is none), and findings.csv with a line for each."""
    folder.mkdir()

    def placed() -> Iterator[tuple[Row, Row]]:
        for row in chosen.with_images():
            name = chosen.name(chosen.label(row))
            home = folder / ("unlabelled" if name is None else safe_name(name))
            home.mkdir(exist_ok=True)
            yield row, {"file": f"{home.name}/{place(home, row['id'], row['image'])}"}

    return write_lines(chosen, folder / "findings.csv", placed(), ("file",))
