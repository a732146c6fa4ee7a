"""The first pass over a run: counts per suspect, and which rows would make telling sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foible.cells import is_atlas
from foible.findings.tally import COUNTED, Ints, Tally, codes, numbers, tally
from foible.findings.telling import BEST, telling
from foible.progress import progress
from foible.report.atlas import Atlas, Best
from foible.report.run import About, OpenRun
from foible.report.sample import Floats, Sample

COLUMNS = (
    *COUNTED, "origin_data", "origin_split", "truth", "consensus", "said", "trace", "change", "versions", "kinds",
    "size", "least_path", "score", "realism",
)  # fmt: skip
_ROWS = 8192  # at a time


@dataclass
class Suspect(Tally):
    """What the trials against one network came to, and what its mistakes look like. All of it is of found rows."""

    confusion: Counter[tuple[int, int]] = field(default_factory=Counter)  # (right class, said)
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
class Counts:
    """All suspects of a run, and what its rows say about themselves."""

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


_LAST: dict[tuple[tuple[str, int, int], ...], Counts] = {}  # a hunt's maps and its report need the same counts


def count(source: OpenRun) -> Counts:
    """Read every row once, without its images; not again for the run that was counted last. Nobody changes it."""
    files = [part for part in source.parts if isinstance(part, Path)]
    if not files or len(files) < len(source.parts):
        return _counted(source)
    key = tuple((str(file.resolve()), (of := file.stat()).st_size, of.st_mtime_ns) for file in files)
    if key not in _LAST:
        result = _counted(source)
        _LAST.clear()
        _LAST[key] = result
    return _LAST[key]


def _counted(source: OpenRun) -> Counts:
    result = Counts()
    with progress("Reading findings", len(source.parts), quiet=len(source.parts) < 50) as bar:
        for part, table in enumerate(source.tables(COLUMNS)):
            result.about.add(table)
            for counted, _ in tally(table, cells=False):  # of the atlas, which says where the best of each stands
                result.suspects.setdefault(counted.name, Suspect(counted.name, counted.networks)).add(counted)
            first = 0
            for batch in table.to_batches(max_chunksize=_ROWS):
                _add_batch(result, part, first, batch)
                first += batch.num_rows
            bar.advance()
    return result


def groups(column: pa.Array) -> Iterator[tuple[str, Ints]]:
    """Each value of a column with the rows that have it."""
    values, which = codes(column)
    for code, value in enumerate(values):
        yield value, np.flatnonzero(which == code)


def _add_batch(result: Counts, part: int, first: int, batch: pa.RecordBatch) -> None:
    result.versions.update(v for v in pc.unique(batch.column("versions")).to_pylist() if v)
    _add_sources(result, batch)
    joined = pc.binary_join(batch.column("networks"), "\x00")
    keys = pc.binary_join_element_wise(pc.fill_null(batch.column("suspect"), "?"), joined, "\x01")
    for _, rows in groups(keys):
        some = batch.take(pa.array(rows))
        networks = tuple(some.column("networks")[0].as_py() or ())
        result.networks.extend(network for network in networks if network not in result.networks)
        found = dict(groups(some.column("outcome"))).get("found")
        if found is not None:
            suspect = result.suspects[some.column("suspect")[0].as_py() or "?"]
            _add_found(result, suspect, networks, part, first + rows[found], some.take(pa.array(found)))


def _add_sources(result: Counts, batch: pa.RecordBatch) -> None:
    """Count origins by data set and split; the two have few distinct values."""
    result.origins |= batch.column("origin_data").null_count < batch.num_rows
    pairs = pa.Table.from_batches([batch.select(["origin_data", "origin_split"])])
    for pair in pairs.group_by(["origin_data", "origin_split"]).aggregate([([], "count_all")]).to_pylist():
        if pair["origin_data"] is not None:
            split = f", {pair['origin_split']} split" if pair["origin_split"] else ""
            result.sources[f"{pair['origin_data']}{split}"] += pair["count_all"]


def _add_found(
    result: Counts,
    suspect: Suspect,
    networks: tuple[str, ...],
    part: int,
    rows: Ints,
    batch: pa.RecordBatch,
) -> None:
    truth, moves = numbers(batch.column("truth")), numbers(batch.column("moves"))
    right = np.where(truth < 0, numbers(batch.column("consensus")), truth)
    pairs, times = np.unique(np.stack([right, numbers(batch.column("said"))], 1), axis=0, return_counts=True)
    for (a, b), many in zip(pairs.tolist(), times.tolist(), strict=True):
        suspect.confusion[a, b] += many
    for key, values in change_values(batch.column("change")):
        suspect.changes.setdefault(key, Sample()).add(values)
    places = [(part, row) for row in rows.tolist()]
    suspect.atlas.add(places, batch, own=result.atlas)
    suspect.realistic.add(places, batch.column("realism").to_pylist())
    if suspect.name not in networks:
        return
    known, starts, ends = both_ends(batch.column("trace"), len(networks))
    scores = telling(starts, ends, networks.index(suspect.name), moves[known])
    for score, row, label in zip(scores.tolist(), rows[known].tolist(), right[known].tolist(), strict=True):
        best = result.candidates.setdefault((suspect.name, label), [])
        if score == score and (len(best) < BEST or best[-1].score < score):
            best.append(Candidate(score, part, row))
            best.sort(key=lambda candidate: -candidate.score)
            del best[BEST:]


def change_values(column: pa.Array) -> Iterator[tuple[str, Floats]]:
    """Each component of a column of maps with its values."""
    offsets = column.offsets.to_numpy()
    low, high = int(offsets[0]), int(offsets[-1])
    keys, items = column.keys[low:high], column.items[low:high]
    values = np.asarray(items.to_numpy(zero_copy_only=False), np.float32)
    for key, where in groups(keys):
        yield str(key), values[where]


def both_ends(column: pa.Array, width: int) -> tuple[Ints, Floats, Floats]:
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
