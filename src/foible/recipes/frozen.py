"""Which images of a run a suite keeps. Nothing is drawn at random: hashes decide.

Mistakes: what hunts found, what compares list as broken, fixed or dissent. Anchors: images that every network of the
run gets right. Runs are read shard by shard, here only to be counted and hashed; the chosen are read again.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foible.data.dataset import shown
from foible.errors import UserError
from foible.findings import read_shard, shard_files
from foible.runs import RunFolder

KEPT = ("broken", "fixed", "dissent")  # tags of a compare's rows that are mistakes; label errors and doubts are not
FLIPS = ("broken", "fixed")
HUNT, ANCHOR = "hunt", "anchor"  # tags that a suite gives
REMEMBERED = ("recipe", "data", "split", "networks", "old", "new", "suspects")  # settings of a run


@dataclass(frozen=True, eq=False)
class Source:
    """A run that rows are taken from."""

    path: Path
    hash: str
    settings: dict[str, Any]
    where: dict[str, Any]
    classes: tuple[str, ...]

    @property
    def is_hunt(self) -> bool:
        return bool(self.settings["recipe"] == "hunt")

    def to_json(self) -> dict[str, Any]:
        """What a suite remembers of it."""
        kept = {key: self.settings[key] for key in REMEMBERED if key in self.settings}
        return {"hash": self.hash, "run": self.path.resolve().name, **kept}


@dataclass(frozen=True, eq=False)
class Candidate:
    """An image that a suite may take. `digest` tells images apart and puts them in order: of a compare's images, some
    of which are not at hand, by their place in the data; of a hunt's by their pixels."""

    digest: bytes
    label: str  # class name
    stratum: tuple[str, ...]
    source: Source
    file: Path | None  # the shard that holds it; None for an anchor of a compare
    row: int  # in that shard; for an anchor of a compare the image's place in the data
    anchor: bool


def open_source(run: str | Path) -> Source:
    """A finished run of `hunt` or `compare`."""
    folder = RunFolder(run)
    config = folder.config
    settings = config["settings"]
    if settings.get("recipe") not in ("hunt", "compare"):
        raise UserError(f"{str(run)!r} is a run of {settings.get('recipe')!r}: a suite is made of hunts and compares")
    lacking = folder.missing(int(config.get("units", 0)))
    if lacking:
        raise UserError(f"the run {str(run)!r} lacks {len(lacking)} units: finish it first, with the command it began")
    metadata = read_shard(shard_files(run)[0], ["id"]).schema.metadata
    classes = tuple(json.loads(metadata[b"foible.classes"]))
    return Source(Path(run), str(config["hash"]), settings, config["where"], classes)


def candidates(source: Source) -> Iterator[Candidate]:
    """Everything that a suite may take from a run."""
    pictures = ["image", "origin"] if source.is_hunt else ["origin_index"]
    for file in shard_files(source.path):
        table = read_shard(file, ["outcome", "tags", "suspect", "truth", "consensus", *pictures])
        labels = pc.coalesce(table.column("truth"), table.column("consensus")).to_pylist()
        columns = (table.column(name).to_pylist() for name in ("outcome", "tags", "suspect"))
        for row, (label, outcome, tags, suspect) in enumerate(zip(labels, *columns, strict=True)):
            if label is None:  # nobody knows what would be right
                continue
            name = source.classes[label]
            kinds = [HUNT] if source.is_hunt else [tag for tag in tags or [] if tag in KEPT]
            if outcome == "found" and kinds:
                stratum = (kinds[0], suspect, name)
                if source.is_hunt:
                    digest = _hash(table, "image", row)
                else:
                    digest = place_digest(source.settings, table.column("origin_index")[row].as_py())
                yield Candidate(digest, name, stratum, source, file, row, False)
            if source.is_hunt:  # a hunt starts from images that are right under all its networks
                yield Candidate(_hash(table, "origin", row), name, (name,), source, file, row, True)
    if not source.is_hunt:
        for place, label in _right_under_all(source.path):
            name = source.classes[label]
            yield Candidate(place_digest(source.settings, place), name, (name,), source, None, place, True)


def place_digest(settings: Mapping[str, Any], place: int) -> bytes:
    """What tells an image of a compare apart: its data and its place there."""
    return hashlib.sha256(f"{settings['data_sha256']} {place}".encode()).digest()


def _hash(table: pa.Table, column: str, row: int) -> bytes:
    return hashlib.sha256(table.column(column)[row].as_buffer()).digest()


def answer_files(run: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The answers of a compare, file by file."""
    for file in sorted((run / "answers").glob("unit-*.parquet")):
        try:
            yield pq.read_table(file, columns=list(columns), partitioning=None)
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{file} cannot be read as Parquet ({error}): make the comparison again") from error


def _right_under_all(run: Path) -> Iterator[tuple[int, int]]:
    """(place in the data, label) of the images that every network got right."""
    for table in answer_files(run, ("index", "label", "said")):
        labels = table.column("label").fill_null(-1).to_numpy()
        if len(labels):
            said = table.column("said").combine_chunks().flatten().to_numpy().reshape(len(labels), -1)
            right = np.flatnonzero((said == labels[:, None]).all(1) & (labels >= 0))
            yield from zip(table.column("index").to_numpy()[right].tolist(), labels[right].tolist(), strict=True)


def spread(given: Iterable[Candidate], most: Mapping[str, int] | None = None) -> list[Candidate]:
    """All in turn: the first of each stratum, then the second of each, …; at most so many of a class's, if `most`."""
    strata: dict[tuple[str, ...], list[Candidate]] = defaultdict(list)
    for one in given:
        strata[one.stratum].append(one)
    ranked = [
        (rank, one.digest, one)
        for members in strata.values()
        for rank, one in enumerate(sorted(members, key=lambda one: one.digest))
        if most is None or rank < most[one.label]
    ]
    return [one for _, _, one in sorted(ranked, key=lambda item: item[:2])]


def balanced(
    mistakes: Sequence[Candidate], taken: Mapping[tuple[str, str, str], int], surplus: Mapping[str, int]
) -> list[Candidate]:
    """The mistakes, but of a compare's flips in each class no more than `surplus` more broken than fixed, or fixed than
    broken. `taken` counts what the suite has already, by (run's hash, class, kind).

    Any network, retrained, loses some images that it was picked for getting right, and gains some that it was picked
    for getting wrong. A suite that is mostly of one kind would call that a regression, or hide one.
    """
    flips: dict[tuple[str, str, str], list[Candidate]] = defaultdict(list)
    kept = []
    for one in mistakes:
        if one.stratum[0] in FLIPS:
            flips[one.source.hash, one.label, one.stratum[0]].append(one)
        else:
            kept.append(one)
    for run, label in sorted({key[:2] for key in flips}):
        had = {kind: taken.get((run, label, kind), 0) for kind in FLIPS}
        least = min(had[kind] + len(flips[run, label, kind]) for kind in FLIPS)
        for kind in FLIPS:
            kept += spread(flips[run, label, kind])[: max(0, least + surplus[label] - had[kind])]
    return kept


def order_of(source: Source, classes: Sequence[str]) -> list[int]:
    """For each class of the run its place among the suite's: they meet by name, and must be the same."""
    if set(source.classes) != set(classes):
        differ = ", ".join(shown(name) for name in sorted(set(source.classes) ^ set(classes))[:6])
        raise UserError(
            f"the run {str(source.path)!r} has other classes than the suite; only one of them knows {differ}: give "
            "runs of one task, or make two suites"
        )
    position = {name: place for place, name in enumerate(classes)}
    return [position[name] for name in source.classes]
