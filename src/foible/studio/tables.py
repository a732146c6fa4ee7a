"""Answers in and out: one line an answer, as CSV, Parquet or Label Studio's JSON, each read back to the same table.

Columns: finding, annotator, label, answer, kind, at, seconds, key. `answer` is what was said, in words; `label` the
same where it is a vote for a class, and empty otherwise: whoever counts labels, `foible import` too, counts votes.
"""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foible.disk import ordinary, write_atomically
from foible.errors import UserError
from foible.recipes.export.label_studio import choice_of
from foible.records import NUMBER, TEXT, One, check, parse_json, word
from foible.studio.base import Task
from foible.studio.sharing import CHECK, FINAL, REPEAT, VOTE
from foible.studio.store import Store

COLUMNS = ("finding", "annotator", "label", "answer", "kind", "at", "seconds", "key")
KINDS = (VOTE, REPEAT, CHECK, FINAL)
GUARDED = ("annotator", "key")  # what people enter themselves
Row = dict[str, Any]
_TIME = One(lambda value: isinstance(value, str) and _seconds(value) is not None, "a time such as 2026-01-31T12:00:00Z")
_FORM = {
    "finding": TEXT, "annotator": TEXT, "answer": TEXT, "kind": word(*KINDS), "at": _TIME, "seconds": (None, NUMBER),
    "key": TEXT,
}  # fmt: skip


def table(store: Store, task: Task) -> list[Row]:
    """Every answer that stands, in the order given, with names that tell people apart."""
    rows = store.rows(task)
    called = apart({row["person"]: row["name"] for row in rows})
    return [
        {
            "finding": row["finding"],
            "annotator": called[row["person"]],
            "label": task.classes[row["choice"]] if row["kind"] == VOTE and row["choice"] >= 0 else "",
            "answer": task.word(row["choice"]),
            "kind": row["kind"],
            "at": _iso(row["at"]),
            "seconds": row["seconds"],
            "key": row["key"],
        }
        for row in rows
    ]


def apart(names: Mapping[int, str]) -> dict[int, str]:
    """What people are called, by their numbers, so that no two are called the same."""
    often = Counter(names.values())
    return {number: name if often[name] == 1 else f"{name} #{number}" for number, name in names.items()}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(text: str) -> float | None:
    try:
        made = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((made if made.tzinfo else made.replace(tzinfo=UTC)).timestamp(), 3)


# Out


def write(store: Store, task: Task, file: str | Path, form: str | None = None) -> int:
    """Write the answers of a task; how many. form: one of FORMS; by the file's suffix without."""
    rows = table(store, task)
    form = form or _form(Path(file))
    write_atomically(Path(file), encoded(rows, task, form))
    return sum(bool(row["label"]) for row in rows) if form == "cleanlab" else len(rows)


def encoded(rows: Sequence[Row], task: Task, form: str) -> bytes:
    """A table of answers as the bytes of a file."""
    if form not in FORMS:
        raise UserError(f"cannot write answers as {form!r}: expected one of {', '.join(FORMS)}")
    return FORMS[form][1](rows, task)


def _form(file: Path) -> str:
    found = next((form for form, (suffix, _) in FORMS.items() if suffix == file.suffix.lower()), None)
    if found is None:
        raise UserError(f"{str(file)!r} is neither .csv, .parquet nor .json: name the file so, or say the format")
    return found


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({**row, **{name: _guarded(row[name]) for name in GUARDED if name in row}} for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def _guarded(text: str) -> str:
    """Text that a spreadsheet might run gets a quote before it, which is taken off when it is read again."""
    first = unicodedata.normalize("NFKC", text).lstrip()[:1]
    return f"'{text}" if first in ("=", "+", "-", "@", "'") or text[:1] in ("\t", "\r", "\n") else text


def _parquet(rows: Sequence[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = pa.schema([(name, pa.float64() if name == "seconds" else pa.string()) for name in COLUMNS])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(list(rows), kinds), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def _label_studio(rows: Sequence[Row], _task: Task) -> bytes:
    """A list of tasks with their annotations, as Label Studio exports it. What is no vote for a class is marked as
    cancelled there, so that it is not counted; it is kept all the same."""
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row["finding"], []).append(row)
    made = [
        {
            "id": number,
            "data": {"finding": finding},
            "annotations": [
                {
                    "completed_by": {"email": row["annotator"]},
                    "result": [
                        {
                            "from_name": "label", "to_name": "image", "type": "choices",
                            "value": {"choices": [choice_of(row["answer"])]},
                        }
                    ],
                    "was_cancelled": not row["label"], "lead_time": row["seconds"], "created_at": row["at"],
                    "unique_id": row["key"], "meta": {"kind": row["kind"]},
                }
                for row in some
            ],
        }
        for number, (finding, some) in enumerate(tasks.items(), 1)
    ]  # fmt: skip
    return json.dumps(made, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _cleanlab(rows: Sequence[Row], task: Task) -> bytes:
    """Columns task, annotator and label, a whole number: what cleanlab's
    `convert_long_to_wide_dataset` reads. Votes for a class only."""
    long = [
        {"task": row["finding"], "annotator": row["annotator"], "label": task.classes.index(row["label"])}
        for row in rows
        if row["label"]
    ]
    return _csv(long, ("task", "annotator", "label"))


FORMS: dict[str, tuple[str, Callable[[Sequence[Row], Task], bytes]]] = {  # form: suffix and writer
    "csv": (".csv", lambda rows, _: _csv(rows, COLUMNS)),
    "parquet": (".parquet", lambda rows, _: _parquet(rows)),
    "label-studio": (".json", _label_studio),
    "cleanlab": (".cleanlab.csv", _cleanlab),
}


# In


def read(file: str | Path, task: Task) -> list[Row]:
    """The table that a file holds, as `table` made it. From Label Studio itself, whose annotations know no key, one is
    made of what they say; from a CSV with no more than finding (or id), annotator and label, likewise."""
    path = Path(file)
    try:
        data = ordinary(path).read_bytes()
    except OSError as error:
        raise UserError(f"{str(file)!r} cannot be read ({error}): give the file that the answers are in") from error
    return decoded(data, task, _form(path), str(file))


def decoded(data: bytes, task: Task, form: str, where: str) -> list[Row]:
    """A table of answers from the bytes of a file."""
    names = {choice_of(name): name for name in task.classes}
    rows = []
    for number, given in enumerate(_READERS[form](data, where)):
        answer = given.get("answer") or given.get("label")
        if not answer:
            continue  # nothing was said
        row = {
            "finding": given.get("finding") or given.get("id"), "annotator": given.get("annotator") or "unknown",
            "answer": names.get(answer, answer), "kind": given.get("kind") or VOTE,
            "at": given.get("at") or "1970-01-01T00:00:00.000Z", "seconds": given.get("seconds"),
        }  # fmt: skip
        row["key"] = given.get("key") or json.dumps([task.key, *(row[name] for name in ("finding", "annotator", "at"))])
        check(row, _FORM, f"{where}, answer {number + 1},")
        row["at"] = _iso(_seconds(str(row["at"])) or 0.0)
        votes = row["kind"] == VOTE and row["answer"] in task.classes
        rows.append({**row, "label": row["answer"] if votes else ""})
    return [{name: row[name] for name in COLUMNS} for row in rows]


def _of_csv(data: bytes, where: str) -> list[Row]:
    try:
        rows: list[Row] = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))
        for row in rows:
            for name in GUARDED:
                if row.get(name):
                    row[name] = row[name].removeprefix("'")
            row["seconds"] = float(row["seconds"]) if row.get("seconds") else None
    except (ValueError, csv.Error) as error:
        raise UserError(f"{where!r} is no table of answers as CSV in UTF-8 ({error})") from error
    return rows


def _of_parquet(data: bytes, where: str) -> list[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_table(pa.BufferReader(data)).to_pylist())
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{where!r} cannot be read as Parquet ({error})") from error


def _of_label_studio(data: bytes, where: str) -> list[Row]:
    form = [{"data": {"finding": TEXT}, "annotations": [{"result": [{"value": dict}]}]}]
    rows = []
    for one in check(parse_json(data, where), form, where):
        for made in one["annotations"]:
            choices = [choice for result in made["result"] for choice in result["value"].get("choices") or ()]
            who = made.get("completed_by")
            meta = made.get("meta")
            rows.append(
                {
                    "finding": one["data"]["finding"],
                    "annotator": str(who.get("email") or who.get("id") if isinstance(who, dict) else who),
                    "answer": choices[0] if len(choices) == 1 else None,
                    "kind": meta.get("kind") if isinstance(meta, dict) else None,
                    "at": made.get("created_at"), "seconds": made.get("lead_time"), "key": made.get("unique_id"),
                }
            )  # fmt: skip
    return sorted(rows, key=lambda row: str(row["at"]))


_READERS: dict[str, Callable[[bytes, str], list[Row]]] = {
    "csv": _of_csv, "parquet": _of_parquet, "label-studio": _of_label_studio,
}  # fmt: skip


def take_in(store: Store, task: Task, file: str | Path) -> int:
    """Add the answers of a file to a task; how many were new."""
    return store.take_in(task, [{**row, "at": _seconds(row["at"])} for row in read(file, task)])
