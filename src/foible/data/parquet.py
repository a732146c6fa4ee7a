"""`parquet:PATH`: a column of encoded images and a column of labels, as Hugging Face lays data sets out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from foible.data.dataset import check_classes
from foible.data.labels import alike, class_file, classes_of, numbers_of
from foible.data.names import RowNames
from foible.data.options import Look, look
from foible.data.photographs import Photographs
from foible.data.places import given_path
from foible.data.row_groups import RowGroups
from foible.data.splits import ALL, by_name, choose, held_rows
from foible.data.tables import LABEL_COLUMNS, readable
from foible.disk import ordinary
from foible.errors import UserError
from foible.text import did_you_mean, shown

IMAGE_COLUMNS = ("image", "img")


@dataclass(frozen=True, eq=False)
class Table:
    """One file: its image column, its labels with null where a row has none (None: it has no such column)."""

    path: Path
    image: str
    rows: int
    labels: pa.ChunkedArray | None
    names: tuple[str, ...]


def list_parquet(
    spec: str, argument: str, split: str, labelled: bool, *, size: str = "", grey: str = "", test: str = "",
    image: str = "", label: str = "", classes: str = "",
) -> Photographs:  # fmt: skip
    """`parquet:PATH?size=64&grey=true&test=0.2&image=COLUMN&label=COLUMN&classes=FILE`, a file or a folder of files."""
    how = look(spec, size=size, grey=grey, test=test)
    path = given_path(spec, argument)
    given = class_file(spec, classes, path if path.is_dir() else path.parent) if labelled else ()
    return rows_of(spec, path, split, how=how, columns=(image, label), listed=given, labelled=labelled)


def rows_of(
    spec: str, path: Path, split: str, *, how: Look, columns: tuple[str, str] = ("", ""),
    classes: tuple[str, ...] = (), listed: tuple[str, ...] = (), labelled: bool = True,
) -> Photographs:  # fmt: skip
    """The images of one split under `path`. `classes`: their names where the caller knows better than the files;
    `listed`: their names where the files do not say."""
    problems: list[str] = []
    root, parts = _parts(spec, path, problems)
    if labelled or split in parts:
        part = choose(spec, parts, split, how.test, "names such as train-00000.parquet")
    else:  # a pool without splits: all of it
        part, parts = ALL, {ALL: [file for files in parts.values() for file in files]}
    wanted = parts if labelled else {part: parts[part]}
    tables = {name: [_table(spec, file, columns, labelled) for file in files] for name, files in wanted.items()}
    chosen = tables[part]
    names = [table.path.relative_to(root).as_posix() for table in chosen]
    if labelled:
        every = [table for of in tables.values() for table in of]
        columns_ = dict(zip([table.path for table in every], alike([table.labels for table in every]), strict=True))
        classes = classes or _noted(spec, every) or listed
        classes = classes or classes_of([(str(path), column) for path, column in columns_.items()])
        check_classes(classes, spec)
        labels = np.concatenate([numbers_of(columns_[table.path], classes, str(table.path)) for table in chosen])
    else:
        labels, classes = np.full(sum(table.rows for table in chosen), -1), ()
    lengths = [table.rows for table in chosen]
    rows = held_rows(labels, split, how.test)
    if labelled:
        blank = np.flatnonzero(labels < 0)
        problems += [f"{shown(name)}: no label" for name in RowNames(names, lengths, blank)]
        rows = rows[labels[rows] >= 0]
    source = RowGroups([(table.path, table.image) for table in chosen], lengths, rows)
    sizes = np.repeat([table.path.stat().st_size for table in chosen], lengths)[rows]
    return Photographs(
        spec, split, torch.from_numpy(labels[rows]), classes, RowNames(names, lengths, rows), sizes, source, how,
        tuple(problems),
    )  # fmt: skip


def _parts(spec: str, path: Path, problems: list[str]) -> tuple[Path, dict[str, list[Path]]]:
    """The folder that files are named from, and the files by split; one file is one part."""
    if not path.is_dir():
        ordinary(path)
        return path.parent, {ALL: [path]}
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file())
    if not files:
        raise UserError(f"{spec}: {shown(path)} holds no .parquet file")
    return path, by_name(files, path, problems)


def _table(spec: str, path: Path, columns: tuple[str, str], labelled: bool) -> Table:
    with readable(path, "Parquet"), pq.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        image = _column(spec, path, schema.names, columns[0], IMAGE_COLUMNS, "image")
        kind = schema.field(image).type
        if pa.types.is_struct(kind):
            inner = [kind.field(k).name for k in range(kind.num_fields)]
            kind = kind.field("bytes").type if "bytes" in inner else kind
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            raise UserError(f"{path}: column {image!r} is {kind}: expected binary, or a struct with bytes")
        if not labelled:
            return Table(path, image, rows, None, ())
        label = _column(spec, path, schema.names, columns[1], LABEL_COLUMNS, "label")
        kind = schema.field(label).type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise UserError(f"{path}: column {label!r} is {kind}: expected whole numbers or text")
        labels = file.read(columns=[label]).column(0)
        return Table(path, image, rows, labels, _class_names(schema.metadata or {}, label))


def _column(spec: str, path: Path, names: list[str], given: str, usual: tuple[str, ...], what: str) -> str:
    for name in (given,) if given else usual:
        if name in names:
            return name
    wanted = repr(given) if given else " or ".join(usual)
    columns = ", ".join(map(shown, names))
    raise UserError(
        f"{path} has the columns {columns}: expected {wanted} for the {what}s{did_you_mean(given, names)}; "
        f"name yours with {what}=COLUMN after {spec.partition('?')[0]}?"
    )


def _class_names(metadata: dict[bytes, bytes], label: str) -> tuple[str, ...]:
    """Class names from the note that Hugging Face's `datasets` leaves in the schema, where there is one."""
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"][label]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):  # whatever else it says is no matter of ours
        return ()
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


def _noted(spec: str, tables: list[Table]) -> tuple[str, ...]:
    noted = {table.names for table in tables if table.names}
    if len(noted) > 1:
        raise UserError(f"{spec}: its files name their classes differently: expected one data set")
    return noted.pop() if noted else ()
