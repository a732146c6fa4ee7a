"""CSV: one line a row, for spreadsheets. Text that a spreadsheet would run is quoted; numbers are left alone."""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from foible.recipes.export.rows import CHANGES, FLAT, Chosen, Row, parts_of


def write_csv(chosen: Chosen, file: Path) -> int:
    return write_lines(chosen, file, ((row, {}) for row in chosen))


def write_lines(chosen: Chosen, file: Path, rows: Iterable[tuple[Row, Row]], first: tuple[str, ...] = ()) -> int:
    """Each row with the columns `first` (given beside it) before its own, and its changes in human units after them."""
    own = [name for name in FLAT if name not in CHANGES]
    names = [*dict.fromkeys([*first, *own, *chosen.components()])]
    count = 0

    def cells() -> Iterator[Row]:
        nonlocal count
        for row, more in rows:
            count += 1
            flat = chosen.flat(row)
            line = parts_of(row) | more | {name: flat[name] for name in own}
            yield {name: _cell(value) for name, value in line.items()}

    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names)
        writer.writerow({name: _cell(name) for name in names})
        writer.writerows(cells())
    return count


def _cell(value: Any) -> Any:
    """Text that begins like a formula gets a quote before it: with blanks before it, or in other widths, it still is
    one to some spreadsheet."""
    if not isinstance(value, str):
        return value
    plain = unicodedata.normalize("NFKC", value)
    first = next((c for c in plain if c.isprintable() and not c.isspace()), "")
    return f"'{value}" if first in ("=", "+", "-", "@") or value[:1] in ("\t", "\r", "\n") else value
