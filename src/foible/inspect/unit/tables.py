"""What `foible inspect units` finds: rows of images, how alike they are, and the files that say so."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from foible.basket.matching import Matched
from foible.disk import write_with_folder
from foible.inspect.unit.coherence import Difference, Mean, coherence, compare, mean, purity
from foible.inspect.unit.features import PIXELS, Likeness
from foible.inspect.unit.top import Top

NATURAL, CHANCE = "natural", "chance"
MEASURES = ("purity", "coherence")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of images, one for each direction of a kind: "natural", a kind of random direction, or "chance" (images
    drawn at random).

    numbers: (r,) of the unit, or of the random direction. index: (r, m) positions in the data, most exciting first.
    scores: (r, m). alive: (r,) bool; a dead direction has the same value on all images. broken: images without one.
    purity, coherence: (r,) float64, NaN where not known.
    """

    kind: str
    numbers: Tensor
    index: Tensor
    scores: Tensor
    alive: Tensor
    broken: int
    purity: Tensor
    coherence: Tensor

    @staticmethod
    def of(kind: str, numbers: Tensor, top: Top) -> Rows:
        unknown = torch.full((len(numbers),), torch.nan, dtype=torch.float64)
        return Rows(kind, numbers, top.index, top.scores, top.alive, top.broken, unknown, unknown)

    def values(self, measure: str) -> list[float]:
        """A measure of the rows that are alive and where it is known."""
        found: Tensor = getattr(self, measure)
        return [float(value) for value in found[self.alive & found.isfinite()]]

    def first(self, count: int) -> list[int]:
        """Which rows to show: the first that are alive. Their order is random already."""
        return [int(row) for row in self.alive.nonzero()[:count, 0]]


@dataclass(frozen=True, eq=False)
class Units:
    """settings: how it was made. kinds: the rows of each. shown: pixels (channels, height, width) uint8 of the images
    in the rows to show, by position in the data. labels: (n,) of the data, -1 where there is none."""

    settings: dict[str, Any]
    kinds: dict[str, Rows]
    shown: dict[int, Tensor]
    labels: Tensor
    classes: tuple[str, ...]
    files: Sequence[str] | None
    means: dict[str, dict[str, Mean]]  # measure -> kind -> mean
    differences: list[dict[str, Any]]
    notes: list[str]

    @staticmethod
    def of(
        settings: dict[str, Any],
        rows: Sequence[Rows],
        matched: Matched,
        judge: Likeness,
        show: int,
        workers: int | None,
    ) -> Units:
        """Read the rows' images again, and measure how alike they are."""
        data = matched.data
        wanted = {place for one in rows for row in one.first(show) for place in one.index[row].tolist()}
        shown: dict[int, Tensor] = {}
        seen, features = [], []
        for index, found, pixels in judge.features(
            matched, torch.cat([r.index.flatten() for r in rows]).unique(), workers
        ):
            seen.append(index)
            features.append(found)
            shown |= {place: pixels[row] for row, place in enumerate(index.tolist()) if place in wanted}
        order, bank = torch.cat(seen), torch.cat(features)
        drawn = next(one for one in rows if one.kind == CHANCE)
        bank = bank - bank[torch.searchsorted(order, drawn.index.flatten().unique())].mean(0)
        measured = [
            replace(
                one,
                purity=purity(data.labels[one.index]),
                coherence=torch.cat([coherence(bank[torch.searchsorted(order, part)]) for part in one.index.split(64)]),
            )
            for one in rows
        ]
        kinds = {one.kind: one for one in measured}
        means = {m: {kind: mean(one.values(m)) for kind, one in kinds.items()} for m in MEASURES}
        return Units(
            settings, kinds, shown, data.labels, data.classes, data.files, means,
            _differences(kinds, settings["seed"]), _notes(kinds, judge),
        )  # fmt: skip

    def summary(self) -> dict[str, Any]:
        """As JSON: settings, means and differences with their intervals, and the rows that are shown."""
        return {
            "settings": self.settings,
            "rows": {kind: {"alive": int(one.alive.sum()), "dead": int((~one.alive).sum())}
                     for kind, one in self.kinds.items()},
            "means": {m: {kind: asdict(value) for kind, value in found.items()} for m, found in self.means.items()},
            "differences": self.differences,
            "shown": {kind: [self.row(kind, row) for row in one.first(self.settings["units"])]
                      for kind, one in self.kinds.items()},
            "notes": self.notes,
        }  # fmt: skip

    def row(self, kind: str, row: int) -> dict[str, Any]:
        """One row of images, with the data's own names."""
        rows = self.kinds[kind]
        index = rows.index[row].tolist()
        classes = [self.classes[label] if label >= 0 else None for label in self.labels[rows.index[row]].tolist()]
        return {
            "kind": kind,
            "direction": int(rows.numbers[row]),
            "alive": bool(rows.alive[row]),
            "purity": _known(rows.purity[row]),
            "coherence": _known(rows.coherence[row]),
            "index": index,
            "file": [None if self.files is None else self.files[place] for place in index],
            "label": classes,
            "score": [_known(score) for score in rows.scores[row]],
        }

    def write(self, out: Path, figures: Sequence[str] = ()) -> None:
        """`units.json`, the summary, and `rows.parquet`, every row of every kind."""
        text = json.dumps(self.summary() | {"figures": list(figures)}, indent=1, ensure_ascii=False, allow_nan=False)
        table = pa.Table.from_pylist([self.row(kind, row) for kind, one in self.kinds.items()
                                      for row in range(len(one.index))], SCHEMA)  # fmt: skip
        data = io.BytesIO()
        pq.write_table(table, data)
        write_with_folder(out / "rows.parquet", data.getvalue())
        write_with_folder(out / "units.json", (text + "\n").encode())


SCHEMA = pa.schema(
    [
        ("kind", pa.string()), ("direction", pa.int64()), ("alive", pa.bool_()), ("purity", pa.float64()),
        ("coherence", pa.float64()), ("index", pa.list_(pa.int64())), ("file", pa.list_(pa.string())),
        ("label", pa.list_(pa.string())), ("score", pa.list_(pa.float32())),
    ]
)  # fmt: skip


def _known(value: Tensor) -> float | None:
    return float(value) if bool(value.isfinite()) else None


def _differences(kinds: dict[str, Rows], seed: int) -> list[dict[str, Any]]:
    """Natural units against each kind of random direction, and all of them against images drawn at random."""
    others = [kind for kind in kinds if kind not in (NATURAL, CHANCE)]
    pairs = [(NATURAL, other) for other in others] + [(kind, CHANCE) for kind in (NATURAL, *others)]
    found = []
    for measure in MEASURES:
        for first, second in pairs:
            told: Difference = compare(kinds[first].values(measure), kinds[second].values(measure), seed)
            found.append({"measure": measure, "first": first, "second": second, **asdict(told)})
    return found


def _notes(kinds: dict[str, Rows], judge: Likeness) -> list[str]:
    notes = []
    if judge.name == PIXELS:
        notes.append("Coherence is of plain pixels: no held-out network was given (--judge).")
    for kind, rows in kinds.items():
        dead = int((~rows.alive).sum())
        if dead:
            notes.append(f"{dead} of {len(rows.alive)} {kind} directions have one value on all images: left out.")
        if rows.broken:
            notes.append(f"{rows.broken} images have NaN or infinity along a {kind} direction: never on top of it.")
    return notes
