"""Images and their labels in one tar shard, found by its headers alone. Pickles among them are never opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from foible.data.contents import Pieces
from foible.data.decode import MOST_BYTES, SUFFIXES
from foible.data.names import Names
from foible.data.photographs import Ints
from foible.data.tar import Broken, Member, Packed, members
from foible.errors import UserError
from foible.text import shown

PICKLES = frozenset(("pyd", "pickle", "pkl", "pth", "pt"))
LABELS = ("cls", "json", "txt")  # the first that tells a label
MOST_LABEL = 1 << 20  # bytes of a label's member


@dataclass(frozen=True, eq=False)
class Shards:
    """Images in tar files: which file (a number), from which byte, how many bytes. `labels` as they were read."""

    files: tuple[Path, ...]
    names: Names
    shards: Ints
    offsets: Ints
    sizes: Ints
    labels: Sequence[str | int | None] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    def fetch(self, row: int) -> bytes:
        size = int(self.sizes[row])
        if size > MOST_BYTES:
            raise ValueError(f"has more bytes than the limit of {MOST_BYTES >> 20} MiB")
        with self.files[self.shards[row]].open("rb") as file:
            file.seek(int(self.offsets[row]))
            body: bytes = file.read(size)
        if len(body) != size:
            raise ValueError("is cut short")
        return body

    def pieces(self) -> Pieces:
        return Pieces(self.sizes, lambda row: (self.files[self.shards[row]], int(self.offsets[row])))

    @staticmethod
    def joined(shards: Sequence[Shards]) -> Shards:
        return Shards(
            tuple(file for shard in shards for file in shard.files),
            Names.joined([shard.names for shard in shards]),
            np.repeat(np.arange(len(shards)), [len(shard) for shard in shards]),
            np.concatenate([shard.offsets for shard in shards]),
            np.concatenate([shard.sizes for shard in shards]),
            [label for shard in shards for label in shard.labels],
        )

    def take(self, rows: Ints) -> Shards:
        """Those at `rows`, without their labels."""
        return Shards(self.files, self.names.take(rows), self.shards[rows], self.offsets[rows], self.sizes[rows])


def index_shard(path: Path, where: str, key: str | None, problems: list[str]) -> Shards:
    """The images of one tar, named `where`/MEMBER. `key` holds the label in a .json; None: no labels are wanted.

    Members belong together that have the same name up to its first dot: `a/7.jpg`, `a/7.cls`.
    """
    images: dict[bytes, Member] = {}
    beside: dict[bytes, dict[str, Member]] = {}
    pickles: Counter[str] = Counter()
    try:
        for member in members(path):
            stem, kind = _parts(member.name)
            last = kind.rpartition(".")[2]
            if last in PICKLES:
                pickles[last] += 1
            elif "." + last in SUFFIXES:
                before = images.get(stem)
                if before is None or ("." not in kind and "." in _parts(before.name)[1]):  # a.jpg before a.mask.png
                    images[stem] = member
                elif before.name == member.name:
                    problems.append(f"{shown(f'{where}/{_text(member.name)}')}: is there twice; the first is taken")
            elif kind in LABELS and key is not None:
                beside.setdefault(stem, {})[kind] = member
    except Packed as error:
        raise UserError(f"{shown(path)} {error}") from error
    except Broken as error:
        problems.append(f"{shown(where)} {error}; what follows there is not read")
    except OSError as error:
        problems.append(f"{shown(where)}: cannot be read: {error.strerror or error}")
    for kind, count in pickles.items():
        problems.append(f"{shown(where)}: {count} members .{kind} are not opened: unpickling runs code from the file")
    for stem in [stem for stem, member in images.items() if not member.size]:
        problems.append(f"{shown(f'{where}/{_text(images.pop(stem).name)}')}: is empty")
    found = list(images.values())
    labels: list[str | int | None] = []
    if key is not None and found:
        with path.open("rb") as file:
            labels = [_label(file, beside.get(stem, {}), key) for stem in images]
    return Shards(
        (path,),
        Names.of(where.encode("utf-8", "surrogateescape") + b"/" + member.name for member in found),
        np.zeros(len(found), np.int64),
        np.array([member.offset for member in found], np.int64),
        np.array([member.size for member in found], np.int64),
        labels,
    )


def _parts(name: bytes) -> tuple[bytes, str]:
    """`a/7.mask.png` is `a/7` and `mask.png`."""
    folder, slash, last = name.rpartition(b"/")
    stem, _, kind = last.partition(b".")
    return folder + slash + stem, kind.decode("ascii", "replace").lower()


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _label(file: BinaryIO, beside: dict[str, Member], key: str) -> str | int | None:
    """What the members beside an image say of its class; None where they say nothing that can be read."""
    for kind in LABELS:
        if kind not in beside or beside[kind].size > MOST_LABEL:
            continue
        file.seek(beside[kind].offset)
        body = file.read(beside[kind].size)
        value: object
        try:
            if kind != "json":
                value = body.decode("utf-8").strip()
            else:
                record = json.loads(body)
                value = record.get(key) if isinstance(record, dict) else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
            return value
    return None
