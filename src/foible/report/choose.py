"""Which findings a report shows: a gallery spread over suspects, and sessions that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foible.report.atlas import Place
from foible.report.counts import Candidate, Counts, Suspect, groups
from foible.report.run import OpenRun

Key = TypeVar("Key")


def shares(found: dict[Key, int], total: int) -> dict[Key, int]:
    """How many of each suspect's findings, or of each kind, to show: as equally as their numbers allow."""
    given, left = {}, total
    for position, (name, count) in enumerate(sorted(found.items(), key=lambda item: item[1])):
        given[name] = min(count, left // (len(found) - position))
        left -= given[name]
    return given


def gallery_places(source: OpenRun, result: Counts, total: int) -> Iterator[tuple[Place, int]]:
    """Rows for the gallery, each with its rank: 0 the best of a pair of classes, 1 of a cell of the atlas, 2 the most
    realistic, 3 the rest. Each suspect has its share, and the rest is evenly spaced among its findings."""
    found = {name: suspect.found for name, suspect in result.suspects.items() if suspect.found}
    given = shares(found, total)
    chosen = {name: _special(result.suspects[name], given[name]) for name in found}
    wanted = {}
    for name, special in chosen.items():
        left = given[name] - len(special)
        wanted[name] = ((np.arange(left) + 0.5) * (found[name] - len(special)) / max(1, left)).astype(np.int64)
    seen: Counter[str] = Counter()
    for part, table in enumerate(source.tables(("suspect", "outcome"))):
        rows = np.flatnonzero(pc.equal(table.column("outcome"), "found").to_numpy(zero_copy_only=False))
        names = table.column("suspect").take(pa.array(rows)).combine_chunks()
        some: dict[int, int] = {}
        for name, where in groups(names):
            special = chosen.get(name, {})
            mine = {row: special[part, row] for row in rows[where].tolist() if (part, row) in special}
            others = np.setdiff1d(rows[where], list(mine))
            ordinals = seen[name] + np.arange(len(others))
            seen[name] += len(others)
            some |= mine | dict.fromkeys(others[np.isin(ordinals, wanted.get(name, ()))].tolist(), 3)
        yield from (((part, row), some[row]) for row in sorted(some))


def _special(suspect: Suspect, share: int) -> dict[Place, int]:
    """The findings that a suspect's share of the gallery should not miss, with their rank. Half of the share, or more
    where there is one for each finding anyway, shows different mistakes; a tenth shows the most realistic."""
    if share >= suspect.found:
        share *= 2
    special: dict[Place, int] = {}
    for rank, places in enumerate(suspect.atlas.examples()):
        room = max(0, share // 2 - len(special))
        spread = fewer([0] * len(places), room) if rank == 0 else range(min(room, len(places)))
        special |= {places[number]: rank for number in spread}
    for place in suspect.realistic.places(share // 10):
        special.setdefault(place, 2)
    return special


def fewer(ranks: Sequence[int], count: int) -> list[int]:
    """Which `count` of some rows to keep, in order: of the best ranks all, of the last that fits an even spread."""
    if count >= len(ranks):
        return list(range(len(ranks)))
    kept: list[int] = []
    for rank in sorted(set(ranks)):
        these = [place for place, own in enumerate(ranks) if own == rank]
        room = min(count - len(kept), len(these))
        kept += [these[number * len(these) // room] for number in range(room)]
    return sorted(kept)


def session_places(result: Counts, total: int) -> list[Place]:
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


def rows_at(source: OpenRun, places: Iterable[Place], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows at these places, in order; holds one part at a time as long as the places are in its order."""
    for part, some in groupby(places, key=lambda place: place[0]):
        yield from source.read(part, columns).take([row for _, row in some]).to_pylist()
