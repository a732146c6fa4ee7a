"""`folder:PATH`: image files in a folder a class, or named with their labels by a `metadata` file among them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from foible.class_names import positions
from foible.data.csv_files import photographs_of
from foible.data.dataset import check_classes
from foible.data.decode import SUFFIXES
from foible.data.labels import class_file
from foible.data.names import Names
from foible.data.options import Look, look
from foible.data.photographs import Ints, Photographs, photographs_in
from foible.data.places import given_path
from foible.data.splits import ALL, SPLIT_NAMES, choose, held_rows, pick
from foible.data.tables import Table, read_table
from foible.errors import UserError
from foible.text import cut, shown, some

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
ALL_SPLITS = frozenset(name for names in SPLIT_NAMES.values() for name in names)


def list_folder(
    spec: str, argument: str, split: str, labelled: bool, *, size: str = "", grey: str = "", test: str = "",
    label: str = "", classes: str = "",
) -> Photographs:  # fmt: skip
    """`folder:PATH?size=64&grey=true&test=0.2&label=COLUMN&classes=FILE`. Class names are the folders' names, sorted,
    or the labels in metadata.csv, .jsonl or .parquet (with columns file_name and label) as Hugging Face has them."""
    how = look(spec, size=size, grey=grey, test=test)
    root = given_path(spec, argument)
    if not root.is_dir():
        raise UserError(f"{spec}: {shown(root)} is not a folder: expected a folder with one folder a class")
    if not labelled:
        return _pool(spec, split, how, root)
    tables = _metadata(spec, root, label)
    given = class_file(spec, classes, root) if classes or tables else ()
    if tables:
        expected = "a folder called train with a metadata file"
        return photographs_of(spec, split, True, how, tables, root, [], given, expected)
    if label:
        raise UserError(f"{spec}: label= names a column of metadata.csv, and {shown(root)} has no metadata file")
    return _by_class(spec, split, how, root, given)


def _by_class(spec: str, split: str, how: Look, root: Path, given: tuple[str, ...]) -> Photographs:
    parts = _parts(root)
    part = choose(spec, parts or (ALL,), split, how.test, "a folder called train")
    problems: list[str] = []
    base = parts[part] if parts else root
    before = f"{base.name}/" if parts else ""
    listing = _classes(base)
    for name, has in listing.items():
        if not has:
            problems.append(f"{shown(before + name)}: a folder without image files, not taken for a class")
    there = [name for name, has in listing.items() if has]
    # The classes are those of the train split, so that both splits number them alike.
    other = split != "train" and "train" in parts
    classes = given or tuple(
        sorted(_text(name) for name, has in (_classes(parts["train"]) if other else listing).items() if has)
    )
    if not classes:
        raise UserError(
            f"{spec}: no folder in {shown(root)} holds image files: expected PATH/CLASS/IMAGE.png "
            f"(or {', '.join(sorted(SUFFIXES - {'.png'}))})"
        )
    if not parts and len(classes) > 1 and ALL_SPLITS.issuperset(classes):
        raise UserError(
            f"{spec}: the folders with images are {' and '.join(classes)}, which are splits and no classes: expected "
            "PATH/train/CLASS/IMAGE.png, or a metadata.csv with columns file_name and label"
        )
    check_classes(classes, spec)
    names = [_text(name) for name in there]
    known = {name: place for place, name in enumerate(classes)}
    places = positions(names, classes) if given else [known.get(name) for name in names]
    number = {name: place for name, place in zip(there, places, strict=True) if place is not None}
    strangers = [name for name in there if name not in number]
    if strangers:
        whose, how_to = "train", "expected the same class folders in both"
        if given:
            whose = "the list of classes"
            how_to = f"it has {some(classes)}; expected folders named as its classes are, or by their number in it"
        raise UserError(
            f"{spec}: the {split} split has the class {cut(strangers[0])!r}, which {whose} has not: {how_to}"
        )
    sizes: list[int] = []
    labels: list[int] = []

    def walk() -> Iterator[str]:
        for name in there:
            for file, bytes_ in images_below(base / name):
                sizes.append(bytes_)
                labels.append(number[name])
                yield f"{before}{name}/{file}"

    files = Names.of(walk())
    numbers = np.array(labels, np.int64)
    rows = held_rows(numbers, split, how.test)
    return photographs_in(
        root, files.take(rows), np.array(sizes, np.int64)[rows], numbers[rows], spec=spec, split=split, how=how,
        classes=classes, problems=problems,
    )  # fmt: skip


def _pool(spec: str, split: str, how: Look, root: Path) -> Photographs:
    """Every image file below the folder, or below the split's own folder where there is one; no labels."""
    base = _parts(root).get(split, root)
    before = "" if base == root else f"{base.name}/"
    sizes: list[int] = []

    def walk() -> Iterator[str]:
        for file, bytes_ in images_below(base):
            sizes.append(bytes_)
            yield before + file

    names = Names.of(walk())
    if not len(names):
        raise UserError(f"{spec}: {shown(base)} holds no image files ({', '.join(sorted(SUFFIXES))})")
    rows = held_rows(np.full(len(names), -1), split, how.test)
    return photographs_in(
        root, names.take(rows), np.array(sizes, np.int64)[rows], np.full(len(rows), -1), spec=spec, split=split,
        how=how, classes=(), problems=(),
    )  # fmt: skip


def _metadata(spec: str, root: Path, label: str) -> list[tuple[Table, Path, dict[str, Ints]]]:
    """Metadata files with labels: one in each split folder, or one at the root for all."""

    def read(folder: Path) -> Table | None:
        path = next((folder / name for name in METADATA if (folder / name).is_file()), None)
        if path is None:
            return None
        # Without labels it is a note about files whose class is their folder; alone, it lacks a column.
        beside = bool(_parts(root)) or any(has and name not in ALL_SPLITS for name, has in _classes(root).items())
        table = read_table(spec, path, file=("image", ("file_name",)), label=label, strict=bool(label) or not beside)
        return table if table.labels is not None else None

    splits = {name: root / name for name in ALL_SPLITS}
    own = {name: table for name, folder in splits.items() if (table := read(folder)) is not None}
    if own:
        return [(own[where.name], where, {split: np.arange(len(own[where.name]))})
                for split, where in pick({name: splits[name] for name in own}).items()]  # fmt: skip
    table = read(root)
    return [(table, root, _by_first_folder(table))] if table else []


def _by_first_folder(table: Table) -> dict[str, Ints]:
    """Rows by split, where every name begins with a split's folder (`train/1.png`); else they are one part."""
    first = [(name or "").partition("/")[0] for name in table.files.to_pylist()]
    if not first or not ALL_SPLITS.issuperset(first):
        return {ALL: np.arange(len(table))}
    marks = np.array(first)
    return pick({name: np.flatnonzero(marks == name) for name in dict.fromkeys(first)})


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _parts(root: Path) -> dict[str, Path]:
    """The split folders. One holds class folders, so a class that happens to be called "train" is not one."""
    found = {}
    for name in ALL_SPLITS:
        folder = root / name
        if folder.is_dir() and _folders(folder) and not has_image(folder, deep=False):
            found[name] = folder
    return pick(found)


def _classes(folder: Path) -> dict[str, bool]:
    """Names of the folders in `folder`, in order, and whether each holds an image file."""
    return {entry.name: has_image(entry) for entry in _folders(folder)}


def _text(name: str) -> str:
    """A class name that can be written into a report: bytes that are no UTF-8 are legal in a folder's name."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def has_image(folder: Path, *, deep: bool = True) -> bool:
    """Whether an image file is in `folder`, by its suffix: stops at the first."""
    with os.scandir(folder) as entries:
        seen = [entry for entry in entries if not entry.name.startswith(".")]
    if any(_is_image(entry.name) and not entry.is_dir() for entry in seen):
        return True
    return deep and any(entry.is_dir(follow_symlinks=False) and has_image(Path(entry)) for entry in seen)


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122 (a million times)


def images_below(folder: Path) -> Iterator[tuple[str, int]]:
    """The image files in `folder` by their suffix, in a fixed order: names relative to it, and bytes (-1: broken)."""
    files: list[tuple[str, int]] = []
    inner: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                inner.append(entry.name)
            elif _is_image(entry.name):
                try:
                    found = entry.stat()
                except OSError:  # a link to nothing
                    files.append((entry.name, -1))
                    continue
                if stat.S_ISREG(found.st_mode):
                    files.append((entry.name, found.st_size))
    files.sort()
    yield from files
    for name in sorted(inner):
        for file, size in images_below(folder / name):
            yield f"{name}/{file}", size
