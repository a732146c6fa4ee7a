"""Cells of an atlas: right class × what the suspect said × kind of move × size of move.

One definition for the search that fills them and for the report that draws them. Nothing heavy is imported here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

SIZES = (1.0, 2.0, 4.0)  # between bins of size, in largest moves
MOVES = (4.0, 16.0, 64.0)  # the same for a space that is no box: a number of moves
UNKNOWN = "any"  # the kind where nothing says it


def size_bin(size: float, edges: Sequence[float] = SIZES) -> int:
    """Which bin a size falls into: 0 for below the first edge, len(edges) for the last edge and beyond."""
    return bisect_right(edges, size)


def bin_labels(edges: Sequence[float] = SIZES) -> list[str]:
    """The bins in words: <1, 1–2, 2–4, ≥4."""
    inner = [f"{low:g}–{high:g}" for low, high in pairwise(edges)]
    return [f"<{edges[0]:g}", *inner, f"≥{edges[-1]:g}"]


def kind_of(kinds: Sequence[str] | None) -> str:
    """The kind that a change is mostly made of: findings list the kinds of a change with the largest first."""
    return kinds[0] if kinds else UNKNOWN


class Cell(NamedTuple):
    """Where a finding stands; -1 for a class that nobody knows."""

    right: int
    said: int
    kind: str
    size: int  # the bin


COLUMNS = ("truth", "consensus", "said", "kinds", "size", "least_path", "moves")  # what `cell_of` reads


def is_atlas(settings: Mapping[str, Any]) -> bool:
    """Whether these settings of a run are of a search for different mistakes."""
    return str(settings.get("search") or "").partition("?")[0] == "map-elites"


def cell_of(row: Mapping[str, Any], own: bool = False) -> Cell:
    """The cell of a finding, from its columns: of its smallest change where that is known.

    own: of the size that it was found with, which an atlas keeps apart on purpose.
    """
    right = row["consensus"] if row["truth"] is None else row["truth"]
    size, moves = (row["size"], row["moves"] or 0) if own else size_of(row)
    place = size_bin(moves, MOVES) if size is None else size_bin(size)
    return Cell(
        -1 if right is None else right, -1 if row["said"] is None else row["said"], kind_of(row["kinds"]), place
    )


def size_of(row: Mapping[str, Any]) -> tuple[float | None, int]:
    """Of a finding's smallest change, or else of the whole: its size in largest moves (None where the space is no box),
    and how many moves it takes."""
    least = row["least_path"]
    moves = len(least) if least is not None else row["moves"] or 0
    size = row["size"]
    if size is not None and least is not None and len(least) == 1:
        size = math.sqrt(sum((2 * draw - 1) ** 2 for draw in least[0]))
    return size, moves
