"""Rows of findings that may be anybody's: nothing is missing that is needed, and numbers of classes and networks fit.

Checked once, where a file is read, a column at a time; whatever reads rows afterwards may rely on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NEEDED = (
    "id", "config", "suspect", "networks", "outcome", "before", "after", "moves", "candidates", "forwards",
)  # fmt: skip
CLASS_NUMBERS = ("truth", "consensus", "said", "target")
COUNTS = ("lane", "origin_index", "moves", "candidates", "forwards", "backwards", "least_forwards")
LISTS = ("networks", "tags", "kinds", "point", "path", "trace", "least_path", "change", "least_change")


def wrong_with(table: pa.Table, classes: int, configs: Collection[str], outcomes: Collection[str]) -> str | None:
    """What is wrong with the columns that a table has, in words; None where nothing is.

    classes: how many there are. configs: the hashes that a row may name. outcomes: those that there are.
    """
    if not table.num_rows:
        return None
    columns = {name: _whole(table.column(name)) for name in table.column_names}
    checks: list[tuple[Collection[str], Callable[[Any], bool], str]] = [
        (NEEDED, lambda column: not column.null_count, "has nothing in some rows"),
        (CLASS_NUMBERS, lambda column: _within(column, 0, classes - 1), f"names none of the {classes} classes"),
        (COUNTS, lambda column: _within(column, 0, 2**62), "is negative, or absurd"),
        (("outcome",), lambda column: _among(column, outcomes), "is none that we know in some rows"),
        (("config",), lambda column: _among(column, configs), "names settings that the file does not have"),
        (LISTS, _filled, "has nothing in the middle of a list"),
        (("networks",), lambda column: _within(pc.list_value_length(column), 1, 2**31), "is empty in some rows"),
    ]
    for names, good, what in checks:
        for name in names:
            if name in columns and not good(columns[name]):
                return f"{name} {what}"
    for name in ("before", "after"):
        if name in columns and not _fits(columns[name], columns.get("networks"), classes):
            return f"{name} has another number of networks or classes than there are"
    return None


def _whole(column: pa.ChunkedArray) -> Any:
    made = column.combine_chunks()
    return made if isinstance(made, pa.Array) else pa.concat_arrays(made.chunks)


def _within(column: Any, low: int, high: int) -> bool:
    ends = pc.min_max(column).as_py()
    return ends["min"] is None or bool(low <= ends["min"] <= ends["max"] <= high)


def _among(column: Any, known: Collection[str]) -> bool:
    return {*pc.unique(column).to_pylist()} <= {*known}


def _filled(column: Any) -> bool:
    """Whether no list, struct or map of a column has a null inside; a null in place of a whole list may be."""
    kind = column.type
    if pa.types.is_map(kind):
        entries = column.offsets[0].as_py(), column.offsets[-1].as_py()
        inner = [part[entries[0] : entries[1]] for part in (column.keys, column.items)]
    elif pa.types.is_list(kind):
        inner = [column.flatten()]
    elif pa.types.is_struct(kind):
        inner = column.flatten()
    else:
        return True
    return all(not part.null_count and _filled(part) for part in inner)


def _fits(column: Any, networks: Any, classes: int) -> bool:
    """Whether every row of probabilities is (networks, classes)."""
    if networks is not None and not pc.list_value_length(column).equals(pc.list_value_length(networks)):
        return False
    lines = column.flatten()
    return not lines.null_count and _within(pc.list_value_length(lines), classes, classes)
