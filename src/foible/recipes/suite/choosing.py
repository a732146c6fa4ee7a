"""Which images of a run a suite keeps. Nothing is drawn at random: hashes decide.

Mistakes: what a run found, if somebody has said what it is; of a comparison, what is broken, fixed or dissent. Drawn:
images of a comparison's data, so many of each class, taken by a hash of their place and not by what any network says of
them. Anchors, of other runs: seed images that every network of the run gets right. A recipe's `frozen` says how its
rows are told apart. Runs are read shard by shard, here only to be counted and hashed; the chosen are read again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foible.errors import UserError
from foible.findings import read_shard, shard_files
from foible.findings.labels import labels_of
from foible.recipes.compare.answers import answer_files
from foible.records import TEXT, check, read_classes
from foible.runs.folder import RunFolder
from foible.runs.recipe import recipe_of
from foible.runs.told import counted
from foible.text import shown

KEPT = ("broken", "fixed", "dissent")  # tags of rows that are mistakes; where all disagree with the label is none
ANCHOR, DRAWN = "anchor", "drawn"  # tags that a suite gives
TO_LABEL = "to-label"  # the tag of a row whose label people are to give
REMEMBERED = ("recipe", "data", "split", "networks", "old", "new", "suspects")  # settings of a run


@dataclass(frozen=True, eq=False)
class FrozenRun:
    """A run that rows are taken from."""

    path: Path
    hash: str
    settings: dict[str, Any]
    where: dict[str, Any]
    classes: tuple[str, ...]
    trust: bool = False  # read its data wherever it lies

    @property
    def by_place(self) -> bool:
        """Whether its rows are told apart by where they stand in the data, not by their pixels."""
        return is_by_place(self.settings)

    def kinds(self, tags: Sequence[str] | None) -> list[str]:
        """The tags of a mistake in a suite: those of its row that say what kind it is; else the recipe's name, unless
        the recipe lists other rows too."""
        kept = [tag for tag in tags or () if tag in KEPT]
        return kept or ([] if self.by_place else [str(self.settings["recipe"]).rpartition(":")[2]])

    def to_json(self) -> dict[str, Any]:
        """What a suite remembers of it."""
        kept = {key: self.settings[key] for key in REMEMBERED if key in self.settings}
        return {"hash": self.hash, "run": self.path.resolve().name, **kept}


@dataclass(frozen=True, eq=False)
class Candidate:
    """An image that a suite may take. `digest` tells images apart and puts them in order: by their pixels, or by their
    place in the data where some of them are not at hand (a comparison's)."""

    digest: bytes
    label: str  # class name
    stratum: tuple[str, ...]
    source: FrozenRun
    file: Path | None  # the shard that holds it; None for a drawn image
    row: int  # in that shard; for a drawn image its place in the data
    anchor: bool = False

    @property
    def drawn(self) -> bool:
        return self.file is None


def open_source(run: str | Path, trust: bool = False) -> FrozenRun:
    """A finished run."""
    folder = RunFolder(run)
    config = folder.config
    settings = config["settings"]
    recipe = recipe_of(settings)
    if recipe is not None and not recipe.frozen:
        raise UserError(f"{str(run)!r} is a run of {recipe.name}, which finds no images to freeze")
    if settings.get("layer") is not None:
        raise UserError(f"the run {str(run)!r} distorts a layer, and its images are as they were: nothing to freeze")
    lacking = sum(span.size for span in folder.missing())
    if lacking:
        what = counted(settings) if "lanes" in config else "units"
        raise UserError(
            f"the run {str(run)!r} lacks {lacking} of {sum(folder.lanes)} {what}: finish it first, with the command it "
            "began"
        )
    first = shard_files(run)[0]
    classes = read_classes(read_shard(first, ["id"]).schema.metadata, str(first))
    check(list(classes), [TEXT], f"{first}: foible.classes")
    return FrozenRun(Path(run), config["hash"], settings, config["where"], classes, trust)


def is_by_place(settings: Mapping[str, Any]) -> bool:
    recipe = recipe_of(settings)
    return recipe is not None and recipe.frozen == "places"


def candidates(source: FrozenRun) -> Iterator[Candidate]:
    """Everything that a suite may take from a run."""
    pictures = (
        ["origin_index"] if source.by_place else ["image", "origin", "origin_index", "said", "networks", "before"]
    )
    dropped = labels_of(source.path).dropped
    for file in shard_files(source.path):
        table = read_shard(file, ["id", "outcome", "tags", "suspect", "truth", "consensus", *pictures])
        labels = known_labels(table).to_pylist()
        columns = (table.column(name).to_pylist() for name in ("outcome", "tags", "suspect", "id"))
        unanimous = [] if source.by_place else _unanimous(table)
        for row, (label, outcome, tags, suspect, id) in enumerate(zip(labels, *columns, strict=True)):
            if label is None:  # nobody knows what would be right
                continue
            name, kinds = source.classes[label], source.kinds(tags)
            if outcome == "found" and kinds and id not in dropped:
                digest = _mistake_digest(source, table, row, label, kinds)
                if digest is not None:
                    yield Candidate(digest, name, (kinds[0], suspect, name), source, file, row)
            if not source.by_place and unanimous[row] == label:
                yield Candidate(_hash(table, "origin", row), name, (name,), source, file, row, True)
    if source.by_place:
        for place, label in _labelled(source.path):
            name = source.classes[label]
            yield Candidate(place_digest(source.settings, place), name, (name,), source, None, place)


def known_labels(table: pa.Table) -> Any:
    """What each row's image is: the truth, or what the others agree on; null where people are to say it."""
    asked = pa.array([TO_LABEL in (tags or ()) for tags in table.column("tags").to_pylist()], pa.bool_())
    agreed = pc.if_else(asked, pa.scalar(None, pa.int32()), table.column("consensus"))
    return pc.coalesce(table.column("truth"), agreed)


def nameless(source: FrozenRun) -> int:
    """How many findings a suite passes over because nobody has said what they are."""
    count = 0
    for file in shard_files(source.path):
        table = read_shard(file, ["outcome", "tags", "truth", "consensus"])
        found = pc.equal(table.column("outcome"), "found")
        count += pc.sum(pc.and_(found, pc.is_null(known_labels(table)))).as_py() or 0
    return count


def _mistake_digest(source: FrozenRun, table: pa.Table, row: int, label: int, kinds: Sequence[str]) -> bytes | None:
    """What tells a found image apart; None where there is none, or where it is what its suspect says it is."""
    if source.by_place:
        return place_digest(source.settings, table.column("origin_index")[row].as_py())
    right = table.column("said")[row].as_py() == label and kinds[0] not in KEPT
    return None if right or not table.column("image")[row].is_valid else _hash(table, "image", row)


def _unanimous(table: pa.Table) -> list[int]:
    """The class that all networks gave each row's seed image; -1 where they differ, or there is no such image."""
    said = []
    for chunk in table.column("before").chunks:
        lines = chunk.flatten()  # one a row and network
        chances = lines.flatten().to_numpy(zero_copy_only=False).reshape(len(lines), -1)
        answers = np.where(np.isfinite(chances).all(1), chances.argmax(1), -1)
        first = np.cumsum(chunk.value_lengths().to_numpy()) - chunk.value_lengths().to_numpy()
        low, high = np.minimum.reduceat(answers, first), np.maximum.reduceat(answers, first)
        said.append(np.where(low == high, low, -1))
    there = pc.and_(table.column("origin").is_valid(), table.column("origin_index").is_valid()).to_numpy()
    return list(np.where(there, np.concatenate(said), -1).tolist()) if said else []


def place_digest(settings: Mapping[str, Any], place: int) -> bytes:
    """What tells an image of a comparison apart: its data and its place there."""
    return hashlib.sha256(f"{settings['data_sha256']} {place}".encode()).digest()


def _hash(table: pa.Table, column: str, row: int) -> bytes:
    return hashlib.sha256(table.column(column)[row].as_buffer()).digest()


def _labelled(run: Path) -> Iterator[tuple[int, int]]:
    """(place in the data, label) of all images that have one, whatever the networks said of them."""
    for table in answer_files(run, ("index", "label")):
        known = table.filter(table.column("label").is_valid())
        yield from zip(known.column("index").to_pylist(), known.column("label").to_pylist(), strict=True)


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


def order_of(source: FrozenRun, classes: Sequence[str]) -> list[int]:
    """For each class of the run its place among the suite's: they meet by name, and must be the same."""
    if set(source.classes) != set(classes):
        differ = ", ".join(shown(name) for name in sorted(set(source.classes) ^ set(classes))[:6])
        raise UserError(
            f"the run {str(source.path)!r} has other classes than the suite; only one of them knows {differ}: give "
            "runs of one task, or make two suites"
        )
    position = {name: place for place, name in enumerate(classes)}
    return [position[name] for name in source.classes]
