"""Which images a comparison shows, and each of them in words: broken, fixed, dissent, all against the label."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from foible.recipes.compare.against import OLD_TAG, TAG, score
from foible.report import words
from foible.report.atlas import Place
from foible.report.choose import rows_at
from foible.report.pictures import Picture, picture
from foible.report.run import About, OpenRun

TAGS = ("broken", "fixed", "dissent", TAG)
SIDE = 208  # pixels: larger images are shown at most this wide and high
_FIRST = ("suspect", "tags", "before", "networks", "truth", "versions", "origin_data", "origin_split")
_CARD = (
    "id", "suspect", "networks", "outcome", "tags", "truth", "before", "image",
    "origin_index", "origin_file",
)  # fmt: skip

Kind = tuple[str, str]  # a tag, and the suspect


@dataclass
class Examples:
    """What the first pass over the rows gathers: how many there are of each kind, and the surest of them."""

    limit: int
    against: Mapping[str, Any] | None = None  # of compare.json: how images with all networks against the label rank
    scores: dict[Place, float] = field(default_factory=dict)  # of those that have one
    about: About = field(default_factory=About)
    counts: Counter[Kind] = field(default_factory=Counter)
    best: dict[Kind, list[tuple[float, Place]]] = field(default_factory=dict)
    versions: set[str] = field(default_factory=set)
    sources: dict[str, None] = field(default_factory=dict)

    def add(self, part: int, table: pa.Table) -> None:
        self.about.add(table)
        self.versions.update(text for text in table.column("versions").unique().to_pylist() if text)
        pairs = table.select(["origin_data", "origin_split"]).group_by(["origin_data", "origin_split"]).aggregate([])
        for pair in pairs.to_pylist():
            if pair["origin_data"] is not None:
                split = f", {pair['origin_split']} split" if pair["origin_split"] else ""
                self.sources[f"{pair['origin_data']}{split}"] = None
        own, least = surest(table.column("before"))
        ranks = least if self.against is None else scores_of(table, self.against)
        suspects, tags = table.column("suspect").to_pylist(), table.column("tags").to_pylist()
        for row, (suspect, given) in enumerate(zip(suspects, tags, strict=True)):
            for tag in {TAG if tag == OLD_TAG else tag for tag in given or ()} & set(TAGS):
                kind = (tag, str(suspect))
                self.counts[kind] += 1
                score = ranks[row] if tag == TAG else own[row]
                if tag == TAG and self.against is not None:
                    self.scores[part, row] = float(score)
                kept = self.best.setdefault(kind, [])
                heapq.heappush(kept, (float(score), (-part, -row)))  # of equals, the first
                if len(kept) > self.limit:
                    heapq.heappop(kept)

    def places(self, kind: Kind, count: int) -> list[Place]:
        """Where the `count` surest of a kind stand, the surest first."""
        return [(-part, -row) for _, (part, row) in heapq.nlargest(count, self.best.get(kind, ()))]


def gather(source: OpenRun, limit: int, against: Mapping[str, Any] | None = None) -> Examples:
    """Read every row once, without its image. against: that part of compare.json, where there is one."""
    examples = Examples(limit, against)
    for part, table in enumerate(source.tables(_FIRST)):
        examples.add(part, table)
    return examples


def surest(before: pa.ChunkedArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each row's probabilities (networks, classes) the greatest of the first network, which is the suspect's, and
    the least of all networks' greatest. 0 where there is no number."""
    column = before.combine_chunks()
    own, least = np.zeros(len(column)), np.zeros(len(column))
    lines = column.flatten()
    flat = lines.flatten().to_numpy(zero_copy_only=False)
    ends = np.cumsum(lines.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    greatest = np.zeros(len(lines))
    full = np.flatnonzero(np.diff(ends, prepend=0))
    if len(full):
        starts = np.concatenate([[0], ends[:-1]])[full]
        greatest[full] = np.nan_to_num(np.fmax.reduceat(flat, starts), nan=0.0)
    last = np.cumsum(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    rows = np.flatnonzero(np.diff(last, prepend=0))
    if len(rows):
        starts = np.concatenate([[0], last[:-1]])[rows]
        own[rows], least[rows] = greatest[starts], np.minimum.reduceat(greatest, starts)
    return own, least


def scores_of(table: pa.Table, against: Mapping[str, Any]) -> NDArray[np.float64]:
    """(rows,) how telling it is that all networks disagree with the label; -inf of a row that is no such image."""
    found = np.full(len(table), -np.inf)
    known = {one["network"]: one for one in against["networks"]}
    classes = len(against["networks"][0]["thresholds"]) if known else 0
    # A row's networks begin with its suspect: of these rows it is always the same one, and so is their order.
    rows = [row for row, tags in enumerate(table.column("tags").to_pylist()) if {TAG, OLD_TAG} & set(tags or ())]
    some = table.select(["before", "networks", "truth"]).take(pa.array(rows, pa.int64()))
    order = some.column("networks")[0].as_py() if rows else []
    before = some.column("before").combine_chunks().flatten().flatten().to_numpy(zero_copy_only=False)
    if (
        sorted(order or ()) != sorted(known)
        or before.size != len(rows) * len(known) * classes
        or some["truth"].null_count
    ):
        return found
    chances = before.reshape(len(rows), len(known), classes).transpose(1, 0, 2).astype(np.float64)
    truth, said = some.column("truth").to_numpy(), chances[0].argmax(1)
    usual = np.array([known[name]["thresholds"] for name in order])
    each = np.arange(len(rows))
    worth = [known[name]["weight"] for name in order]
    values = score(chances[:, each, said], chances[:, each, truth], usual[:, said], usual[:, truth], worth)
    found[rows] = np.where(np.isfinite(values), values, -np.inf)
    return found


@dataclass(frozen=True)
class Answer:
    network: str
    said: str
    sure: str
    wrong: bool  # differs from the right class: the label, or what the others say
    right: bool


@dataclass(frozen=True)
class Card:
    """One image: where it is from, what it is, and what every network says of the file."""

    id: str
    place: str  # its file, or its number in the data
    right: str  # the label; without labels, what the others agree on
    key: int  # of the right class, -1 for none
    suspect: str
    said: str
    common: str  # what all networks say; "" where they differ
    answers: tuple[Answer, ...]
    unsettled: bool
    image: Picture | None
    score: str = ""  # where all networks disagree with the label


def card(row: dict[str, Any], about: About, order: list[str], score: float | None = None) -> Card:
    """A finding of a comparison, its networks in this order."""
    before = dict(zip(row["networks"] or (), row["before"] or (), strict=False))
    said = {network: _answer(line) for network, line in before.items()}
    own = said.get(row["suspect"], (None, None))[0]
    others = {label for network, (label, _) in said.items() if network != row["suspect"]}
    agreed = others.pop() if len(others) == 1 else None
    right = agreed if row["truth"] is None else row["truth"]
    common = own is not None and own == agreed
    answers = [
        Answer(
            network,
            "no answer" if said[network][0] is None else about.class_name(said[network][0]),
            words.probability(said[network][1]),
            wrong=right is not None and said[network][0] != right,
            right=right is not None and said[network][0] == right,
        )
        for network in sorted(said, key=lambda network: order.index(network) if network in order else len(order))
    ]
    return Card(
        id=str(row["id"]),
        place=f"image {row['origin_index']}" if row["origin_file"] is None else str(row["origin_file"]),
        right=about.class_name(right),
        key=-1 if right is None else right,
        suspect=str(row["suspect"]),
        said="no answer" if own is None else about.class_name(own),
        common=about.class_name(own) if common else "",
        answers=tuple(answers),
        unsettled=row["outcome"] == "unsettled",
        image=picture(row["image"], SIDE),
        score="" if score is None or not np.isfinite(score) else words.number(score, 1),
    )


def _answer(line: list[float | None] | None) -> tuple[int | None, float | None]:
    """The class of the greatest probability, and that; None where one of them is not a number."""
    values = [float("nan") if value is None else value for value in line or ()]
    if not values or any(value != value for value in values):
        return None, None
    best = max(values)
    return values.index(best), best


def cards(source: OpenRun, places: Iterable[Place], examples: Examples, order: list[str]) -> dict[Place, Card]:
    """The cards of these rows; a part of the run is read once."""
    wanted = sorted(set(places))
    return {
        place: card(row, examples.about, order, examples.scores.get(place))
        for place, row in zip(wanted, rows_at(source, wanted, _CARD), strict=True)
    }
