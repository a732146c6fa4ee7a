"""Findings on disk: the Parquet shards of a run, each of them checked as it is read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foible.disk import ordinary
from foible.errors import UserError
from foible.findings.checked import wrong_with
from foible.findings.schema import ADDED, OUTCOMES, SCHEMA, SCHEMA_VERSION, with_metadata
from foible.records import read_classes, read_configs
from foible.runs.folder import RunFolder, check_owner
from foible.runs.record import settings_hash
from foible.text import shown


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


def nothing_yet(folder: RunFolder) -> pa.Table:
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
