"""Findings: the one currency. An Arrow table of trials, in memory or as the Parquet shards of a run.

Whatever finds writes these rows; whatever explains, labels, mends, reports or exports reads them.
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
import pyarrow.compute as pc

from foible.errors import UserError
from foible.findings.schema import CLASS_COLUMNS, OUTCOMES, SCHEMA, with_metadata
from foible.findings.shards import nothing_yet, read_shard, shard_files
from foible.images import decode_png
from foible.records import read_classes, read_configs, short
from foible.runs.folder import RunFolder
from foible.runs.record import further
from foible.text import did_you_mean, shown, some

if TYPE_CHECKING:
    from torch import Tensor


class Findings:
    """Rows of trials, with class names and settings. Cheap to slice; images are decoded when asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def open(cls, run: str | Path) -> Findings:
        """The findings of a run folder or a Parquet file; read when first needed."""
        found = cls.__new__(cls)
        found._files = shard_files(run)  # type: ignore[attr-defined]
        return found if found._files else cls(nothing_yet(RunFolder(run)))  # type: ignore[attr-defined]

    @cached_property
    def _table(self) -> pa.Table:
        return Findings.concat([Findings(read_shard(file)) for file in self._files]).table  # type: ignore[attr-defined]

    @property
    def table(self) -> pa.Table:
        """The Arrow table; its columns are `foible.findings.schema.SCHEMA`."""
        return self._table

    @classmethod
    def concat(cls, parts: Iterable[Findings]) -> Findings:
        """Findings of several runs in one; they must speak of the same classes."""
        parts = list(parts)
        if not parts:
            raise UserError("nothing to put together: give at least one set of findings")
        classes = parts[0].classes
        for part in parts:
            if part.classes != classes:
                raise UserError(f"findings of different tasks: classes {some(classes)} and {some(part.classes)}")
        configs: dict[str, dict[str, Any]] = {}
        for part in parts:
            for key, settings in part.configs.items():
                configs[key] = further(configs.get(key, settings), settings)
        return cls(
            with_metadata(pa.concat_tables([p.table.replace_schema_metadata() for p in parts]), classes, configs)
        )

    @property
    def classes(self) -> tuple[str, ...]:
        return read_classes(self.table.schema.metadata, "findings")

    @property
    def configs(self) -> dict[str, dict[str, Any]]:
        """Settings by hash; the column `config` names the hash of each row."""
        return read_configs(self.table.schema.metadata, "findings")

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, row: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, row: slice) -> Findings: ...

    def __getitem__(self, row: int | slice) -> dict[str, Any] | Findings:
        """One row as a dictionary of Python values; of a slice, these findings."""
        if isinstance(row, slice):
            return Findings(self.table.take(pa.array(range(len(self))[row], pa.int64())))
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} findings")
        return dict(self.table.slice(range(len(self))[row], 1).to_pylist()[0])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in range(len(self)):
            yield self[row]

    def column(self, name: str) -> list[Any]:
        return list(self.table.column(self._named(name)).to_pylist())

    def filter(self, predicate: Callable[[dict[str, Any]], Any] | None = None, /, **wanted: Any) -> Findings:
        """Rows where every named column has the wanted value (or one of a list of them), and of which the predicate,
        which is given each row as a dictionary, is true. Classes go by name or by number, tags one by one.

        `findings.filter(outcome="found", truth="cat", suspect=["A", "B"])`
        `findings.filter(lambda row: row["size"] < 1)`
        """
        table = self.table
        for name, value in wanted.items():
            values = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
            kind = SCHEMA.field(self._named(name)).type
            allowed = self._as_stored(name, values, kind)
            column = table.column(name)
            if pa.types.is_list(kind):  # a row belongs to several
                keep = pa.array([bool(set(allowed) & set(one or ())) for one in column.to_pylist()], pa.bool_())
            else:
                keep = pc.is_in(column, value_set=pa.array(allowed, kind))
            table = table.filter(keep)
        found = Findings(table)
        if predicate is None:
            return found
        return Findings(table.filter(pa.array([bool(predicate(row)) for row in found], pa.bool_())))

    def _named(self, name: str) -> str:
        """A column's name, once there is one."""
        known = self.table.column_names
        if name not in known:
            hint = did_you_mean(name, known)
            raise UserError(f"findings have no column {shown(name)!r}{hint}; they have {', '.join(known)}")
        return name

    def _as_stored(self, name: str, values: list[Any], kind: pa.DataType) -> list[Any]:
        """Wanted values as the column holds them: classes by number. One that no row could have is an error."""
        scalar = pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not scalar and kind != pa.list_(pa.string()):
            raise UserError(
                f"the column {name!r} holds {kind}, which no one value equals: give filter a function of a row"
            )
        found = []
        for value in values:
            if name in CLASS_COLUMNS and isinstance(value, str):
                known: Sequence[str] = self.classes
                value = known.index(value) if value in known else value
                fits = not isinstance(value, str)
            elif name in CLASS_COLUMNS and type(value) is int:
                known, fits = [f"0 to {len(self.classes) - 1}"], 0 <= value < len(self.classes)
            elif name in ("outcome", "suspect"):
                known = OUTCOMES if name == "outcome" else self._suspects
                fits = value is None or value in known
            else:
                known, fits = (), True
            if not fits:
                hint = did_you_mean(str(value), known)
                raise UserError(f"no row can have {name} {short(value)}{hint}; known: {some(known, 12)}")
            try:
                pa.scalar(value, pa.string() if pa.types.is_list(kind) else kind)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                what = "text" if pa.types.is_string(kind) or pa.types.is_list(kind) else "a number"
                what = "a whole number" if pa.types.is_integer(kind) else what
                raise UserError(f"{name} is {short(value)}: expected {what}") from None
            found.append(value)
        return found

    @property
    def _suspects(self) -> list[str]:
        """Networks that the settings know, and those that rows name."""
        known = {str(name) for settings in self.configs.values() for name in settings.get("networks", ())}
        return sorted(known | {name for name in self.table.column("suspect").unique().to_pylist() if name is not None})

    def head(self, count: int) -> Findings:
        return Findings(self.table.slice(0, count))

    def get(self, id: str) -> dict[str, Any]:
        """The row with this id."""
        rows = self.filter(id=id)
        if not len(rows):
            example = self.table.column("id")[0].as_py() if len(self) else "none"
            raise UserError(f"no finding {id!r} among {len(self)}: ids look like {example!r}; see `foible show`")
        return rows[0]

    def images(self, column: str = "image") -> list[Tensor]:
        """Decoded images, uint8 (channels, height, width) each, of `image`, `origin` or `film`."""
        if not pa.types.is_binary(SCHEMA.field(self._named(column)).type):
            raise UserError(f"the column {column!r} holds no images: expected image, origin, least_image or film")
        rows = zip(self.column("id"), self.column(column), strict=True)
        return [decode_png(data, repr(id)) for id, data in rows if data is not None]

    def to_pandas(self) -> Any:
        """A pandas DataFrame (needs pandas), with class names beside the indices."""
        try:
            frame = self.table.to_pandas()
        except ImportError as error:
            raise UserError("to_pandas() needs pandas: pip install 'foible[pandas]'") from error
        for name in CLASS_COLUMNS:
            frame[f"{name}_name"] = [None if v != v or v is None else self.classes[int(v)] for v in frame[name]]
        return frame

    def name_of(self, index: int | None) -> str:
        """The name of a class; "?" where there is none."""
        return "?" if index is None else self.classes[index]

    def _repr_html_(self) -> str:
        """A small gallery for notebooks; every name is escaped."""
        cells = []
        for row in self.filter(outcome="found").head(12):
            pictures = "".join(
                f'<img src="data:image/png;base64,{b64encode(row[name]).decode()}" '
                'style="height:56px;image-rendering:pixelated;margin-right:4px">'
                for name in ("origin", "image")
                if row[name]
            )
            said = f"{row['suspect']} says {self.name_of(row['said'])}, peers say {self.name_of(row['consensus'])}"
            caption = f"<figcaption>{html.escape(said)}</figcaption>"
            cells.append(f'<figure style="display:inline-block;margin:6px">{pictures}{caption}</figure>')
        found = len(self.filter(outcome="found"))
        return f"<p>{found} found in {len(self)} trials</p>" + "".join(cells)

    def __repr__(self) -> str:
        return f"Findings({len(self.filter(outcome='found'))} found in {len(self)} trials)"
