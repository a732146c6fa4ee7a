"""What people said of a run's findings: kept beside its shards, where `foible import` put it."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from foible.errors import UserError
from foible.findings.table import Findings
from foible.records import TEXT, check, read_json

LABELS = "labels.json"
_FORM = {
    "labels": {str: TEXT}, "holds": [TEXT], "fails": [TEXT], "dropped": [TEXT], "people?": {str: {str: TEXT}},
    "images?": {str: TEXT},
}  # fmt: skip


@dataclass(frozen=True)
class Labels:
    """labels: finding to class name, by people. holds, fails: which of them are findings that people agree with, and
    which are not. dropped: those that are passed over. people: what each of them said, by a number that is theirs in
    this run, where Studio knows it. images: the SHA-256 of each image that they were shown, as the run keeps it."""

    labels: dict[str, str] = field(default_factory=dict)
    holds: frozenset[str] = frozenset()
    fails: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    people: dict[str, dict[str, str]] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, int]:
        """How many there are of each, for a summary."""
        return {"labelled": len(self.labels), "hold": len(self.holds), "fail": len(self.fails),
                "dropped": len(self.dropped)}  # fmt: skip

    @property
    def words(self) -> str:
        """The same in a sentence; "" where nobody has labelled anything."""
        looked = max(len(self.labels), len({id for said in self.people.values() for id in said}))
        if not looked:
            return ""
        most = f"; of {len(self.labels):,} most of them chose one class" if looked > len(self.labels) else ""
        gone = f"; {len(self.dropped):,} dropped" if self.dropped else ""
        judged = f": {len(self.holds):,} findings hold, {len(self.fails):,} do not{gone}"
        images = "1 image of this run was" if looked == 1 else f"{looked:,} images of this run were"
        return f"{images} labelled by people{most}{judged if self.judged else ''}."

    @property
    def judged(self) -> bool:
        """Whether any of them is of a mistake, which can hold or not."""
        return bool(self.holds or self.fails)


def labels_of(run: str | PathLike[str] | Findings) -> Labels:
    """The labels that were imported into a run; none where there are none, or where the file is not ours."""
    try:
        kept = check(read_json(Path(run) / LABELS, ""), _FORM, LABELS)  # type: ignore[arg-type]
    except (OSError, TypeError, UserError):  # findings in memory, a Parquet file, a run without labels
        return Labels()
    holds, fails, dropped = (frozenset(kept[name]) for name in ("holds", "fails", "dropped"))
    return Labels(dict(kept["labels"]), holds, fails, dropped, kept.get("people", {}), kept.get("images", {}))
