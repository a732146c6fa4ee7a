"""The answers of a comparison: RUN/answers/, where a unit's file is called as its shard is, has a row an image.

They are written before the unit's shard, and the shard carries their SHA-256, so that a file that was changed or taken
away is noticed. The first runs have no such sum; their answers are read as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from foible.disk import ordinary
from foible.errors import UserError
from foible.findings import read_shard, shard_files
from foible.records import read_classes
from foible.runs.folder import RunFolder
from foible.runs.local import Shard
from foible.runs.spans import Span

FOLDER = "answers"
SUM = b"foible.answers_sha256"  # in the metadata of a unit's shard
SCHEMA = pa.schema(
    [
        pa.field("index", pa.int64()),  # place in the data
        pa.field("file", pa.string()),
        pa.field("label", pa.int32()),  # null where there is none
        pa.field("said", pa.list_(pa.int32())),  # by each network; -1 for no answer
        pa.field("confidence", pa.list_(pa.float32())),
        pa.field("given", pa.list_(pa.float32())),  # what each gives to the label; NaN where there is none
    ]
)


def with_answers(span: Span, told: pa.Table, found: pa.Table, unreadable: list[str]) -> Shard:
    """The findings of a unit, which carry the sum of its answers, with the answers and the unreadable files beside."""
    sink = pa.BufferOutputStream()
    pq.write_table(told, sink, compression="zstd", write_page_checksum=True)
    data = sink.getvalue().to_pybytes()
    rows = found.replace_schema_metadata({**found.schema.metadata, SUM: hashlib.sha256(data).hexdigest()})
    name = f"{FOLDER}/{span.name}"
    lines = {f"{name}.unreadable": "\n".join(unreadable).encode()} if unreadable else {}
    return Shard(rows, {f"{name}.parquet": data, **lines})


def answer_files(run: str | Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    """These columns of the answers of a comparison, unit by unit; what is missing, changed or not its own is named."""
    folder = RunFolder(run)
    networks = len(folder.config["settings"]["names"])
    shards = shard_files(run)
    own = {shard.name for shard in shards}
    for file in sorted((folder.path / FOLDER).glob("*.parquet")):
        if file.name not in own:
            raise UserError(f"{file} is of no unit that is finished: delete it")
    for shard in shards:
        file = folder.path / FOLDER / shard.name
        metadata = read_shard(shard, ("id",)).schema.metadata
        again = f"delete it and {shard}, and run the same comparison again"
        try:
            data = ordinary(file).read_bytes()
            if SUM in metadata and hashlib.sha256(data).hexdigest().encode() != metadata[SUM]:
                raise UserError(f"{file} is not what was written, by its SHA-256: {again}")
            # A run that was made before `given` was kept has none; of any other column that is damage.
            there = pq.read_schema(pa.BufferReader(data)).names
            wanted = [name for name in columns if name != "given" or name in there]
            table = pq.read_table(pa.BufferReader(data), columns=wanted, page_checksum_verification=True)
            table.validate(full=True)
            if len(wanted) < len(columns):
                nothing = pa.array([[float("nan")] * networks] * len(table), SCHEMA.field("given").type)
                table = table.append_column(SCHEMA.field("given"), nothing)
        except FileNotFoundError:
            raise UserError(f"{file} is missing: delete {shard} too, and run the same comparison again") from None
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise UserError(f"{file} cannot be read as Parquet ({error}): {again}") from error
        wrong = _wrong_with(table, columns, networks, len(read_classes(metadata, str(shard))))
        if wrong is not None:
            raise UserError(f"{file} is damaged or not ours: {wrong}; {again}")
        yield table


def read_answers(run: str | Path) -> Iterator[tuple[Tensor, Tensor]]:
    """(said (networks, n), labels (n,) with -1 for none) of every unit of a compare run."""
    width = len(RunFolder(run).config["settings"]["names"])
    for table in answer_files(run, ("label", "said")):
        said = table.column("said").combine_chunks()
        labels = table.column("label").fill_null(-1).to_numpy()
        yield torch.tensor(said.flatten().to_numpy()).view(-1, width).t().long(), torch.tensor(labels).long()


def _wrong_with(table: pa.Table, columns: Sequence[str], networks: int, classes: int) -> str | None:
    """What is wrong with a table of answers; None where nothing is."""
    ranges = {"index": (0, 2**53), "label": (0, classes - 1), "said": (-1, classes - 1)}
    for name in columns:
        if table.column_names.count(name) != 1 or table.schema.field(name).type != SCHEMA.field(name).type:
            return f"it has no column {name!r} of answers"
        column = table.column(name)
        if name in ("said", "confidence", "given"):
            if column.null_count or not _within(pc.list_value_length(column), networks, networks):
                return f"{name} has another number of networks than the {networks} there are"
            column = pc.list_flatten(column)
        if name not in ("label", "file") and column.null_count:
            return f"{name} has nothing in some rows"
        low, high = ranges.get(name, (0, 0))
        if name in ranges and not _within(column, low, high):
            return f"{name} has a number outside {low} to {high}"
    return None


def _within(column: pa.ChunkedArray, low: int, high: int) -> bool:
    ends = pc.min_max(column).as_py()
    return ends["min"] is None or bool(low <= ends["min"] <= ends["max"] <= high)
