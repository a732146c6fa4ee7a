"""Tables that name image files: CSV, JSON lines and Parquet, with columns for the file, its label and its split."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from foible.data.labels import column_of, plain
from foible.data.names import Names
from foible.data.photographs import Ints
from foible.errors import UserError
from foible.text import did_you_mean, shown

LABEL_COLUMNS = ("label", "labels")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table that names image files: text columns, with null where a row has none.

    `labels` is None where the table has no column for them; `where` is the file's name, for messages.
    """

    where: str
    files: pa.Array
    labels: pa.Array | None = None
    splits: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.files)


def read_table(
    spec: str, path: Path, *, file: tuple[str, Sequence[str]], label: str = "", split: str = "", strict: bool = True
) -> Table:
    """The table at `path` (by its suffix). `file` is (the option that names the column, the usual names).

    Not `strict`: a table without a usual label column has no labels, which is no error.
    """
    with readable(path):
        columns = _columns(path)

        def named(given: str, usual: Sequence[str], option: str, needed: bool = True) -> str:
            found = next((name for name in ((given,) if given else usual) if name in columns), "")
            if found or not (given or needed):
                return found
            has = ", ".join(map(shown, columns)) or "none"
            wanted = repr(given) if given else " or ".join(usual)
            raise UserError(
                f"{shown(path)} has the columns {has}: expected {wanted}{did_you_mean(given, columns)}; "
                f"name yours with {option}=COLUMN after {spec.partition('?')[0]}?"
            )

        option, usual = file
        of_file = named(usual[0] if len(usual) == 1 else "", usual, option)
        of_label = named(label, LABEL_COLUMNS, "label", needed=strict)
        of_split = named(split, (), "split", needed=False)
        wanted = [name for name in dict.fromkeys((of_file, of_label, of_split)) if name]
        table = _read(path, wanted, of_label)
    return Table(
        path.name,
        _text(table[of_file], path, of_file),
        table[of_label] if of_label else None,
        _text(table[of_split], path, of_split) if of_split else None,
    )


@contextmanager
def readable(path: Path, kind: str = "a table") -> Iterator[None]:
    """Whatever goes wrong in a broken file, said with the file's name."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, RecursionError, LookupError, MemoryError) as error:
        reason = shown(str(error).partition("\n")[0])[:300]
        raise UserError(f"{path} cannot be read as {kind} ({reason}): fetch or copy the file again") from error


def _columns(path: Path) -> list[str]:
    kind = path.suffix.lower()
    if kind == ".parquet":
        return list(pq.read_schema(path).names)
    if kind == ".jsonl":
        return list(dict.fromkeys(key for row in _json_rows(path, most=1000) for key in row))
    with pyarrow.csv.open_csv(path, parse_options=_commas(path)) as opened:
        return list(opened.schema.names)


def _read(path: Path, columns: Sequence[str], label: str) -> dict[str, pa.Array]:
    """The columns asked for. In CSV everything is text, so that labels such as 01 stay what they are."""
    kind = path.suffix.lower()
    if kind == ".parquet":
        table = pq.read_table(path, columns=list(columns))
        return {name: table.column(name).combine_chunks() for name in columns}
    if kind == ".jsonl":
        values: dict[str, list[Any]] = {name: [] for name in columns}
        for row in _json_rows(path):
            for name in columns:
                values[name].append(row.get(name))
        return {name: column_of(values[name], str(path)) for name in columns}
    options = pyarrow.csv.ConvertOptions(
        include_columns=list(columns), column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False
    )
    table = pyarrow.csv.read_csv(path, parse_options=_commas(path), convert_options=options)
    found = {name: table.column(name).combine_chunks() for name in columns}
    return {name: plain(column) if name == label else column for name, column in found.items()}


def _commas(path: Path) -> pyarrow.csv.ParseOptions:
    """Commas, or what some spreadsheets write in their place, by what the first line has most of."""
    with path.open("rb") as file:
        first = file.readline(65536)
    if not first.strip():
        raise ValueError("it is empty")
    mark = max(b",", b";", b"\t", key=first.count)
    return pyarrow.csv.ParseOptions(delimiter=mark.decode(), newlines_in_values=True)


def _json_rows(path: Path, most: int | None = None) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError(f"line {number} is no object")
                yield row
            if number == most:
                return


def _text(column: pa.Array, path: Path, name: str) -> pa.Array:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        if column.null_count == len(column):
            return column.cast(pa.large_string())
        raise UserError(f"{shown(path)}: column {shown(name)!r} is {column.type}: expected text")
    return column.cast(pa.large_string())


def placed(table: Table, rows: Ints, folder: Path, root: Path, problems: list[str]) -> tuple[Names, Ints, Ints]:
    """Names relative to `root` of the files that `rows` of the table name relative to `folder`, their sizes in
    bytes (-1: not there), and the rows among `rows` that they are. A name that leaves `root` is refused, and so is one
    that leaves it by a link: a table may come from anybody, who then does not choose what is read."""
    base, top = os.path.abspath(folder), os.path.abspath(root)  # noqa: PTH100 (does not follow links)
    homes = tuple(os.path.realpath(home) for home in (root, folder))  # the user may have linked these
    inside: dict[str, bool] = {}  # folders, by whether they really are below a home
    sizes: list[int] = []
    kept: list[int] = []

    def stays(full: str) -> bool:
        home = os.path.dirname(full)  # noqa: PTH120 (a million times)
        if home not in inside:
            inside[home] = _below(os.path.realpath(home), homes)
        return inside[home] and (not os.path.islink(full) or _below(os.path.realpath(full), homes))  # noqa: PTH114

    def walk() -> Iterator[str]:
        for row in rows.tolist():
            name = table.files[row].as_py()
            if not name or "\0" in name:
                problems.append(f"{shown(table.where)} row {row}: names no file")
                continue
            full = os.path.normpath(os.path.join(base, name))  # noqa: PTH118 (of text, without looking)
            inner = full[len(top) :].lstrip(os.sep) if full.startswith(top.rstrip(os.sep) + os.sep) else ""
            if not inner or not stays(full):
                how = "leads" if inner else "is"
                where = f"out of {shown(top)} by a link" if inner else f"not below {shown(top)}"
                problems.append(f"{shown(table.where)} row {row}: {shown(name)} {how} {where}: not opened")
                continue
            sizes.append(size_of(full))
            kept.append(row)
            yield inner.replace(os.sep, "/")

    names = Names.of(walk())
    return names, np.array(sizes, np.int64), np.array(kept, np.int64)


def _below(path: str, homes: Sequence[str]) -> bool:
    return any(path == home or path.startswith(home.rstrip(os.sep) + os.sep) for home in homes)


def size_of(path: str) -> int:
    """Bytes of a plain file; -1 where there is none."""
    import stat

    try:
        found = os.stat(path)  # noqa: PTH116 (a million times)
    except (OSError, ValueError):
        return -1
    return found.st_size if stat.S_ISREG(found.st_mode) else -1
