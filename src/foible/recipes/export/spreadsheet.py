"""CSV: one line a row, for spreadsheets. Text that a spreadsheet would run is quoted; numbers are left alone."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from foible.recipes.export.rows import FLAT, Chosen, Row


def write_csv(chosen: Chosen, file: Path) -> int:
    return write_lines(chosen, file, ((row, {}) for row in chosen))


def write_lines(chosen: Chosen, file: Path, rows: Iterable[tuple[Row, Row]], first: tuple[str, ...] = ()) -> int:
    """Each row with the columns `first` (given beside it) before its own, and its change in human units after them."""
    names = [*dict.fromkeys([*first, *FLAT, *chosen.components()])]
    count = 0

    def cells() -> Iterator[Row]:
        nonlocal count
        for row, more in rows:
            count += 1
            flat = more | chosen.flat(row)
            flat |= {name: value for name, value in row["change"] or [] if name not in flat}
            yield {name: _cell(value) for name, value in flat.items()}

    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names)
        writer.writerow({name: _cell(name) for name in names})
        writer.writerows(cells())
    return count


def _cell(value: Any) -> Any:
    """Text that begins like a formula gets a quote before it."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
