"""A million file names in little more memory than their letters take."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]
CHUNK = 8192


class Lazy(Sequence[str]):
    """Text made when it is asked for. A slice is a list."""

    @abstractmethod
    def text(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self.text(k) for k in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"there is no name {place}: there are {len(self)}")
        return self.text(int(place) % len(self))

    def __iter__(self) -> Iterator[str]:
        return (self.text(k) for k in range(len(self)))


class Names(Lazy):
    """Names as the file system or an archive has them: bytes, which need not be text."""

    def __init__(self, raw: pa.Array) -> None:
        self._raw = raw

    @staticmethod
    def of(names: Iterable[bytes | str]) -> Names:
        """From an iterator, without holding all of them as Python objects."""
        parts, part = [], []
        for name in names:
            part.append(os.fsencode(name))
            if len(part) == CHUNK:
                parts.append(pa.array(part, pa.large_binary()))
                part = []
        return Names(pa.concat_arrays([*parts, pa.array(part, pa.large_binary())]))

    def __len__(self) -> int:
        return len(self._raw)

    def raw(self, place: int) -> bytes:
        value: bytes = self._raw[place].as_py()
        return value

    def text(self, place: int) -> str:
        # Bytes that are no UTF-8 are legal in a file name but can be written into no report or table.
        return self.raw(place).decode("utf-8", "backslashreplace")

    @staticmethod
    def joined(parts: Sequence[Names]) -> Names:
        return Names(pa.concat_arrays([part._raw for part in parts]))

    def take(self, rows: Rows) -> Names:
        return Names(self._raw.take(pa.array(rows)))

    def repeated(self) -> Rows:
        """Places of names that an earlier place has already."""
        codes = self._raw.dictionary_encode().indices.to_numpy()
        first = np.unique(codes, return_index=True)[1]
        return np.setdiff1d(np.arange(len(codes)), first)


class RowNames(Lazy):
    """`FILE row 7` for each of `rows`, counted on through `files` of `lengths` rows."""

    def __init__(self, files: Sequence[str], lengths: Sequence[int], rows: Rows) -> None:
        self._files = list(files)
        self._starts = np.cumsum([0, *lengths])
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def text(self, place: int) -> str:
        row = int(self._rows[place])
        file = int(np.searchsorted(self._starts, row, "right")) - 1
        return f"{self._files[file]} row {row - int(self._starts[file])}"
