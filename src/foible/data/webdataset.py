"""`webdataset:PATH`: images and labels in tar shards, as WebDataset lays them out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from foible.data.dataset import check_classes
from foible.data.decode import SUFFIXES
from foible.data.labels import alike, class_file, classes_of, column_of, is_text, numbers_of, plain
from foible.data.options import look
from foible.data.photographs import Ints, Photographs
from foible.data.places import data_folder, given_path
from foible.data.shards import Shards, index_shard
from foible.data.splits import ALL, by_name, choose, held_rows
from foible.disk import ordinary
from foible.errors import UserError
from foible.text import shown

MOST_SHARDS = 100_000


def list_webdataset(
    spec: str, argument: str, split: str, labelled: bool, *, size: str = "", grey: str = "", test: str = "",
    label: str = "label", classes: str = "",
) -> Photographs:  # fmt: skip
    """`webdataset:PATH?label=KEY&classes=FILE`: a .tar, a folder of them, or a pattern such as train-{000..099}.tar.
    An image's label is the text of its .cls or .txt, or what its .json has under `label`."""
    how = look(spec, size=size, grey=grey, test=test)
    problems: list[str] = []
    root, files = _shards(spec, argument, problems)
    parts = by_name(files, root, problems)
    if labelled or split in parts:
        part = choose(spec, parts, split, how.test, "shards called train-….tar")
    else:  # a pool without splits: all of it
        part, parts = ALL, {ALL: files}
    names = class_file(spec, classes, root) if labelled else ()
    wanted = list(parts) if labelled and not names else [part]  # classes are counted over both splits
    listing = {
        name: Shards.joined([
            index_shard(file, _named(file, root), label if labelled else None, problems if name == part else [])
            for file in parts[name]
        ])
        for name in wanted
    }  # fmt: skip
    chosen = listing[part]
    if not len(chosen):
        first = f"; the first problem: {problems[0]}" if problems else ""
        raise UserError(f"{spec} holds no image ({', '.join(sorted(SUFFIXES))}){first}")
    numbers = np.full(len(chosen), -1)
    if labelled:
        numbers, names = _numbered(spec, listing, part, names, label)
    rows = held_rows(numbers, split, how.test)
    if labelled:
        problems += [f"{shown(chosen.names[row])}: no label" for row in rows[numbers[rows] < 0].tolist()]
        rows = rows[numbers[rows] >= 0]
    source = chosen.take(rows)
    return Photographs(spec, split, torch.from_numpy(numbers[rows]), names, source.names, source.sizes, source, how,
                       tuple(problems))  # fmt: skip


def _numbered(
    spec: str, listing: dict[str, Shards], part: str, names: tuple[str, ...], key: str
) -> tuple[Ints, tuple[str, ...]]:
    """Class numbers of the images in `part`, and the class names."""
    columns = dict(zip(listing, alike([_column(shards, spec) for shards in listing.values()]), strict=True))
    if columns[part].null_count == len(columns[part]):
        raise UserError(
            f"{spec} has no labels: expected a .cls, a .txt or a .json with {key!r} beside each image; name another "
            "key with label=KEY"
        )
    names = names or classes_of(list(columns.items()))
    check_classes(names, spec)
    return numbers_of(columns[part], names, spec), names


def _column(shards: Shards, spec: str) -> pa.Array:
    """Text from .cls and .txt has no types: where every label is a whole number, they are numbers."""
    column = column_of(shards.labels, spec)
    return plain(column) if is_text(column) else column


def _shards(spec: str, argument: str, problems: list[str]) -> tuple[Path, list[Path]]:
    """The folder that shards are named from, and the shards."""
    if "{" in argument and not Path(argument).expanduser().exists():
        return _pattern(spec, argument, problems)
    path = given_path(spec, argument)
    if not path.is_dir():
        return path.parent, [ordinary(path)]
    files = sorted(file for file in path.rglob("*.tar") if file.is_file())
    if not files:
        packed = next((file for file in path.rglob("*.t*") if re.search(r"\.(tgz|tar\.\w+)$", file.name)), None)
        hint = f"; {shown(packed.name)} is compressed: unpack it to a plain .tar first" if packed else ""
        raise UserError(f"{spec}: {shown(path)} holds no .tar file{hint}")
    return path, files


def _pattern(spec: str, argument: str, problems: list[str]) -> tuple[Path, list[Path]]:
    names = list(itertools.islice(expand(argument), MOST_SHARDS + 1))
    if len(names) > MOST_SHARDS:
        raise UserError(f"{spec} stands for more than {MOST_SHARDS:,} shards: expected fewer")
    home = data_folder()
    for base in (Path(), *([home] if home else [])):
        files = [base / Path(name).expanduser() for name in names]
        there = [file for file in files if file.is_file()]
        if there:
            problems += [f"{shown(file)}: is not there" for file in files if not file.is_file()]
            return _common(there), there
    first = f"{shown(names[0])}" if names else "no name at all"
    raise UserError(f"{spec} stands for {len(names)} files, and none is there: the first is {first}")


def _common(files: Sequence[Path]) -> Path:
    """The folder that all of `files` are below."""
    parents = zip(*(file.parent.parts for file in files))  # noqa: B905 (the shortest ends it)
    return Path(*(parts[0] for parts in itertools.takewhile(lambda parts: len(set(parts)) == 1, parents)))


def expand(pattern: str) -> Iterator[str]:
    """`a-{00..02}.tar` and `{a,b}.tar`, written out."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        yield pattern
        return
    span = re.fullmatch(r"([0-9]{1,9})\.\.([0-9]{1,9})", found[1])
    if span:
        middles = (f"{number:0{len(span[1])}d}" for number in range(int(span[1]), int(span[2]) + 1))
    else:
        middles = (middle for middle in found[1].split(","))
    for middle in middles:
        yield from expand(pattern[: found.start()] + middle + pattern[found.end() :])


def _named(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.as_posix()
