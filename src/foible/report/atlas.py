"""The atlas of a hunt: which different mistakes each suspect makes, cell by cell, and the best example of each."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from foible.cells import MOVES, SIZES, UNKNOWN, Cell, bin_labels
from foible.findings.tally import cells_of, distinct
from foible.report import words
from foible.report.run import About

Place = tuple[int, int]  # part, row
GRID = 20  # classes on a side, at most; with more, the pairs stand in a list
TILES = 60  # pairs in that list, at most
KINDS = 15  # kinds of move, at most; the rarest others are drawn as one
OTHER = "others"
WIDTHS = (500, 1000)  # pixels that a map may take: two side by side, and one alone
SQUARES = (6, 12)  # pixels of the smallest and of the largest square
READABLE = 9  # pixels of a square that make it worth putting two maps side by side


@dataclass
class Best:
    """The best few of a long stream, by a number that may be missing. Of equals the first."""

    limit: int = 100
    kept: list[tuple[float, int, int]] = field(default_factory=list)  # a heap of value, -part, -row

    def add(self, places: Sequence[Place], values: Iterable[float | None]) -> None:
        for (part, row), value in zip(places, values, strict=True):
            if value is not None and value == value:
                heapq.heappush(self.kept, (value, -part, -row))
                if len(self.kept) > self.limit:
                    heapq.heappop(self.kept)

    def places(self, count: int) -> list[Place]:
        return [(-part, -row) for _, part, row in heapq.nlargest(count, self.kept)]


@dataclass
class Found:
    """What is in a cell."""

    count: int = 0
    score: float = -math.inf  # of the best; −inf where none is known
    place: Place = (0, 0)


_Pairs = dict[tuple[int, int], list[tuple[Cell, Found]]]


@dataclass
class Atlas:
    """The cells of one suspect."""

    cells: dict[Cell, Found] = field(default_factory=dict)
    sized: int = 0  # findings whose size is known in largest moves
    kinds: Counter[str] = field(default_factory=Counter)  # findings by kind

    def add(self, places: Sequence[Place], batch: pa.RecordBatch, own: bool) -> None:
        """Found rows, and where they stand. own: of the size that they were found with, not of the smallest change."""
        cells, which = cells_of(batch, own)
        scores = np.asarray(batch.column("score").to_numpy(zero_copy_only=False), np.float64)
        scores[np.isnan(scores)] = -np.inf  # not known, or not a number
        ranked = np.lexsort((-scores, which))  # cell by cell, the best of each first; of equals the first
        best = ranked[np.searchsorted(which[ranked], np.arange(len(cells)))]
        first, _ = distinct(which)
        self.sized += len(batch) - batch.column("size").null_count
        for cell, count, one, top in zip(cells, np.bincount(which).tolist(), first, best, strict=True):
            here = self.cells.setdefault(cell, Found(place=places[one]))
            here.count += count
            self.kinds[cell.kind] += count
            if scores[top] > here.score:
                here.score, here.place = float(scores[top]), places[top]

    @property
    def pairs(self) -> _Pairs:
        """Right class and answer, with the cells of each."""
        pairs: _Pairs = {}
        for cell, found in self.cells.items():
            pairs.setdefault((cell.right, cell.said), []).append((cell, found))
        return pairs

    def examples(self) -> list[list[Place]]:
        """The best of each pair of classes, and then the best of each further cell: what a gallery should not miss."""
        first, further = [], []
        for _, cells in sorted(self.pairs.items()):
            best, *rest = sorted(cells, key=lambda item: (-item[1].score, -item[1].count, item[0]))
            first.append(best[1].place)
            further += [(number, found.place) for number, (_, found) in enumerate(rest)]
        return [first, [place for _, place in sorted(further)]]


@dataclass(frozen=True)
class Square:
    """One cell as it is drawn."""

    column: int  # of its kind, from 1
    row: int  # of its size, from 1
    weight: int  # percent of colour
    title: str
    link: str  # to its best example, or to that of its pair; "" where none is on the page


def draw(suspects: dict[str, Atlas], about: About, shown: set[Place], by_score: bool) -> dict[str, Any] | None:
    """The maps of all suspects on common axes. shown: findings with a card to link to. by_score: what colour means."""
    known = {name: atlas for name, atlas in suspects.items() if atlas.cells}
    if not known:
        return None
    kinds = _kinds(known.values())
    sized = any(atlas.sized for atlas in known.values())
    labels = bin_labels(SIZES if sized else MOVES)
    axis = _axis(known.values(), about)
    side = _side(len(axis) if axis else 8, len(kinds), len(known))
    weigh = _scale([found for atlas in known.values() for found in atlas.cells.values()], by_score)
    maps = []
    for name, atlas in known.items():
        pairs = atlas.pairs

        def squares(pair: tuple[int, int], pairs: _Pairs = pairs) -> list[Square]:
            cells = pairs.get(pair, [])
            return [_square(cell, found, cells, kinds, labels, about, shown, weigh) for cell, found in cells]

        one: dict[str, Any] = {"name": name, **_coverage(atlas, about), "rows": [], "tiles": [], "left": 0}
        if axis is not None:
            one["rows"] = [(label(a, about), [(squares((a, b)), a == b) for b in axis]) for a in axis]
        else:
            ranked = sorted(pairs, key=lambda pair: (-len(pairs[pair]), -sum(f.count for _, f in pairs[pair]), pair))
            one["tiles"] = [(label(a, about), label(b, about), squares((a, b))) for a, b in ranked[:TILES]]
            one["left"] = len(ranked) - len(one["tiles"])
        maps.append(one)
    return {
        "maps": maps, "kinds": kinds, "sizes": labels, "sized": sized, "side": side, "by_score": by_score,
        "axis": None if axis is None else [label(a, about) for a in axis],
        "named": len(kinds) > 1,
    }  # fmt: skip


def label(number: int, about: About) -> str:
    return about.class_name(None if number < 0 else number)


def anchor(place: Place) -> str:
    """The name of a finding's card in the page."""
    return f"f-{place[0]}-{place[1]}"


def _side(columns: int, kinds: int, maps: int) -> int:
    """Pixels of a square."""
    half, whole = (min(SQUARES[1], int(width / columns - 4) // kinds) for width in WIDTHS)
    return half if maps > 1 and half >= READABLE else max(SQUARES[0], whole)


def _kinds(atlases: Iterable[Atlas]) -> list[str]:
    counts: Counter[str] = Counter()
    for atlas in atlases:
        counts.update(atlas.kinds)
    plain = [kind for kind, _ in counts.most_common() if kind != UNKNOWN]
    kept = plain[:KINDS] + ([OTHER] if len(plain) > KINDS else [])
    return kept + [UNKNOWN] * (UNKNOWN in counts)


def _axis(atlases: Iterable[Atlas], about: About) -> list[int] | None:
    """The classes of a square map; None where too many take part."""
    taking = {number for atlas in atlases for cell in atlas.cells for number in (cell.right, cell.said)}
    if len(about.classes) <= GRID and all(0 <= number < len(about.classes) for number in taking):
        return list(range(len(about.classes)))
    return sorted(taking) if len(taking) <= GRID else None


def _scale(found: list[Found], by_score: bool) -> Any:
    """From what is in a cell to percent of colour: 25 for the least, 100 for the most."""
    values = sorted(one.score if by_score else math.log(one.count) for one in found if not by_score or one.score > 0)
    top = values[int(0.98 * (len(values) - 1))] if values else 0.0

    def weigh(one: Found) -> int:
        value = max(0.0, one.score) if by_score else math.log(one.count)
        return round(25 + 75 * min(1.0, value / top)) if top > 0 else 60

    return weigh


def _square(
    cell: Cell, found: Found, pair: list[tuple[Cell, Found]], kinds: list[str], labels: list[str], about: About,
    shown: set[Place], weigh: Any,
) -> Square:  # fmt: skip
    kind = cell.kind if cell.kind in kinds else OTHER
    best = max((other for _, other in pair if other.place in shown), key=lambda other: other.score, default=None)
    target = found.place if found.place in shown else None if best is None else best.place
    what = "" if cell.kind == UNKNOWN else f"{cell.kind}, "
    score = f", best score {words.plus(found.score)}" if found.score > -math.inf else ""
    title = (
        f"{label(cell.right, about)} taken for {label(cell.said, about)}: {what}size {labels[cell.size]}, "
        f"{words.number(found.count)} found{score}"
    )
    link = "" if target is None else anchor(target)
    return Square(kinds.index(kind) + 1, cell.size + 1, weigh(found), title, link)


def _coverage(atlas: Atlas, about: About) -> dict[str, Any]:
    """How many different mistakes, and what they are made of."""
    total = sum(atlas.kinds.values())
    classes = len(about.classes)
    return {
        "cells": len(atlas.cells),
        "pairs": len(atlas.pairs),
        "possible": classes * (classes - 1),
        "found": total,
        "made_of": [(kind, count / total) for kind, count in atlas.kinds.most_common(4)]
        if len(atlas.kinds) > 1
        else [],
    }
