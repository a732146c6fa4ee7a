"""`folder:PATH`: one folder of image files a class, with or without folders for the splits above them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from foible.data.dataset import Dataset, check_classes, hold_out, no_test_split, shown
from foible.data.pictures import SUFFIXES, look, stack
from foible.data.places import given_path
from foible.errors import UserError

SPLIT_FOLDERS = {"train": ("train",), "test": ("test", "val", "valid", "validation")}


def load_folder(
    spec: str, argument: str, split: str, quiet: bool, *, size: str = "", grey: str = "", test: str = ""
) -> Dataset:
    """`folder:PATH?size=64&grey=true&test=0.2`. Class names are the folders' names, sorted."""
    how = look(spec, size=size, grey=grey, test=test)
    root = given_path(spec, argument)
    if not root.is_dir():
        raise UserError(f"{spec}: {shown(root)} is not a folder: expected a folder with one folder a class")
    parts = _parts(root)
    problems: list[str] = []
    if parts and how.test is not None:
        raise UserError(f"{spec}: {shown(root)} has its own split folders ({', '.join(parts)}): leave out test=")
    if parts and split not in parts:
        raise UserError(
            f"{spec}: {shown(root)} has no folder for the {split} split: expected {' or '.join(SPLIT_FOLDERS[split])}"
        )
    if not parts and split == "test" and how.test is None:
        raise no_test_split(spec)
    listing = _listing(parts[split] if parts else root, root, problems)
    # The classes are those of the train split, so that both splits number them alike.
    named = _listing(parts["train"], root, []) if split != "train" and "train" in parts else listing
    classes = tuple(named)
    if not classes:
        raise UserError(
            f"{spec}: no folder in {shown(root)} holds image files: expected PATH/CLASS/IMAGE.png "
            f"(or {', '.join(sorted(SUFFIXES - {'.png'}))})"
        )
    check_classes(classes, spec)
    number = {name: k for k, name in enumerate(classes)}
    strangers = [name for name in listing if name not in number]
    if strangers:
        raise UserError(
            f"{spec}: the {split} split has the class {shown(strangers[0])!r}, which train has not: "
            "expected the same class folders in both"
        )
    files = [file for group in listing.values() for file in group]
    labels = np.array([number[name] for name, group in listing.items() for _ in group], np.int64)
    if how.test is not None:
        held = hold_out(labels, how.test)
        rows = np.flatnonzero(held if split == "test" else ~held)
        files, labels = [files[row] for row in rows], labels[rows]
    done = stack(
        ((str(file.relative_to(root)), file) for file in files),
        len(files),
        spec,
        how,
        quiet or len(files) < 2000,
    )
    problems += done.problems
    return Dataset(
        spec,
        split,
        torch.from_numpy(done.images),
        torch.from_numpy(labels[done.kept]),
        classes,
        tuple(problems),
    )


def _folders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _parts(root: Path) -> dict[str, Path]:
    """The split folders. One holds class folders, so a class that happens to be called "train" is not one."""
    found: dict[str, Path] = {}
    for split, names in SPLIT_FOLDERS.items():
        for name in names:
            if (root / name).is_dir() and _folders(root / name) and not _images(root / name, deep=False):
                found.setdefault(split, root / name)
    return found


def _images(folder: Path, *, deep: bool = True) -> list[Path]:
    """The image files in `folder`, by their suffix, in a fixed order."""
    found = []
    for here, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if deep and not name.startswith("."))
        for name in sorted(names):
            file = Path(here, name)
            if file.suffix.lower() in SUFFIXES and not name.startswith(".") and file.is_file():
                found.append(file)
    return found


def _listing(folder: Path, root: Path, problems: list[str]) -> dict[str, list[Path]]:
    """Class names, each with its files. A folder without image files is no class, and is mentioned."""
    listing = {}
    for entry in _folders(folder):
        files = _images(entry)
        if files:
            # Bytes that are no UTF-8 are legal in a file name but can be written into no report or table.
            name = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            listing[name] = files
        else:
            problems.append(f"{shown(entry.relative_to(root))}: a folder without image files, not taken for a class")
    return listing
