"""`parquet:PATH`: a column of encoded images and a column of labels, as Hugging Face lays data sets out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from foible.data.dataset import (
    Dataset,
    check_classes,
    check_labels,
    hold_out,
    no_test_split,
    numbered_classes,
    shown,
)
from foible.data.pictures import Look, look, stack
from foible.data.places import given_path
from foible.errors import UserError
from foible.specs import did_you_mean

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "labels")
ROWS = 1024  # read at a time: what is held in memory besides the decoded images


@dataclass(frozen=True)
class Table:
    """One file: its columns and the labels in it, with None where a row has none."""

    path: Path
    image: str
    label: str
    labels: list[Any]
    names: tuple[str, ...]


def load_parquet(
    spec: str,
    argument: str,
    split: str,
    quiet: bool,
    *,
    size: str = "",
    grey: str = "",
    test: str = "",
    image: str = "",
    label: str = "",
) -> Dataset:
    """`parquet:PATH?size=64&grey=true&test=0.2&image=COLUMN&label=COLUMN`, a file or a folder of files."""
    how = look(spec, size=size, grey=grey, test=test)
    return read(spec, given_path(spec, argument), split, quiet, how=how, columns=(image, label))


def read(
    spec: str,
    path: Path,
    split: str,
    quiet: bool,
    *,
    how: Look,
    columns: tuple[str, str] = ("", ""),
    classes: tuple[str, ...] = (),
) -> Dataset:
    """The images of one split under `path`; `classes` where the caller knows their names."""
    problems: list[str] = []
    parts = _parts(spec, path, problems)
    if "test" in parts and how.test is not None:
        raise UserError(f"{spec} has its own test split: leave out test=")
    if split == "test" and "test" not in parts and how.test is None:
        raise no_test_split(spec)
    if "train" not in parts and (split == "train" or how.test is not None):
        raise UserError(f"{spec} has no files for the train split: expected names such as train-00000.parquet")
    tables = {part: [_table(spec, file, columns) for file in files] for part, files in parts.items()}
    every = [table for part in tables.values() for table in part]
    classes = classes or _classes(spec, every)
    check_classes(classes, spec)
    chosen = tables["train" if how.test is not None else split]
    labels = np.concatenate([_numbers(table, classes) for table in chosen])
    use = labels >= 0
    if how.test is not None:
        held = hold_out(labels, how.test)
        use &= held if split == "test" else ~held
    rows = np.flatnonzero(use)
    done = stack(_items(chosen, use), len(rows), spec, how, quiet or len(rows) < 20_000)
    for table in chosen:
        problems += [f"{shown(table.path.name)} row {k}: no label" for k, v in enumerate(table.labels) if v is None]
    images, numbers = torch.from_numpy(done.images), torch.from_numpy(labels[rows][done.kept])
    return Dataset(spec, split, images, numbers, classes, (*problems, *done.problems))


def _parts(spec: str, path: Path, problems: list[str]) -> dict[str, list[Path]]:
    """Files by split, from how their names begin; one file, or files without such names, are all train."""
    if path.is_file():
        return {"train": [path]}
    files = sorted(path.rglob("*.parquet"))
    if not files:
        raise UserError(f"{spec}: {shown(path)} holds no .parquet file")
    parts: dict[str, list[Path]] = {}
    spare = []
    for file in files:
        begins = re.match(r"(train|test|validation|valid|val)(?=[-_.])", file.name)
        if begins:
            parts.setdefault(begins[1], []).append(file)
        else:
            spare.append(file)
    if not parts:
        return {"train": spare}
    problems += [f"{shown(file.name)}: not read, its name begins with no split (train-, test-)" for file in spare]
    held = next((parts[name] for name in ("test", "validation", "valid", "val") if name in parts), None)
    return {key: value for key, value in (("train", parts.get("train")), ("test", held)) if value}


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Whatever Arrow says of a broken file, said with the file's name."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = shown(str(error).partition("\n")[0])
        raise UserError(f"{path} cannot be read as Parquet ({reason}): fetch or copy the file again") from error


def _table(spec: str, path: Path, columns: tuple[str, str]) -> Table:
    with _named(path), pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        image = _column(spec, path, schema.names, columns[0], IMAGE_COLUMNS, "image")
        label = _column(spec, path, schema.names, columns[1], LABEL_COLUMNS, "label")
        kind = schema.field(image).type
        if pa.types.is_struct(kind):
            inner = [kind.field(k).name for k in range(kind.num_fields)]
            kind = kind.field("bytes").type if "bytes" in inner else kind
        if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            raise UserError(f"{path}: column {image!r} is {kind}: expected binary, or a struct with bytes")
        kind = schema.field(label).type
        if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise UserError(f"{path}: column {label!r} is {kind}: expected whole numbers or text")
        labels = file.read(columns=[label]).column(0).to_pylist()
        return Table(path, image, label, labels, _class_names(schema.metadata or {}, label))


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
        return tuple(names) if all(isinstance(name, str) for name in names) else ()
    except (KeyError, TypeError, ValueError):
        return ()


def _classes(spec: str, tables: list[Table]) -> tuple[str, ...]:
    """Class names: from the schema, else the labels themselves over both splits."""
    noted = {table.names for table in tables if table.names}
    if len(noted) > 1:
        raise UserError(f"{spec}: its files name their classes differently: expected one data set")
    if noted:
        return noted.pop()
    labels = {label for table in tables for label in table.labels if label is not None}
    if any(isinstance(label, str) for label in labels):
        return tuple(sorted(map(str, labels)))
    return max((numbered_classes(_whole(table), str(table.path)) for table in tables), key=len)


def _whole(table: Table) -> npt.NDArray[np.int64]:
    """Integer labels; a row without one gets 0 here and is left out later."""
    edge = 2**62  # an unsigned label beyond int64 is out of range anyhow, and is to be reported as such
    return np.array([0 if label is None else max(-edge, min(label, edge)) for label in table.labels], np.int64)


def _numbers(table: Table, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """The labels of a file as class numbers, -1 where a row has none."""
    absent = np.array([label is None for label in table.labels], bool)
    if any(isinstance(label, str) for label in table.labels):
        number = {name: k for k, name in enumerate(classes)}
        for row, label in enumerate(table.labels):
            if label is not None and label not in number:
                raise UserError(f"{table.path}: row {row} has the label {shown(label)!r}, which is no class name")
        return np.array([-1 if label is None else number[label] for label in table.labels], np.int64)
    whole = _whole(table)
    check_labels(whole, len(classes), str(table.path))
    return np.where(absent, -1, whole)


def _items(tables: list[Table], use: npt.NDArray[np.bool_]) -> Iterator[tuple[str, bytes | None]]:
    """The encoded images of the rows in `use`, a batch at a time. A path beside them is never opened."""
    start = 0
    for table in tables:
        row = 0
        with _named(table.path), pq.ParquetFile(table.path) as file:
            for batch in file.iter_batches(batch_size=ROWS, columns=[table.image]):
                column = batch.column(0)
                if pa.types.is_struct(column.type):
                    column = pc.struct_field(column, "bytes")
                for value in column:
                    if use[start + row]:
                        yield f"{table.path.name} row {row}", value.as_py()
                    row += 1
        start += len(table.labels)
