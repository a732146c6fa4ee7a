"""What files hold, as one hash: all of it where that is quick, else a sample that is the same every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
WHOLE = 256 << 20  # bytes that are read from end to end
MANY = 20_000  # pieces, likewise: to open a file takes longer than to read a small one
SAMPLE = 256  # pieces of anything larger
EDGE = 64 << 10  # bytes from the beginning and from the end of each piece of a sample


@dataclass(frozen=True, eq=False)
class Pieces:
    """Parts of files: how many bytes each has, and `at(place)`: its file, and the byte that it begins at."""

    sizes: Ints
    at: Callable[[int], tuple[Path | bytes, int]]


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def add_contents(digest: Digest, pieces: Pieces) -> None:
    """Add what the pieces hold: everything up to `WHOLE` bytes in `MANY` pieces; beyond that the two edges of `SAMPLE`
    pieces, evenly spread over all of them, so that a million photographs take seconds. A change elsewhere is not seen.
    """
    count = len(pieces.sizes)
    whole = count <= MANY and int(pieces.sizes.sum()) <= WHOLE
    few = min(count, SAMPLE)
    places = np.arange(count) if whole else np.arange(few) * (count - 1) // max(1, few - 1)
    for place in places.tolist():
        (path, offset), size = pieces.at(place), int(pieces.sizes[place])
        parts = [(0, size)] if whole or size <= 2 * EDGE else [(0, EDGE), (size - EDGE, EDGE)]
        try:
            with open(path, "rb") as file:  # noqa: PTH123 (a name may be bytes)
                for start, length in parts:
                    file.seek(offset + start)
                    digest.update(file.read(length))
        except OSError:  # it will be said when the image is read
            digest.update(b"cannot be read")
