"""The encoded images in Parquet files, a few rows at a time, from any row on."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foible.data.contents import Pieces
from foible.data.photographs import Ints
from foible.data.tables import readable

BLOCK_BYTES = 16 << 20  # of a block of rows, about
MOST_ROWS = 1024
PIECE = 1 << 20  # bytes of a file that are taken for a piece of its contents
KEPT = 4  # blocks, so that threads that read neighbouring rows do not read them twice


class RowGroups:
    """Rows of a column of image bytes over several Parquet files, counted on from file to file.

    A block of rows is read at a time and the last few are kept, whoever asks. Reading on from where the last block
    ended is cheap; going back, or to another row group, starts at that row group's beginning. Memory is bounded by
    the blocks, not by the row groups.
    """

    def __init__(self, files: Sequence[tuple[Path, str]], lengths: Sequence[int], rows: Ints) -> None:
        """files: each a path and the name of its column. rows: which of all rows there are to be, in order."""
        self._files = tuple(files)
        self._starts = np.cumsum([0, *lengths])
        self._rows = rows
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._blocks: OrderedDict[tuple[int, int], pa.Array] = OrderedDict()  # (first row, end): the bytes
        self._cursor: tuple[int, Iterator[tuple[int, pa.Array]]] | None = None  # where it is, and what comes
        self._end = 0  # of the row group that the cursor is in

    def __getstate__(self) -> dict[str, Any]:
        return {"_files": self._files, "_starts": self._starts, "_rows": self._rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def fetch(self, row: int) -> bytes | None:
        wanted = int(self._rows[row])
        with self._lock:
            first, block = self._block(wanted)
        value: bytes | None = block[wanted - first].as_py()
        return value

    def pieces(self) -> Pieces:
        """The files themselves, cut up: a row's bytes cannot be had without reading its whole row group."""
        lengths = [path.stat().st_size for path, _ in self._files]
        cut = [(path, start, min(PIECE, length - start)) for (path, _), length in zip(self._files, lengths, strict=True)
               for start in range(0, length, PIECE)]  # fmt: skip
        return Pieces(np.array([size for *_, size in cut], np.int64), lambda place: cut[place][:2])

    def _block(self, row: int) -> tuple[int, pa.Array]:
        for (first, end), block in self._blocks.items():
            if first <= row < end:
                self._blocks.move_to_end((first, end))
                return first, block
        if self._cursor is None or not self._cursor[0] <= row < self._end:
            self._open(row)
        assert self._cursor is not None
        try:
            for first, block in self._cursor[1]:
                end = first + len(block)
                self._cursor = end, self._cursor[1]
                if row < end:
                    self._blocks[first, end] = block
                    if len(self._blocks) > KEPT:
                        self._blocks.popitem(last=False)
                    return first, block
        except BaseException:
            self._cursor = None
            raise
        raise ValueError(f"there is no row {row}")

    def _open(self, row: int) -> None:
        """Put the cursor at the beginning of the row group that holds `row`."""
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        path, column = self._files[number]
        with readable(path, "Parquet"):
            file = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
            ends = int(self._starts[number]) + np.cumsum(
                [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
            )
        group = int(np.searchsorted(ends, row, "right"))
        first = int(ends[group - 1]) if group else int(self._starts[number])
        self._end = int(ends[group])
        self._cursor = first, _walk(file, path, column, group, first)


def _walk(file: pq.ParquetFile, path: Path, column: str, group: int, first: int) -> Iterator[tuple[int, pa.Array]]:
    """(first row, bytes) of each block of one row group."""
    told = file.metadata.row_group(group)
    rows = max(1, min(MOST_ROWS, told.num_rows * BLOCK_BYTES // max(1, told.total_byte_size)))
    with readable(path, "Parquet"), file:
        for batch in file.iter_batches(rows, row_groups=[group], columns=[column], use_threads=False):
            block = batch.column(0)
            if pa.types.is_struct(block.type):
                block = pc.struct_field(block, "bytes")
            yield first, block
            first += len(block)
