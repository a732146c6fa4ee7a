"""What fooling came to: how sure each network is of how many classes, and who else falls for its images."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from foible.findings import Findings
from foible.findings.same_class import same_class
from foible.findings.tally import Opened, tables
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
    parts: dict[str, list[dict[str, Any]]] = {}
    for table in tables(run, COLUMNS):
        for row in table.to_pylist():
            if row["target"] is not None:  # else it is not one of ours
                after = np.asarray(row.pop("after"))  # and only what is counted of it is kept
                row["marks"], row["way"] = noted(row)
                row["sure"], row["first"] = after[:, row["target"]], after.argmax(1) == row["target"]
                del row["trace"], row["path"]
                parts.setdefault(row["suspect"], []).append(row)
    return {"suspects": [{"suspect": name, **_told(rows)} for name, rows in parts.items()]}


def _told(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found = [row for row in rows if row["outcome"] == "found"]
    valid = [row for row in rows if row["outcome"] != "invalid"]
    names = rows[0]["networks"]
    sure, first = (np.asarray([row[key] for row in valid]).reshape(-1, len(names)) for key in ("sure", "first"))
    ways, (low, high) = [row["way"] for row in valid], wilson(len(found), len(rows))
    medians = np.median(np.asarray(ways), 0).tolist() if len({*map(len, ways)}) == 1 and ways[0] else []
    middle, least, most = (float(of(sure[:, 0])) if valid else None for of in (np.median, np.min, np.max))
    runs, classes = (len({row[key] for row in rows}) for key in ("lane", "target"))
    return {
        "method": rows[-1]["method"], "runs": runs, "classes": classes, "images": len(rows), "found": len(found),
        "share": len(found) / len(rows), "low": low, "high": high, "reached": len({row["target"] for row in found}),
        "invalid": len(rows) - len(valid), "tried": sum(row["candidates"] for row in rows), "median": middle,
        "least": least, "most": most, "marks": valid[-1]["marks"] if medians else [], "medians": medians,
        "judges": same_class(names, sure, first.astype(bool), SURE),
    }  # fmt: skip
