"""A suite: images frozen from runs of any recipe, for a gate to judge again with every new version.

SUITE/suite.parquet   findings: images drawn before any network was asked, mistakes of some network, and anchors
SUITE/suite.json      what they are and who chose them, with the SHA-256 of the Parquet file
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foible.disk import ordinary, write_atomically
from foible.errors import UserError
from foible.findings import Findings, with_metadata
from foible.recipes.suite.choosing import (
    ANCHOR,
    DRAWN,
    Candidate,
    FrozenRun,
    candidates,
    is_by_place,
    nameless,
    open_source,
    order_of,
    place_digest,
    spread,
)
from foible.recipes.suite.rows import rows_of
from foible.records import COUNT, TEXT, check, read_json
from foible.runs.folder import RunFolder

VERSION = 1
TABLE, RECORD = "suite.parquet", "suite.json"
ADVICE = "restore it, or make the suite again"
SOURCE = {
    "hash": TEXT, "run": TEXT, "recipe": TEXT, "data": TEXT, "split": TEXT, "networks": {str: TEXT},
    "suspects?": [TEXT],
}  # fmt: skip
FORM = {
    "version": COUNT, "rows": COUNT, "classes": [TEXT], "tags": {str: COUNT}, "per_class": {str: COUNT},
    "chosen_by": [TEXT], "sources": [SOURCE], "sha256": TEXT, "replaces": (None, TEXT),
}  # of suite.json  # fmt: skip


@dataclass(frozen=True, eq=False)
class Suite:
    """A suite on disk, checked against its record."""

    path: Path
    findings: Findings
    record: dict[str, Any]
    sha256: str  # of the Parquet file

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The runs that its rows come from: hash, recipe, networks (name to fingerprint), …"""
        return list(self.record["sources"])


def open_suite(path: str | Path, *, unfinished: bool = False) -> Suite:
    """A suite, refused where its Parquet file is not the one that was frozen.

    unfinished: take the rows from before an update that was cut short.
    """
    folder = Path(path)
    try:
        record = read_json(folder / RECORD, ADVICE)
        data = ordinary(folder / TABLE).read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = Path(str(error.filename)).name
        raise UserError(
            f"{str(path)!r} is not a suite: it has no {missing}; make one with `foible suite RUN… --out SUITE`"
        ) from None
    except OSError as error:
        raise UserError(f"the suite {str(path)!r} cannot be read ({error}): {ADVICE}") from error
    if check(record, {"version": COUNT}, str(folder / RECORD), ADVICE)["version"] > VERSION:
        raise UserError(f"{folder / RECORD} was written by a newer Foible (version {record['version']})")
    _check_record(record, str(folder / RECORD))
    digest = hashlib.sha256(data).hexdigest()
    if digest != record["sha256"] and not (unfinished and digest == record.get("replaces")):
        if digest == record.get("replaces"):
            raise UserError(
                f"an update of the suite {str(path)!r} was cut short: run the same `foible suite … --add` again"
            )
        raise UserError(
            f"{folder / TABLE} is not the file that was frozen: its SHA-256 is {digest[:12]}…, {RECORD} says "
            f"{record['sha256'][:12]}…; restore both files, or make the suite again"
        )
    findings = Findings.open(folder / TABLE)
    if not len(findings):
        raise UserError(f"the suite {str(path)!r} is empty: make one of runs that found something")
    check(findings.configs, {str: {"recipe": TEXT, "data_sha256": TEXT}}, str(folder / TABLE), ADVICE)
    if tuple(record["classes"]) != findings.classes:
        raise UserError(f"{folder / RECORD} lists other classes than {TABLE}: {ADVICE}")
    sources = [source for source in record["sources"] if source.get("hash") in findings.configs]
    return Suite(folder, findings, {**record, "sources": sources}, digest)


def _check_record(record: dict[str, Any], where: str) -> None:
    """Every field of suite.json that something reads; where a run calls a network new, it is one of its networks."""
    check(record, FORM, where, ADVICE)
    for source in record["sources"]:
        if is_by_place(source) or "new" in source:
            named = check(source, {"old": TEXT, "new": TEXT}, where, ADVICE)
            if named["new"] not in source["networks"]:
                raise UserError(f"{where}: a run's new network is not one of its networks: {ADVICE}")


def make_suite(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    per_class: int = 20,
    most: int = 2000,
    add: bool = False,
    trust: bool = False,
) -> dict[str, Any]:
    """Freeze a suite from runs, or with `add` put what they have into an old one; its record, with `notes`.

    per_class: drawn images of each class, and anchors of each. most: rows of the whole suite. No row that is there is
    ever dropped.
    trust: read the images of a comparison from wherever its run says that they lie.
    """
    if per_class < 0 or most < 1:
        raise UserError(f"per-class is {per_class} and most is {most}: expected at least 0 and 1")
    sources = [open_source(run, trust) for run in runs]
    if not sources:
        raise UserError("no run is given: a suite is made of runs of `foible hunt`, `compare`, `distort` or `rank`")
    folder = Path(out)
    there = (folder / TABLE).exists()
    if there and not add:
        raise UserError(f"{str(out)!r} holds a suite already: add to it with --add, or give another --out")
    if add and not there:
        raise UserError(f"there is no suite at {str(out)!r} to add to: leave --add out to make one")
    with RunFolder(folder).lock():
        old = open_suite(folder, unfinished=True) if add else None
        classes = old.findings.classes if old else sources[0].classes
        for source in sources:
            order_of(source, classes)  # or an error that names what differs
        chosen = _choose(sources, old, classes, per_class, most)
        table, notes = rows_of(chosen, classes)
        for source in sources:
            if unknown := nameless(source):
                notes.append(f"{unknown} findings of {source.path.name} are passed over: nobody has said what they are")
        table = _fresh(table, old)
        if not old and not table.num_rows:
            raise UserError(
                f"nothing to freeze in {', '.join(str(run) for run in runs)}: no mistakes and no labelled images"
            )
        if old and not table.num_rows:
            notes.append("nothing was added: the suite has it already, or is as large as --most and --per-class allow")
            if old.sha256 == old.record["sha256"]:
                return {**old.record, "added": 0, "notes": notes}
        return {**_write(folder, table, sources, old, classes), "added": table.num_rows, "notes": notes}


def _choose(
    sources: Sequence[FrozenRun], old: Suite | None, classes: Sequence[str], per_class: int, most: int
) -> list[Candidate]:
    """Mistakes evenly over kinds, suspects and classes; drawn images and anchors evenly over classes, with half of the
    room for sure. A drawn image may be there as a mistake too: to leave it out would be to draw from easier ones."""
    seen = _digests(old.findings.table, drawn=False) | _places(old.findings, drawn=False) if old else set()
    was_drawn = _places(old.findings, drawn=True) if old else set()
    mistakes: list[Candidate] = []
    anchors: list[Candidate] = []
    drawn: list[Candidate] = []
    # In the order of their hashes, so that the order of the arguments decides nothing.
    found = [one for source in sorted(sources, key=lambda source: source.hash) for one in candidates(source)]
    for one in sorted(found, key=lambda one: one.anchor):
        before = was_drawn if one.drawn else seen
        if one.digest not in before:
            before.add(one.digest)
            (drawn if one.drawn else anchors if one.anchor else mistakes).append(one)
    room = max(0, most - (len(old.findings) if old else 0))
    kept = []
    for tag, some in ((DRAWN, drawn), (ANCHOR, anchors)):
        held = _by_class(old.findings, tag) if old else Counter()
        kept += spread(some, {name: per_class - held[name] for name in classes})
    kept = kept[: max(room // 2, room - len(mistakes))]
    return [*spread(mistakes)[: room - len(kept)], *kept]


def _drawn(table: pa.Table) -> list[bool]:
    """Which rows were drawn before any network was asked."""
    return [DRAWN in (tags or ()) for tags in table.column("tags").to_pylist()]


def _digests(table: pa.Table, drawn: bool) -> set[bytes]:
    """Of the images that were drawn, or of those that were not."""
    rows = zip(table.column("image"), _drawn(table), strict=True)
    return {hashlib.sha256(image.as_buffer()).digest() for image, was in rows if was == drawn}


def _places(findings: Findings, drawn: bool) -> set[bytes]:
    """Where a comparison's rows stand in their data: of those that were drawn, or of those that were not."""
    configs = findings.configs
    rows = zip(findings.column("config"), findings.column("origin_index"), _drawn(findings.table), strict=True)
    return {place_digest(configs[key], place) for key, place, was in rows if was == drawn and is_by_place(configs[key])}


def _fresh(table: pa.Table, old: Suite | None) -> pa.Table:
    """The new rows in the order of their ids, each image once, and once more if it was drawn."""
    seen = {was: _digests(old.findings.table, was) if old else set() for was in (False, True)}
    table = table.take(pc.sort_indices(table.column("id")))
    kept, drawn = [], _drawn(table)
    # Mistakes first: an image that somebody got wrong is no anchor.
    for row in sorted(range(table.num_rows), key=lambda row: table.column("outcome")[row].as_py() == "held"):
        digest = hashlib.sha256(table.column("image")[row].as_buffer()).digest()
        if digest not in seen[drawn[row]]:
            seen[drawn[row]].add(digest)
            kept.append(row)
    return table.take(pa.array(sorted(kept), pa.int64()))


def labels_of(findings: Findings) -> list[int]:
    """The right class of every row: the truth, or where there is none what all others agreed on."""
    return list(pc.coalesce(findings.table.column("truth"), findings.table.column("consensus")).to_pylist())


def _by_class(findings: Findings, tag: str) -> Counter[str]:
    """Rows with a tag by class."""
    rows = zip(labels_of(findings), findings.column("tags"), strict=True)
    return Counter(findings.classes[label] for label, tags in rows if tag in tags)


def _write(
    folder: Path, table: pa.Table, sources: Sequence[FrozenRun], old: Suite | None, classes: Sequence[str]
) -> dict[str, Any]:
    """Both files. The record goes first and names the file that it replaces, so that a cut in between can be mended."""
    used = set(table.column("config").to_pylist())
    configs = {source.hash: source.settings for source in sources if source.hash in used}
    added = Findings(with_metadata(table, classes, configs))
    findings = Findings.concat([old.findings, added] if old else [added])
    findings = Findings(findings.table.combine_chunks())  # the same rows are the same bytes, however they came together
    known = {source["hash"]: source for source in old.sources} if old else {}
    known.update({source.hash: source.to_json() for source in sources if source.hash in used})
    by_tag = Counter(tag for tags in findings.column("tags") for tag in tags)
    by_class = Counter(classes[label] for label in labels_of(findings))
    sink = pa.BufferOutputStream()
    pq.write_table(findings.table, sink, compression="zstd", write_page_checksum=True)
    data = sink.getvalue().to_pybytes()
    record = {
        "version": VERSION,
        "rows": len(findings),
        "classes": list(classes),
        "tags": dict(sorted(by_tag.items())),
        "per_class": {name: by_class[name] for name in classes},
        "chosen_by": sorted({name for source in known.values() for name in source["networks"]}),
        "sources": list(known.values()),
        "sha256": hashlib.sha256(data).hexdigest(),
        "replaces": old.sha256 if old else None,
    }
    write_atomically(folder / RECORD, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    write_atomically(folder / TABLE, data)
    return record
