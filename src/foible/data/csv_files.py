"""`csv:PATH`: a table of image files and their labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from foible.data.dataset import check_classes
from foible.data.labels import alike, class_file, classes_of, numbers_of
from foible.data.names import Names
from foible.data.options import Look, look
from foible.data.photographs import Ints, Photographs, photographs_in
from foible.data.places import given_path
from foible.data.splits import ALL, HELD, choose, held_rows, pick
from foible.data.tables import Table, placed, read_table
from foible.errors import UserError
from foible.text import shown

IMAGE_COLUMNS = ("image", "file_name", "file", "filename", "path")


def list_csv(
    spec: str, argument: str, part: str, labelled: bool, *, size: str = "", grey: str = "", test: str = "",
    image: str = "", label: str = "", split: str = "", root: str = "", classes: str = "",
) -> Photographs:  # fmt: skip
    """`csv:PATH?image=COLUMN&label=COLUMN&split=COLUMN&root=FOLDER&classes=FILE`; paths start at the CSV's folder."""
    how = look(spec, size=size, grey=grey, test=test)
    path = given_path(spec, argument)
    if not path.is_file():
        raise UserError(f"{spec}: {shown(path)} is not a file: expected a CSV with a line for each image")
    folder = Path(root).expanduser() if root else path.parent
    if root and not folder.is_dir():
        raise UserError(f"{spec}: root is {shown(root)!r}, which is no folder: give the folder that the paths start at")
    columns = (image,) if image else IMAGE_COLUMNS
    table = read_table(spec, path, file=("image", columns), label=label, split=split, strict=labelled)
    problems: list[str] = []
    parts = _by_column(table, problems) if table.splits is not None else {ALL: np.arange(len(table))}
    return photographs_of(
        spec, part, labelled, how, [(table, folder, parts)], folder, problems,
        class_file(spec, classes, path.parent), "a column of splits (split=COLUMN) that says train",
    )  # fmt: skip


def photographs_of(
    spec: str, split: str, labelled: bool, how: Look, tables: list[tuple[Table, Path, dict[str, Ints]]], root: Path,
    problems: list[str], classes: tuple[str, ...], expected: str,
) -> Photographs:  # fmt: skip
    """From tables, each with the folder its names start at and its rows by split, to photographs of one split."""
    parts = {name: None for _, _, rows in tables for name in rows}
    if labelled or split in parts:
        part = choose(spec, parts, split, how.test, expected)
        chosen = [(table, folder, rows[part]) for table, folder, rows in tables if part in rows]
    else:  # a pool without splits: all of it
        chosen = [(table, folder, rows) for table, folder, by in tables for rows in by.values()]
    if labelled:
        columns = alike([table.labels for table, _, _ in tables])
        tables = [(replace(of[0], labels=column), *of[1:]) for of, column in zip(tables, columns, strict=True)]
        classes = classes or classes_of([(table.where, table.labels) for table, _, _ in tables])
        check_classes(classes, spec)
    else:
        classes = ()
    found, sizes, labels = [], [], []
    for table, folder, rows in chosen:
        numbers = numbers_of(table.labels, classes, table.where) if labelled else np.full(len(table), -1)
        rows = rows[held_rows(numbers[rows], split, how.test)]
        if labelled:
            blank = rows[numbers[rows] < 0]
            problems += [f"{shown(table.where)} row {row}: no label" for row in blank.tolist()]
            rows = rows[numbers[rows] >= 0]
        names, size, kept = placed(table, rows, folder, root, problems)
        found.append(names)
        sizes.append(size)
        labels.append(numbers[kept])
    every, bytes_ = Names.joined(found), np.concatenate(sizes)
    if not (bytes_ >= 0).any():
        first = shown(every[0]) if len(every) else problems[0] if problems else "there is none"
        raise UserError(
            f"{spec}: none of the files that {shown(tables[0][0].where)} names is below {shown(root)} (the first: "
            f"{first}): give the folder that the paths start at with root=FOLDER"
        )
    return photographs_in(
        root, every, bytes_, np.concatenate(labels), spec=spec, split=split, how=how, classes=classes,
        problems=problems,
    )  # fmt: skip


def _by_column(table: Table, problems: list[str]) -> dict[str, Ints]:
    """Rows by split, from what the column of splits says."""
    said = pc.utf8_lower(pc.utf8_trim_whitespace(pc.fill_null(table.splits, ""))).dictionary_encode()
    codes: npt.NDArray[np.int64] = said.indices.to_numpy().astype(np.int64)
    named = {name: np.flatnonzero(codes == code) for code, name in enumerate(said.dictionary.to_pylist())}
    parts = pick(named)
    used = {id(rows) for rows in parts.values()}
    for name, rows in named.items():
        if id(rows) not in used:
            other = " (test is taken)" if name in HELD else ": expected train or test"
            problems.append(f"{shown(table.where)}: {len(rows)} rows of the split {shown(name)!r} are not read{other}")
    return parts
