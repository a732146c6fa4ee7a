"""What fooling came to: how sure each network is of how many classes, and who else falls for its images."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from foible.findings import Findings, read_shard, shard_files
from foible.findings.tally import Opened
from foible.statistics import wilson

COLUMNS = (
    "suspect", "networks", "outcome", "target", "said", "after", "trace", "path", "lane", "candidates", "method",
)  # fmt: skip
SURE = 0.99  # as in Table S1


def noted(row: dict[str, Any]) -> tuple[list[int], list[float]]:
    """After which generations, or steps, how sure the suspect was; nothing where a row, which may be anybody's, has no
    such line."""
    marks = [0 if row["method"] == "ascent" else 1, *(step["step"] for step in row["path"] or ())]
    values = [line[0] for line in row["trace"] or () if line]
    return (marks, values) if len(marks) == len(values) and min(marks) >= 0 else ([], [])


def summarise(run: str | PathLike[str] | Findings | Opened) -> dict[str, Any]:
    """One record a suspect; shares with Wilson's interval."""
    parts: dict[str, _Suspect] = {}
    for table in _tables(run):
        for row in table.to_pylist():
            if row["target"] is None:
                continue  # not one of ours
            parts.setdefault(row["suspect"], _Suspect(row["networks"])).see(row)
    return {"suspects": [{"suspect": name, **part.told()} for name, part in parts.items()]}


class _Suspect:
    def __init__(self, networks: list[str]) -> None:
        self.names = networks
        self.sure: list[list[float]] = []  # of each row, what every network gives the class
        self.first: list[list[bool]] = []  # and whether it prefers it
        self.found, self.invalid, self.tried = 0, 0, 0
        self.method, self.classes, self.lanes = "", set[int](), set[int]()
        self.reached, self.traces = set[int](), list[list[float]]()
        self.marks: list[int] = []

    def see(self, row: dict[str, Any]) -> None:
        after, target = np.asarray(row["after"]), row["target"]
        self.method, self.tried = row["method"], self.tried + row["candidates"]
        self.classes.add(target)
        self.lanes.add(row["lane"])
        self.found += row["outcome"] == "found"
        self.invalid += row["outcome"] == "invalid"
        if row["outcome"] == "found":
            self.reached.add(target)
        if row["outcome"] != "invalid":
            self.sure.append(after[:, target].tolist())
            self.first.append((after.argmax(1) == target).tolist())
            self.marks, values = noted(row)
            self.traces.append(values)

    def told(self) -> dict[str, Any]:
        rows = len(self.sure) + self.invalid
        low, high = wilson(self.found, rows)
        sure, first = np.asarray(self.sure), np.asarray(self.first)
        lengths = {len(trace) for trace in self.traces}
        medians = np.median(np.asarray(self.traces), 0).tolist() if len(lengths) == 1 and max(lengths) else []
        return {
            "method": self.method, "runs": len(self.lanes), "classes": len(self.classes), "images": rows,
            "found": self.found, "share": self.found / rows if rows else None, "low": low, "high": high,
            "reached": len(self.reached), "invalid": self.invalid, "tried": self.tried,
            "median": float(np.median(sure[:, 0])) if len(sure) else None,
            "least": float(sure[:, 0].min()) if len(sure) else None,
            "most": float(sure[:, 0].max()) if len(sure) else None,
            "marks": self.marks if medians else [], "medians": medians, "judges": self._judges(sure, first),
        }  # fmt: skip

    def _judges(self, sure: Any, first: Any) -> list[dict[str, Any]]:
        """Of the images that the suspect itself takes for the class: who else does (Table S1)."""
        told = []
        own = first[:, 0] if len(first) else np.zeros(0, bool)
        for place, name in enumerate(self.names[1:], 1):
            n = int(own.sum())
            same = int((own & first[:, place]).sum()) if n else 0
            both = int((own & first[:, place] & (sure[:, 0] >= SURE) & (sure[:, place] >= SURE)).sum()) if n else 0
            higher = int((own & first[:, place] & (sure[:, 0] > sure[:, place])).sum()) if n else 0
            low, high = wilson(same, n)
            told.append({"judge": name, "images": n, "same": same, "low": low, "high": high, "both": both,
                         "higher": higher})  # fmt: skip
        return told


def _tables(run: Any) -> Iterator[Any]:
    if isinstance(run, Findings):
        return iter([run.table.select(list(COLUMNS))])
    if isinstance(run, Opened):
        return iter(run.tables(COLUMNS))
    return (read_shard(file, list(COLUMNS)) for file in shard_files(run))
