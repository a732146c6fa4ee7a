"""Which findings a report shows: a gallery spread over suspects, and sessions that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foible.report.source import Source
from foible.report.tally import Candidate, Tally, groups

Place = tuple[int, int]  # part, row
Key = TypeVar("Key")


def shares(found: dict[Key, int], total: int) -> dict[Key, int]:
    """How many of each suspect's findings, or of each kind, to show: as equally as their numbers allow."""
    given, left = {}, total
    for position, (name, count) in enumerate(sorted(found.items(), key=lambda item: item[1])):
        given[name] = min(count, left // (len(found) - position))
        left -= given[name]
    return given


def gallery_places(source: Source, result: Tally, total: int) -> Iterator[Place]:
    """Rows for the gallery: of each suspect its share, evenly spaced among its findings."""
    found = {name: suspect.found for name, suspect in result.suspects.items() if suspect.found}
    given = shares(found, total)
    wanted = {
        name: ((np.arange(count) + 0.5) * found[name] / count).astype(np.int64)
        for name, count in given.items()
        if count
    }
    seen: Counter[str] = Counter()
    for part, table in enumerate(source.tables(("suspect", "outcome"))):
        rows = np.flatnonzero(pc.equal(table.column("outcome"), "found").to_numpy(zero_copy_only=False))
        names = table.column("suspect").take(pa.array(rows)).combine_chunks()
        chosen = []
        for name, where in groups(names):
            ordinals = seen[name] + np.arange(len(where))
            seen[name] += len(where)
            chosen.extend(rows[where[np.isin(ordinals, wanted.get(name, ()))]].tolist())
        yield from ((part, row) for row in sorted(chosen))


def session_places(result: Tally, total: int) -> list[Place]:
    """The most telling sessions: suspects take turns, and each takes a class that was shown least so far."""
    left: dict[str, list[tuple[int, Candidate]]] = {name: [] for name in result.suspects}
    for (name, label), candidates in result.candidates.items():
        left[name].extend((label, candidate) for candidate in candidates)
    used: Counter[int] = Counter()
    places: list[Place] = []
    while any(left.values()):
        for some in filter(None, left.values()):
            label, best = max(some, key=lambda item: (-used[item[0]], item[1].score))
            some.remove((label, best))
            used[label] += 1
            places.append((best.part, best.row))
            if len(places) >= total:
                return places[:total]
    return places


def rows_at(source: Source, places: Iterable[Place], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows at these places, in order; holds one part at a time as long as the places are in its order."""
    held: tuple[int, pa.Table] | None = None
    for part, row in places:
        if held is None or held[0] != part:
            held = (part, source.read(part, columns))
        yield held[1].slice(row, 1).to_pylist()[0]
