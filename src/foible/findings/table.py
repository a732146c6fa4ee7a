"""Findings: the one currency. An Arrow table of trials, in memory or as the Parquet shards of a run.

Whatever finds writes these rows; whatever explains, labels, mends, reports or exports reads them.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foible.disk import ordinary
from foible.errors import UserError
from foible.findings.checked import wrong_with
from foible.images import decode_png
from foible.records import read_classes, read_configs, short
from foible.runs.folder import RunFolder, check_owner
from foible.runs.record import further, settings_hash
from foible.text import did_you_mean, shown, some

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA_VERSION = 5
OUTCOMES = (
    "found",  # a mistake, on the very pixels of `image`
    "exhausted",  # a trial that found none
    "invalid",  # a network answered with NaN or infinity
    "held",  # an image that was right, kept to see whether it stays so
    "unsettled",  # a mistake on the original file, or in floats, that the pixels of `image` do not show
    "doubtful",  # every network agrees against the label
    "between",  # an image between two classes, of which nobody but people can say what is right
)
ADDED = {  # columns by the schema version that brought them; null in older files
    **dict.fromkeys(("tags", "origin_file"), 2),
    **dict.fromkeys(("label_from", "score", "kinds", "size", "realism"), 3),
    **dict.fromkeys(("least_path", "least_image", "least_change", "least_forwards"), 3),
    **dict.fromkeys(("target", "distance", "distance_exact"), 4),
    "method": 5,
}
CLASS_COLUMNS = ("truth", "consensus", "said", "target")  # numbers of classes

_probabilities = pa.list_(pa.list_(pa.float32()))
SCHEMA = pa.schema(  # where a column means something else in another recipe, a line above says so
    [
        # id: unique in a run: suspect, lane, and where a lane has several rows which: its label (distort), its number
        pa.field("id", pa.string()),
        pa.field("config", pa.string()),  # hash of the settings; the settings are in the metadata
        pa.field("suspect", pa.string()),
        pa.field("networks", pa.list_(pa.string())),  # order of the rows of before, after and trace
        # lane: hunt: the trial's number; distort, compare, rank, a suite's anchors: the same as origin_index
        pa.field("lane", pa.int64()),
        pa.field("outcome", pa.string()),  # one of OUTCOMES
        pa.field("tags", pa.list_(pa.string())),  # kinds that it belongs to: broken, fixed, dissent, against-label
        # image, origin, trace, realism: hunt: null of a trial that found nothing; its path shows it again
        pa.field("image", pa.binary()),  # PNG: what the trial ended with
        # origin: fool: the best image of the first generation, or where a climb began
        pa.field("origin", pa.binary()),  # PNG: the seed image; null where there is none
        pa.field("origin_data", pa.string()),
        pa.field("origin_split", pa.string()),
        pa.field("origin_index", pa.int64()),
        pa.field("origin_file", pa.string()),  # the file it was read from, as the data names it; null where none
        pa.field("truth", pa.int32()),  # class index; null where unlabelled
        pa.field("label_from", pa.string()),  # where the class aimed at came from: "label" or "consensus"
        pa.field("consensus", pa.int32()),  # the peers' common class; null where they differ. Without labels, the aim
        pa.field("said", pa.int32()),  # the suspect's class for the image; null where it gave NaN
        pa.field("target", pa.int32()),  # the class that a distortion was to reach; null where any other would do
        # before: compare, rank: of the file itself, which each network prepares in its own way
        pa.field("before", _probabilities),  # (networks, classes), of the origin
        pa.field("after", _probabilities),  # (networks, classes), of the image
        pa.field("moves", pa.int32()),  # accepted
        # candidates: hunt: moves tried; distort: labels tried; compare, rank: 1, the image; a suite's anchors: 0
        pa.field("candidates", pa.int32()),
        pa.field("forwards", pa.int64()),  # inferences spent, over all networks
        pa.field("backwards", pa.int64()),
        pa.field("path", pa.list_(pa.struct([("step", pa.int32()), ("draws", pa.list_(pa.float32()))]))),
        # trace: distort: (2, networks), before and after; compare, rank: (1, networks), before; empty without a class
        pa.field("trace", _probabilities),  # (1 + moves, networks): probability of the aimed-at class on the way
        # path, trace: fool: generations after which the suspect's confidence was noted, and (1 + moves, 1) it
        # point: fool: the genome (`spaces/cppn/files.py`); boundary: the code
        # lane, change, target: boundary: the line, {"α": 0.3}, and the class that the line leads to
        # point: distort: the image, or a layer's output, before rounding to 8 bits, null where it is large; else empty
        pa.field("point", pa.list_(pa.float32())),  # where the trial ended in its space, apart from the image
        pa.field("change", pa.map_(pa.string(), pa.float32())),  # the whole way in human units: {"rotation °": 7.1}
        # distance, distance_exact: distort only. With a layer the first is null and the second of the layer's output
        pa.field("distance", pa.float32()),  # of image and origin, pixels in [0, 1]: l2, or the norm of the settings
        pa.field("distance_exact", pa.float32()),  # the same before rounding to 8 bits
        pa.field("method", pa.string()),  # what found it, where it is not (just) the one method of the settings
        pa.field("score", pa.float32()),  # by how much the image is found, log-odds: the worst over the networks
        pa.field("size", pa.float32()),  # of the whole way, in largest moves; null where the space is no box
        pa.field("kinds", pa.list_(pa.string())),  # of move, largest first; of the least change where it is known
        pa.field("least_path", pa.list_(pa.list_(pa.float32()))),  # draws of the least change that still holds
        pa.field("least_image", pa.binary()),  # PNG: the image it gives
        pa.field("least_change", pa.map_(pa.string(), pa.float32())),  # in human units
        pa.field("least_forwards", pa.int64()),  # inferences it took to find, besides `forwards`
        pa.field("realism", pa.float32()),  # of the image: 0 as typical as clean ones, −5 unlike any
        pa.field("film", pa.binary()),  # PNG: origin and every accepted step side by side, small; of a few found rows
        pa.field("versions", pa.string()),  # JSON: foible, torch, python, device
    ]
)


def with_metadata(table: pa.Table, classes: Sequence[str], configs: dict[str, dict[str, Any]]) -> pa.Table:
    """The table with class names and the settings behind its rows attached: what every shard carries."""
    metadata = {
        "foible.schema_version": str(SCHEMA_VERSION),
        "foible.classes": json.dumps(list(classes)),
        "foible.configs": json.dumps(configs, sort_keys=True),
    }
    return table.replace_schema_metadata(metadata)


def _check_version(schema: pa.Schema, where: str) -> None:
    version = (schema.metadata or {}).get(b"foible.schema_version")
    if version is None:
        raise UserError(f"{where} is Parquet, but not findings of Foible: it has no schema_version")
    if int(version) > SCHEMA_VERSION:
        raise UserError(
            f"{where} was written by a newer Foible (schema {int(version)}; this one reads {SCHEMA_VERSION})"
        )


def _modern(table: pa.Table, columns: list[str]) -> pa.Table:
    """A table of an older version with the columns that it lacks, all null, and its columns in today's order."""
    version = int(table.schema.metadata[b"foible.schema_version"])
    for name in columns:
        if name not in table.column_names and ADDED.get(name, 0) > version:
            table = table.append_column(SCHEMA.field(name), pa.nulls(table.num_rows, SCHEMA.field(name).type))
    ordered = [name for name in columns if name in table.column_names]
    return table.select(ordered + [name for name in table.column_names if name not in ordered])


def shard_files(run: str | Path) -> list[Path]:
    """The Parquet shards of a run folder, in order; a single Parquet file, or a suite's, counts as its own.

    A run holds its own units and nothing else: shards of other runs, copies and strange files are named.
    """
    path = Path(run)
    if path.is_file():
        return [path]
    if (path / "config.json").exists():
        return _own_shards(RunFolder(path))  # none where no unit is finished yet
    if (path / "suite.parquet").is_file():
        return [path / "suite.parquet"]
    files = sorted((path / "shards").glob("*.parquet")) if (path / "shards").is_dir() else []
    if not files:
        raise UserError(f"{str(run)!r} holds no findings: expected a run folder (with shards/) or a Parquet file")
    return files


def _nothing(folder: RunFolder) -> pa.Table:
    """The findings of a run of which no unit is finished."""
    config = folder.config
    return with_metadata(SCHEMA.empty_table(), (), {settings_hash(config["settings"]): config["settings"]})


def _own_shards(folder: RunFolder) -> list[Path]:
    """The shards of a run, each with the run's settings and hash in every row, and no id twice."""
    settings, files = folder.config["settings"], folder.shards()
    ids = []
    known: dict[str, tuple[str, ...]] = {}  # the classes of all shards
    for file in files:
        table = read_shard(file, ("id", "config"))
        key = check_owner(table.schema.metadata, settings, file)
        others = table.filter(pc.not_equal(table.column("config"), key)).column("config")
        if len(others):
            raise UserError(
                f"{file} has rows of another run ({shown(others[0].as_py())[:40]}; this one is {key}): delete it and "
                "resume the run"
            )
        classes = read_classes(table.schema.metadata, str(file))
        if classes != known.setdefault(key, classes):
            raise UserError(f"{file} has other classes than the run's first shard: delete it and resume the run")
        ids.append(table.column("id"))
    if not all_different(ids):
        seen: set[str] = set()
        for file, column in zip(files, ids, strict=True):
            for id in column.to_pylist():
                if id in seen:
                    raise UserError(f"{file} has {shown(id)[:60]!r} a second time: delete it and resume the run")
                seen.add(id)
    return files


def all_different(ids: Sequence[pa.ChunkedArray]) -> bool:
    """Whether no id of any shard comes twice. Units number their rows in order, and where no shard begins before
    another ends that is seen at a glance; otherwise all are put together and counted."""
    some = [column for column in ids if len(column)]
    if all(pc.all(pc.less(column[:-1], column[1:]), min_count=0).as_py() for column in some):
        spans = sorted((column[0].as_py(), column[-1].as_py()) for column in some)
        if all(one[1] < following[0] for one, following in pairwise(spans)):
            return True
    every = pa.chunked_array([chunk for column in some for chunk in column.chunks], pa.string())
    return bool(pc.count_distinct(every).as_py() == len(every))


def read_shard(file: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """One shard, checked; a damaged file is named."""
    try:
        with pq.ParquetFile(ordinary(file), page_checksum_verification=True) as shard:
            here = shard.schema_arrow.names
            table = shard.read(None if columns is None else [name for name in columns if name in here])
        _check_version(table.schema, str(file))
        table = _modern(table, SCHEMA.names if columns is None else list(columns))
        table.validate(full=True)
        for key in (b"foible.classes", b"foible.configs"):
            if key not in table.schema.metadata:
                raise ValueError(f"it has no {key.decode()}")
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise UserError(f"{file} cannot be read as Parquet ({error}): delete it and resume the run") from error
    classes = read_classes(table.schema.metadata, str(file))
    configs = read_configs(table.schema.metadata, str(file))
    wanted = SCHEMA.names if columns is None else list(columns)
    for name in wanted:
        if here.count(name) > 1 or name not in table.column_names:
            raise UserError(f"{file} has no column {name!r} of findings, or two of them: delete it and resume the run")
        if table.schema.field(name).type != SCHEMA.field(name).type:
            raise UserError(f"{file} has no column {name!r} of findings: delete it and resume the run")
    wrong = wrong_with(table.select(wanted), len(classes), configs, OUTCOMES)
    if wrong is not None:
        raise UserError(f"{file} is damaged or not ours: {wrong}; delete it and resume the run")
    form = pa.schema([SCHEMA.field(name) for name in wanted], table.schema.metadata)
    return pa.Table.from_arrays([table.column(name) for name in wanted], schema=form)


class Findings:
    """Rows of trials, with class names and settings. Cheap to slice; images are decoded when asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @classmethod
    def open(cls, run: str | Path) -> Findings:
        """The findings of a run folder or a Parquet file; read when first needed."""
        found = cls.__new__(cls)
        found._files = shard_files(run)  # type: ignore[attr-defined]
        return found if found._files else cls(_nothing(RunFolder(run)))  # type: ignore[attr-defined]

    @cached_property
    def _table(self) -> pa.Table:
        return Findings.concat([Findings(read_shard(file)) for file in self._files]).table  # type: ignore[attr-defined]

    @property
    def table(self) -> pa.Table:
        """The Arrow table; its columns are `foible.findings.table.SCHEMA`."""
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
