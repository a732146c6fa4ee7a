"""Which rows of a run an export takes, one shard at a time, and how a row reads without its images.

Names of classes and networks are data: they are made safe before they become file names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foible.errors import UserError
from foible.findings import Findings, read_shard, shard_files

Row = dict[str, Any]

_TAKEN = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|findings\.csv|unlabelled")
_READ = (
    "id", "config", "suspect", "outcome", "tags", "image", "origin", "origin_data", "origin_split", "origin_index",
    "origin_file", "truth", "consensus", "said", "after", "moves", "candidates", "forwards", "backwards", "change",
)  # fmt: skip
FLAT = (
    "id", "suspect", "outcome", "tags", "truth", "consensus", "said", "said_probability",
    "moves", "candidates", "forwards", "backwards",
    "origin_data", "origin_split", "origin_index", "origin_file", "config",
)  # fmt: skip
_ROWS = 16  # turned into Python values at a time


@dataclass(frozen=True)
class Chosen:
    """The rows of a run that an export takes: what was found; with `everything`, every row.

    With `tags`, the rows that carry one of them, doubtful ones too: all networks against a label is no finding of one
    suspect, but who asks for that tag wants those rows.
    """

    run: str | Path | Findings
    everything: bool = False
    tags: tuple[str, ...] = ()

    def parts(self, columns: tuple[str, ...] | None = None) -> Iterator[Findings]:
        """Shard by shard, so that memory does not grow with the run; `columns` None for all of them."""
        for table in self._tables(columns and tuple({*columns, "outcome", "tags"})):
            if not self.everything:
                outcomes = ("found", "doubtful") if self.tags else ("found",)
                table = Findings(table).filter(outcome=outcomes).table
            if self.tags:
                carries = [bool({*self.tags} & {*(tags or ())}) for tags in table["tags"].to_pylist()]
                table = table.filter(pa.array(carries, pa.bool_()))
            part = Findings(table)
            if part.classes != self.classes:
                raise UserError(f"{str(self.run)!r} holds findings of different tasks: export each by itself")
            yield part

    def _tables(self, columns: tuple[str, ...] | None) -> Iterator[Any]:
        if isinstance(self.run, Findings):
            yield self.run.table if columns is None else self.run.table.select(columns)
        else:
            yield from (read_shard(file, columns) for file in shard_files(self.run))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        return Findings(next(self._tables(("id",)))).classes

    def __iter__(self) -> Iterator[Row]:
        """Row after row as Python values, without the way there (path, trace, film)."""
        for part in self.parts(_READ):
            for batch in part.table.to_batches(max_chunksize=_ROWS):
                for row in batch.to_pylist():
                    if row["image"] is None:
                        raise UserError(f"finding {row['id']!r} has no image: nothing of it can be exported")
                    yield row

    def components(self) -> list[str]:
        """The names in the column `change` of all rows, in the order in which they first appear."""
        names: dict[str, None] = {}
        for part in self.parts(("change",)):
            names |= dict.fromkeys(name for change in part.column("change") for name, _ in change or [])
        return list(names)

    def explain_none(self) -> UserError:
        """Why no row carries the tags: said with those that there are."""
        there = {
            tag for table in self._tables(("tags",)) for tag in pc.unique(pc.list_flatten(table["tags"])).to_pylist()
        }
        known = f"its tags are {', '.join(sorted(there))}" if there else "its rows have no tags"
        return UserError(f"{str(self.run)!r} has no finding tagged {' or '.join(map(repr, self.tags))}: {known}")

    def label(self, row: Row) -> int | None:
        """The class of a row: its truth, else what all peers say, else none; none where people are to say it."""
        unasked = None if "to-label" in (row["tags"] or ()) else row["consensus"]
        label: int | None = unasked if row["truth"] is None else row["truth"]
        return label

    def name(self, index: int | None) -> str | None:
        return None if index is None else self.classes[index]

    def flat(self, row: Row) -> Row:
        """A row as plain values, the columns `FLAT`: class names in place of numbers, no images."""
        named = {name: self.name(row[name]) for name in ("truth", "consensus", "said")}
        sure = None if row["said"] is None else row["after"][0][row["said"]]
        spelt = {**row, **named, "said_probability": sure, "tags": " ".join(row["tags"] or ())}
        return {name: spelt[name] for name in FLAT}


def safe_name(name: str) -> str:
    """A name that is a plain file name on every system; where it had to change, a hash keeps names apart.

    Capitals count as a change: on many disks `A` and `a` are one file. So do names that Windows or we ourselves use.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:80]
    if plain == name == name.lower() and not _TAKEN.fullmatch(name):
        return plain
    return f"{plain or 'class'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def place(folder: Path, id: str, png: bytes) -> str:
    """Write an image under a name made from its id; the name. Two runs in one table may share ids: none is lost."""
    stem, number = safe_name(id), 1
    while (folder / f"{stem}.png").exists():
        number += 1
        stem = f"{safe_name(id)}-{number}"
    (folder / f"{stem}.png").write_bytes(png)
    return f"{stem}.png"
