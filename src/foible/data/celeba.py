"""`celeba:PATH?trait=Smiling`: CelebA (Liu et al. 2015) as its authors lay it out, with one of its traits as label.

PATH/img_align_celeba/000001.jpg …   PATH/list_attr_celeba.txt   PATH/list_eval_partition.txt
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from foible.data.folder import images_below
from foible.data.names import Names
from foible.data.options import look
from foible.data.photographs import Ints, Photographs, photographs_in
from foible.data.places import given_path
from foible.data.splits import ALL, choose, held_rows
from foible.errors import UserError
from foible.text import did_you_mean, shown, some

IMAGES, TRAITS, PARTS = "img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"
PART = {"0": "train", "1": "val", "2": "test"}


def list_celeba(
    spec: str, argument: str, split: str, labelled: bool, *, trait: str = "", size: str = "", grey: str = "",
    test: str = "",
) -> Photographs:  # fmt: skip
    """`celeba:PATH?trait=Smiling&size=64&test=0.2`. Classes are `not TRAIT` and `TRAIT`, written with blanks. Without a
    file of parts, `test=` holds some images out."""
    how, root = look(spec, size=size, grey=grey, test=test), given_path(spec, argument)
    inner = root / IMAGES / IMAGES  # one folder more, as some archives unpack
    folder = inner if inner.is_dir() else root / IMAGES
    for path in (root / TRAITS, folder):
        if not path.exists():
            raise UserError(f"{spec}: there is no {shown(path)}: expected {IMAGES}/ and {TRAITS} below {shown(root)}")
    names, labels, word = _traits(spec, root / TRAITS, trait if labelled else None)
    parts = _parts(root / PARTS)
    if parts is None:
        if labelled:
            choose(spec, (ALL,), split, how.test, PARTS)
        rows = held_rows(labels, split, how.test)
    else:
        choose(spec, ("train", "test"), split, how.test, PARTS)
        rows = np.array([row for row, name in enumerate(names) if parts.get(name) == split], np.int64)
    sizes = dict(images_below(folder))
    there = np.array([row for row in rows.tolist() if names[row] in sizes], np.int64)
    problems = []
    if len(there) < len(rows):
        missing = len(rows) - len(there)
        problems.append(f"{missing} of {len(rows)} images that {TRAITS} names are not in {shown(folder.name)}")
    if not len(there):
        raise UserError(
            f"{spec}: none of the {len(rows)} images of the {split} split is in {shown(folder)}: unpack "
            f"{IMAGES}.zip there"
        )
    kept = [names[row] for row in there.tolist()]
    return photographs_in(
        folder, Names.of(kept), np.array([sizes[name] for name in kept], np.int64), labels[there], spec=spec,
        split=split, how=how, classes=(f"not {word}", word) if labelled else (), problems=problems,
    )  # fmt: skip


def traits_of(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the traits in a list_attr_celeba.txt."""
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        file.readline()
        return tuple(file.readline().split())


def _traits(spec: str, path: Path, trait: str | None) -> tuple[list[str], Ints, str]:
    """Names of all images, whether each has the trait (-1 throughout where none is asked for), and the trait in words.
    The number in the first line is not relied on: parts of the data are passed on with the whole's."""
    known = traits_of(path)
    wanted = "" if trait is None else trait.replace(" ", "_")
    if trait is not None and wanted not in known:
        given = f"there is no trait {trait!r}{did_you_mean(wanted, known)}" if trait else "say which trait"
        raise UserError(f"{spec}: {given}, as in {spec.partition('?')[0]}?trait=Smiling; {shown(path.name)} has "
                        f"{some(known, 40)}")  # fmt: skip
    column = known.index(wanted) + 1 if trait is not None else None
    names: list[str] = []
    labels: list[int] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            cells = line.split()
            if number < 3 or not cells:
                continue
            said = cells[column] if column is not None and len(cells) == len(known) + 1 else "?"
            if column is not None and said not in ("1", "-1"):
                raise UserError(
                    f"{spec}: line {number} of {shown(path.name)} is {shown(line.strip()[:60])!r}: expected a file and "
                    f"{len(known)} numbers that are 1 or -1"
                )
            names.append(cells[0])
            labels.append(-1 if column is None else int(said == "1"))
    return names, np.array(labels, np.int64), wanted.replace("_", " ")


def _parts(path: Path) -> dict[str, str] | None:
    """Which part each image is of; None where there is no file of parts."""
    if not path.is_file():
        return None
    parts = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            cells = line.split()
            if len(cells) == 2 and cells[1] in PART:
                parts[cells[0]] = PART[cells[1]]
    return parts
