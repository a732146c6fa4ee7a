"""The rows of a run for looking through: columns when they are needed, images one at a time, never all at once.

A column is read once and kept until a file of the run changes. What is chosen from a million rows is a list of places.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foible.errors import UserError
from foible.findings import Findings, read_shard, shard_files
from foible.findings.labels import Labels, labels_of
from foible.findings.shards import all_different
from foible.findings.tags import tags_of
from foible.images import png_size
from foible.records import read_classes, read_configs
from foible.runs.folder import RunFolder, check_owner
from foible.studio.columns import CODED, READ, compact, joined

Ints = NDArray[np.int64]
SMALL = 64  # pixels: in an image of so few, every one of them is to be seen
KEPT = 256 << 20  # bytes of columns with images that are kept
SORTS = {  # order: (column, greatest first)
    "": (None, False), "realistic": ("realism", True), "odd": ("realism", False), "clear": ("score", True),
    "small": ("size", False), "large": ("size", True), "sure": ("confidence", True), "unsure": ("confidence", False),
    "near": ("distance", False),
}  # fmt: skip


def key_of(path: Path) -> str:
    """What a run is called in an address."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class View:
    """What of a run is looked at; what the address of the gallery says. Classes by number; ranges may be open."""

    outcome: str = "found"
    suspect: str = ""
    truth: int | None = None
    said: int | None = None
    kind: str = ""
    fooled: str = ""  # a network that was right before, and is wrong now
    tag: str = ""
    label: str = ""  # "", labelled, unlabelled, holds, fails, dropped
    ranges: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)  # confidence, size, realism
    order: str = ""

    @staticmethod
    def of(query: Mapping[str, str], usual: str = "found") -> View:
        """From an address; what makes no sense there is passed over. usual: the outcome where it names none."""
        ranges = {}
        for name in ("confidence", "size", "realism"):
            low, high = _float(query.get(f"{name}-from")), _float(query.get(f"{name}-to"))
            if low is not None or high is not None:
                ranges[name] = low, high
        order = query.get("order", "")
        return View(
            query.get("outcome", usual), query.get("suspect", ""), _int(query.get("truth")), _int(query.get("said")),
            query.get("kind", ""), query.get("fooled", ""), query.get("tag", ""), query.get("label", ""), ranges,
            order if order in SORTS else "",
        )  # fmt: skip

    @property
    def key(self) -> str:
        return repr(self)


def _int(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 7 else None


def _float(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and abs(value) < 1e30 else None


class Rows:
    """One run as it was when it was opened; `Shelf.open` opens it anew when its files have changed."""

    def __init__(self, path: Path) -> None:
        self.path, self.key = path, key_of(path)
        folder = path.is_dir() and (path / "config.json").is_file()
        self.files: list[Path] = RunFolder(path).shards() if folder else list(shard_files(path))
        self.config: dict[str, Any] = RunFolder(path).config if folder else {}
        self.parts = {file.stem if folder else f"part-{place}": place for place, file in enumerate(self.files)}
        self.names = list(self.parts)
        self.classes: tuple[str, ...] = ()
        self.configs: dict[str, dict[str, Any]] = {}
        self._columns: dict[str, Any] = {}
        self._tables: OrderedDict[tuple[int, tuple[str, ...]], pa.Table] = OrderedDict()
        self._views: OrderedDict[str, Ints] = OrderedDict()
        self.lock = threading.RLock()
        self.films: OrderedDict[int, bytes | None] = OrderedDict()  # walked again, by place
        self.starts: Ints = np.zeros(1, np.int64)
        self.load(("outcome", "config", "suspect", "kind", "tags"))  # what a first look needs, in one go
        self._columns.pop("config", None)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def load(self, names: Sequence[str]) -> None:
        """Read these columns of all shards, where they are not here yet."""
        with self.lock:
            missing = [name for name in names if name not in self._columns]
            if not missing:
                return
            read = [one for name in missing for one in READ.get(name, (name,))]
            parts: dict[str, list[Any]] = {name: [] for name in missing}
            counts, first = [], not self.classes
            for file in self.files:
                table = read_shard(file, tuple(dict.fromkeys(read)))
                if first:
                    self._check(table, file)
                counts.append(table.num_rows)
                for name in missing:
                    parts[name].append(compact(name, table))
                del table
            if first:
                self.starts = np.concatenate([[0], np.cumsum(np.array(counts, np.int64))]).astype(np.int64)
            if "id" in missing and not all_different(parts["id"]):
                raise UserError(f"{str(self.path)!r} has a finding twice: `foible show` says where")
            for name in missing:
                self._columns[name] = joined(name, parts[name])

    def _check(self, table: pa.Table, file: Path) -> None:
        classes = read_classes(table.schema.metadata, str(file))
        if self.classes and classes != self.classes:
            raise UserError(f"{file} has other classes than the first shard of its run")
        self.classes = classes
        if self.config:
            check_owner(table.schema.metadata, self.config["settings"], file)
        self.configs |= read_configs(table.schema.metadata, str(file))

    def column(self, name: str) -> Any:
        """A whole column: (names, codes) of `CODED`, else an array."""
        self.load((name,))
        return self._columns[name]

    def texts(self, name: str) -> list[str]:
        """The different values of a coded column."""
        return list(self.column(name)[0])

    @property
    def usual(self) -> str:
        """The outcome that is shown where none is asked for."""
        there = self.texts("outcome")
        return "between" if "between" in there and "found" not in there else "found"

    @property
    def right(self) -> Ints:
        """The right class of each row: its label, or what the peers agree on; -1 where neither is known."""
        self.load(("truth", "consensus"))
        truth = self.column("truth")
        return np.asarray(np.where(truth < 0, self.column("consensus"), truth))

    def choose(self, view: View) -> Ints:
        """The places of the rows of a view, in its order."""
        with self.lock:
            if view.key not in self._views:
                self._views[view.key] = self._chosen(view)
                while len(self._views) > 6:
                    self._views.popitem(last=False)
            self._views.move_to_end(view.key)
            return self._views[view.key]

    def _chosen(self, view: View) -> Ints:
        wanted = [name for name in CODED if getattr(view, name) not in ("", "all")]
        wanted += [name for name in ("said",) if view.said is not None] + list(view.ranges)
        by, down = SORTS[view.order]
        self.load([*wanted, *([by] if by else ()), *(("truth", "consensus") if view.truth is not None else ())])
        keep = np.ones(len(self), bool)
        for name in CODED:
            value = getattr(view, name)
            if value not in ("", "all"):
                names, which = self.column(name)
                keep &= which == (names.index(value) if value in names else -2)
        if view.truth is not None:
            keep &= self.right == view.truth
        if view.said is not None:
            keep &= self.column("said") == view.said
        for name, (low, high) in view.ranges.items():
            values = self.column(name)
            keep &= (values >= (-np.inf if low is None else low)) & (values <= (np.inf if high is None else high))
        if view.kind:
            names, which = self.column("kind")
            keep &= which == (names.index(view.kind) if view.kind in names else -2)
        if view.fooled:
            networks, bits = self.column("fooled")
            known = view.fooled in networks
            keep &= (bits >> networks.index(view.fooled)) & 1 == 1 if known else False
        if view.label or view.tag:
            keep &= self._among(view)
        places = np.flatnonzero(keep)
        if by:
            values = self.column(by)[places]
            order = np.argsort(-values if down else values, kind="stable")  # NaN comes last either way
            places = places[order]
        return places

    def _among(self, view: View) -> NDArray[np.bool_]:
        keep = np.ones(len(self), bool)
        if view.label:
            labels = self.labels
            sets = {
                "labelled": labels.labels.keys(), "unlabelled": labels.labels.keys(), "holds": labels.holds,
                "fails": labels.fails, "dropped": labels.dropped,
            }  # fmt: skip
            there = self.have(sets.get(view.label, frozenset()))
            keep &= ~there if view.label == "unlabelled" else there
        if view.tag:
            own = np.zeros(len(self), bool)
            own[self.column("tags").get(view.tag, np.zeros(0, np.int64))] = True
            keep &= own | self.have(tags_of(self.path).get(view.tag, ()))
        return keep

    def have(self, ids: Any) -> NDArray[np.bool_]:
        """Which rows have one of these ids."""
        found = pc.is_in(self.column("id"), value_set=pa.array(sorted(ids), pa.string()))
        return np.asarray(found.to_numpy(zero_copy_only=False), bool)

    @property
    def labels(self) -> Labels:
        return labels_of(self.path)

    def at(self, place: int) -> tuple[int, int]:
        """The part and the row in it of a place in the run."""
        part = int(np.searchsorted(self.starts, place, "right")) - 1
        return part, int(place - self.starts[part])

    def place(self, part: str, row: str) -> int:
        """The way back, from what an address says."""
        number, within = self.parts.get(part), _int(row)
        if number is None or within is None or within >= self.starts[number + 1] - self.starts[number]:
            raise KeyError
        return int(self.starts[number]) + within

    def address(self, place: int) -> str:
        """`unit-…/17`: how a place is called in an address."""
        part, row = self.at(place)
        return f"{self.names[part]}/{row}"

    def table(self, part: int, columns: tuple[str, ...]) -> pa.Table:
        """Some columns of one shard; those used last are kept, up to a limit."""
        with self.lock:
            key = part, columns
            if key not in self._tables:
                self._tables[key] = read_shard(self.files[part], columns)
                while len(self._tables) > 1 and sum(one.nbytes for one in self._tables.values()) > KEPT:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(key)
            return self._tables[key]

    @cached_property
    def small(self) -> bool:
        """Whether its images have so few pixels that each of them is to be seen: by the first that there is."""
        for part in range(len(self.files)):
            kept = self.table(part, ("image",)).column("image").drop_null()
            if len(kept):
                return max(png_size(kept[0].as_py()) or (1, 1)) <= SMALL
        return True

    def row(self, place: int, columns: tuple[str, ...]) -> dict[str, Any]:
        part, row = self.at(place)
        return dict(self.table(part, columns).slice(row, 1).to_pylist()[0])

    def some(self, places: Sequence[int], columns: tuple[str, ...]) -> list[dict[str, Any]]:
        """Rows of several places, in that order; each shard is read once."""
        found: dict[int, dict[str, Any]] = {}
        by_part: dict[int, list[int]] = {}
        for place in places:
            by_part.setdefault(self.at(place)[0], []).append(place)
        for part, here in by_part.items():
            taken = self.table(part, columns).take(pa.array([place - int(self.starts[part]) for place in here]))
            found.update(zip(here, taken.to_pylist(), strict=True))
        return [found[place] for place in places]

    def findings(self, places: Sequence[int]) -> Findings:
        """These rows as findings, with all their columns: for an export or a task."""
        by_part: dict[int, list[int]] = {}
        for place in places:
            by_part.setdefault(self.at(int(place))[0], []).append(int(place) - int(self.starts[self.at(int(place))[0]]))
        parts = [Findings(read_shard(self.files[part]).take(pa.array(rows))) for part, rows in by_part.items()]
        return Findings.concat(parts)
