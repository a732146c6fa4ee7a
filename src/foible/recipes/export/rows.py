"""Which rows of a run an export takes, one shard at a time, and how a row reads without its images.

Names of classes and networks are data: they are made safe before they become file names.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from foible.errors import UserError
from foible.findings import SCHEMA, Findings, read_shard, shard_files
from foible.findings.labels import labels_of
from foible.findings.tags import tags_of
from foible.images import decode_pixels
from foible.permission import Permission
from foible.png import encode_png
from foible.runs.recipe import load

Row = dict[str, Any]
CHANGES = {"change": "", "least_change": "least "}  # ways in human units, and what their parts are called with

_TAKEN = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|findings\.csv|unlabelled")
_text, _whole, _number = pa.string(), pa.int64(), pa.float64()
FLAT: dict[str, pa.DataType] = {  # what every row says besides its images, and of which type
    **dict.fromkeys(("id", "suspect", "outcome", "tags", "truth", "label_from", "consensus", "said"), _text),
    "said_probability": _number, "target": _text,
    **dict.fromkeys(("distance", "distance_exact", "score", "size", "realism"), _number), "kinds": _text,
    **dict.fromkeys(CHANGES, _text),
    **dict.fromkeys(("moves", "candidates", "forwards", "backwards", "least_forwards"), _whole),
    "origin_data": _text, "origin_split": _text, "origin_index": _whole, "origin_file": _text, "config": _text,
}  # fmt: skip
_READ = (*(name for name in FLAT if name in SCHEMA.names), "image", "origin", "after")
_WAY = ("path", "networks", "versions")  # what it takes, besides, to show a row again that keeps no image
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
    trust: bool = False  # to show rows again with whatever files and code their run names

    def parts(self, columns: tuple[str, ...] | None = None) -> Iterator[Findings]:
        """Shard by shard, so that memory does not grow with the run; `columns` None for all of them."""
        dropped = pa.array(sorted(labels_of(self.run).dropped), pa.string())
        marked = pa.array([id for tag, ids in tags_of(self.run).items() if tag in self.tags for id in ids], pa.string())
        for table in self._tables(columns and tuple({*columns, "id", "outcome", "tags"})):
            if not self.everything:
                outcomes = ("found", "between", *(("doubtful",) if self.tags else ()))
                table = Findings(table).filter(outcome=outcomes).table
                table = table.filter(pc.invert(pc.is_in(table["id"], dropped)))
            if self.tags:
                carries = [bool({*self.tags} & {*(tags or ())}) for tags in table["tags"].to_pylist()]
                table = table.filter(pc.or_(pa.array(carries, pa.bool_()), pc.is_in(table["id"], marked)))
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
        return self._rows(_READ)

    def with_images(self) -> Iterator[Row]:
        """The same, each with its images: a trial that found nothing keeps none, and its path is walked again."""
        for row in self._rows((*_READ, *_WAY) if self.everything else _READ):
            yield self._shown(row) if row["image"] is None else row

    def _rows(self, columns: tuple[str, ...]) -> Iterator[Row]:
        for part in self.parts(columns):
            for batch in part.table.to_batches(max_chunksize=_ROWS):
                yield from batch.to_pylist()

    def _shown(self, row: Row) -> Row:
        if isinstance(self.run, Findings) or not (Path(self.run) / "config.json").is_file():
            raise UserError(
                f"finding {row['id']!r} has no image, which only its run folder can show again: export that"
            )
        from foible.recipes.replay import seed_of  # torch and the networks only where they are needed

        image = load(self._task.recipe.replay)(row, self._task).image
        return {**row, "image": encode_png(image), "origin": encode_png(seed_of(row, self._task))}

    @cached_property
    def _task(self) -> Any:
        from foible.runs.reopen import open_again

        assert not isinstance(self.run, Findings)
        return open_again(self.run, may=Permission(trust=self.trust))

    def components(self) -> list[str]:
        """The names of `parts_of` of all rows, in the order in which they first appear."""
        names: dict[str, None] = {}
        for part in self.parts(tuple(CHANGES)):
            for batch in part.table.select(list(CHANGES)).to_batches(max_chunksize=_ROWS):
                names |= dict.fromkeys(name for row in batch.to_pylist() for name in parts_of(row))
        return list(names)

    def explain_none(self) -> UserError:
        """Why no row carries the tags: said with those that there are."""
        there = {
            tag for table in self._tables(("tags",)) for tag in pc.unique(pc.list_flatten(table["tags"])).to_pylist()
        }
        there |= {*tags_of(self.run)}
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
        """A row as plain values, the columns `FLAT`: class names in place of numbers, JSON in place of maps."""
        named = {name: self.name(row[name]) for name in ("truth", "consensus", "said", "target")}
        words = {name: " ".join(row[name] or ()) for name in ("tags", "kinds")}
        ways = {name: _as_json(row[name]) for name in CHANGES}
        sure = None if row["said"] is None else row["after"][0][row["said"]]
        spelt = {**row, **named, **words, **ways, "said_probability": sure}
        return {name: _known(spelt[name]) for name in FLAT}


def parts_of(row: Row) -> Row:
    """The whole way of a row and the least that still holds, in human units: `rotation °`, `least rotation °`, …"""
    return {f"{called}{name}": value for way, called in CHANGES.items() for name, value in row[way] or []}


def _as_json(way: list[tuple[str, float]] | None) -> str | None:
    return json.dumps({name: _known(value) for name, value in way}, ensure_ascii=False) if way else None


def _known(value: Any) -> Any:
    """Nothing in place of what is no number: JSON has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def safe_name(name: str) -> str:
    """A name that is a plain file name on every system; where it had to change, a hash keeps names apart.

    Capitals count as a change: on many disks `A` and `a` are one file. So do names that Windows or we ourselves use.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:80]
    if plain == name == name.lower() and not _TAKEN.fullmatch(name):
        return plain
    return f"{plain or 'class'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def check_png(id: str, png: bytes) -> bytes:
    """The same bytes, once they are known to be what their file name or column will say: a whole PNG."""
    decode_pixels(png, repr(id))
    return png


def place(folder: Path, id: str, png: bytes) -> str:
    """Write an image under a name made from its id; the name. Two runs in one table may share ids: none is lost."""
    check_png(id, png)
    stem, number = safe_name(id), 1
    while (folder / f"{stem}.png").exists():
        number += 1
        stem = f"{safe_name(id)}-{number}"
    (folder / f"{stem}.png").write_bytes(png)
    return f"{stem}.png"
