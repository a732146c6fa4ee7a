"""The first pass over a run: counts per suspect, and which rows would make telling sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foible.atlas import is_atlas
from foible.progress import progress
from foible.report.atlas import Atlas, Best
from foible.report.sample import Floats, Sample
from foible.report.source import About, Source
from foible.summary import Lanes

COLUMNS = (
    "suspect", "networks", "outcome", "origin_data", "origin_split", "truth", "consensus", "said",
    "moves", "candidates", "forwards", "backwards", "trace", "change", "versions",
    "config", "lane", "label_from", "kinds", "size", "least_path", "score", "realism",
)  # fmt: skip
_ROWS = 8192  # at a time
_UNKNOWN = -1
_BEST = 4  # candidates to keep for each suspect and class


@dataclass
class Suspect:
    """What the trials against one network came to. The sums are over found rows."""

    name: str
    networks: tuple[str, ...] = ()
    trials: int = 0
    solved: int = 0  # trials with a find; an atlas may have several finds a trial
    found: int = 0
    exhausted: int = 0
    invalid: int = 0
    consensus: int = 0  # rows whose right class is the networks' consensus and no label
    moves: int = 0
    forwards: int = 0
    backwards: int = 0
    paper_forwards: int = 0  # candidates times networks: every candidate through every network
    confusion: Counter[tuple[int, int]] = field(default_factory=Counter)  # (right class, said), found rows
    changes: dict[str, Sample] = field(default_factory=dict)
    atlas: Atlas = field(default_factory=Atlas)
    realistic: Best = field(default_factory=Best)  # the most realistic findings

    @property
    def peers(self) -> int:
        return max(0, len(self.networks) - 1)


@dataclass(frozen=True)
class Candidate:
    """A found row that a session could show."""

    score: float  # greater is more telling
    part: int
    row: int


@dataclass
class Tally:
    about: About = field(default_factory=About)
    suspects: dict[str, Suspect] = field(default_factory=dict)
    candidates: dict[tuple[str, int], list[Candidate]] = field(default_factory=dict)  # by suspect and class
    networks: list[str] = field(default_factory=list)
    sources: Counter[str] = field(default_factory=Counter)  # data set and split of the origins
    versions: set[str] = field(default_factory=set)  # JSON
    origins: bool = False  # do any rows start from an image?

    @property
    def found(self) -> int:
        return sum(suspect.found for suspect in self.suspects.values())

    @property
    def trials(self) -> int:
        return sum(suspect.trials for suspect in self.suspects.values())

    @property
    def atlas(self) -> bool:
        """Whether the run looked for different mistakes: then a trial may have any number of findings."""
        return any(is_atlas(config) for config in (self.about.configs or {}).values())

    @property
    def consensus(self) -> int:
        """Trials whose right class is the networks' consensus, not a label."""
        return sum(suspect.consensus for suspect in self.suspects.values())


def tally(source: Source) -> Tally:
    """Read every row once, without its images."""
    result = Tally()
    with progress("Reading findings", len(source.parts), quiet=len(source.parts) < 50) as bar:
        for part, table in enumerate(source.tables(COLUMNS)):
            result.about.add(table)
            first = 0
            lanes = Lanes(), Lanes()  # all trials, and those with a find: all rows of a trial are in one part
            for batch in table.to_batches(max_chunksize=_ROWS):
                _add_batch(result, lanes, part, first, batch)
                first += batch.num_rows
            bar.advance()
    return result


def ints(column: pa.Array) -> NDArray[np.int64]:
    """Integers with nulls as -1."""
    return np.asarray(pc.fill_null(column.cast(pa.int64()), _UNKNOWN).to_numpy(zero_copy_only=False))


def groups(column: pa.Array) -> Iterator[tuple[Any, NDArray[np.int64]]]:
    """Each value of a column with the rows that have it."""
    encoded = pc.fill_null(column, "?").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    for code, value in enumerate(encoded.dictionary.to_pylist()):
        yield value, np.flatnonzero(codes == code)


def _add_batch(result: Tally, lanes: tuple[Lanes, Lanes], part: int, first: int, batch: pa.RecordBatch) -> None:
    result.versions.update(v for v in pc.unique(batch.column("versions")).to_pylist() if v)
    _add_sources(result, batch)
    joined = pc.binary_join(batch.column("networks"), "\x00")
    keys = pc.binary_join_element_wise(pc.fill_null(batch.column("suspect"), "?"), joined, "\x01")
    for _, rows in groups(keys):
        some = batch.take(pa.array(rows))
        name = some.column("suspect")[0].as_py() or "?"
        networks = tuple(some.column("networks")[0].as_py() or ())
        suspect = result.suspects.setdefault(name, Suspect(name, networks))
        result.networks.extend(network for network in networks if network not in result.networks)
        outcomes = dict(groups(some.column("outcome")))
        trials = list(zip(some.column("config").to_pylist(), some.column("lane").to_pylist(), strict=True))
        new = [lanes[0].first(name, *trial) for trial in trials]
        suspect.trials += sum(new)
        told = some.column("label_from").to_pylist()
        suspect.consensus += sum(one and whence == "consensus" for one, whence in zip(new, told, strict=True))
        suspect.exhausted += len(outcomes.get("exhausted", ()))
        suspect.invalid += len(outcomes.get("invalid", ()))
        if "found" in outcomes:
            where = outcomes["found"]
            suspect.solved += sum(lanes[1].first(name, *trials[row]) for row in where.tolist())
            _add_found(result, suspect, networks, part, first + rows[where], some.take(pa.array(where)))


def _add_sources(result: Tally, batch: pa.RecordBatch) -> None:
    """Count origins by data set and split; the two have few distinct values."""
    result.origins |= batch.column("origin_data").null_count < batch.num_rows
    pairs = pa.Table.from_batches([batch.select(["origin_data", "origin_split"])])
    for pair in pairs.group_by(["origin_data", "origin_split"]).aggregate([([], "count_all")]).to_pylist():
        if pair["origin_data"] is not None:
            split = f", {pair['origin_split']} split" if pair["origin_split"] else ""
            result.sources[f"{pair['origin_data']}{split}"] += pair["count_all"]


def _add_found(
    result: Tally,
    suspect: Suspect,
    networks: tuple[str, ...],
    part: int,
    rows: NDArray[np.int64],
    batch: pa.RecordBatch,
) -> None:
    truth, moves = ints(batch.column("truth")), ints(batch.column("moves"))
    right = np.where(truth == _UNKNOWN, ints(batch.column("consensus")), truth)
    suspect.found += len(rows)
    suspect.moves += int(moves.clip(0).sum())
    suspect.forwards += int(ints(batch.column("forwards")).clip(0).sum())
    suspect.backwards += int(ints(batch.column("backwards")).clip(0).sum())
    suspect.paper_forwards += len(networks) * int(ints(batch.column("candidates")).clip(0).sum())
    pairs, counts = np.unique(np.stack([right, ints(batch.column("said"))], 1), axis=0, return_counts=True)
    for (a, b), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        suspect.confusion[a, b] += count
    for key, values in change_values(batch.column("change")):
        suspect.changes.setdefault(key, Sample()).add(values)
    places = [(part, row) for row in rows.tolist()]
    suspect.atlas.add(places, batch, own=result.atlas)
    suspect.realistic.add(places, batch.column("realism").to_pylist())
    if suspect.name not in networks:
        return
    known, starts, ends = both_ends(batch.column("trace"), len(networks))
    own = networks.index(suspect.name)
    peers = np.delete(ends, own, axis=1)
    clear = (peers.min(1) if peers.shape[1] else 1.0) - ends[:, own]  # the mistake, and
    scores = clear + 0.5 * starts.min(1)  # how sure all were of the origin
    scores += (moves[known] >= 3) & (moves[known] <= 6)  # the length that reads best
    for score, row, label in zip(scores.tolist(), rows[known].tolist(), right[known].tolist(), strict=True):
        best = result.candidates.setdefault((suspect.name, label), [])
        if score == score and (len(best) < _BEST or best[-1].score < score):
            best.append(Candidate(score, part, row))
            best.sort(key=lambda candidate: -candidate.score)
            del best[_BEST:]


def change_values(column: pa.Array) -> Iterator[tuple[str, Floats]]:
    """Each component of a column of maps with its values."""
    offsets = column.offsets.to_numpy()
    low, high = int(offsets[0]), int(offsets[-1])
    keys, items = column.keys[low:high], column.items[low:high]
    values = np.asarray(items.to_numpy(zero_copy_only=False), np.float32)
    for key, where in groups(keys):
        yield str(key), values[where]


def both_ends(column: pa.Array, width: int) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Of a column of matrices, the rows whose matrix is not empty, and the first and last lines: (n, width)."""
    outer, inner = column.offsets.to_numpy(), column.values
    places = inner.offsets.to_numpy()
    flat = np.asarray(inner.values.to_numpy(zero_copy_only=False), np.float32)
    valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
    known = np.flatnonzero(valid & (outer[1:] > outer[:-1]))
    first, last = outer[:-1][known], outer[1:][known] - 1
    full = (places[first + 1] - places[first] == width) & (places[last + 1] - places[last] == width)
    lines = [flat[places[line[full]][:, None] + np.arange(width)] for line in (first, last)]
    return known[full], lines[0], lines[1]
