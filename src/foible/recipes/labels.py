"""Verdicts of people come back to a run: labels from Label Studio or a CSV file, kept beside its shards.

No shard is rewritten. A finding that people call what its suspect should have called it holds; one that they call
anything else does not, and may be dropped: galleries, exports and suites then pass it over.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foible.class_names import align
from foible.disk import ordinary, write_atomically
from foible.errors import UserError
from foible.findings import Findings, read_shard, shard_files
from foible.findings.labels import LABELS, Labels, labels_of
from foible.recipes.export.label_studio import choice_of
from foible.records import parse_json
from foible.text import cut, did_you_mean, some

UNSURE = ("?", "cannot tell", "can't tell", "don't know", "unclear", "unsure")  # as an empty label
MOST_TOLD = 5  # labels that a message names
_COLUMNS = ("id", "outcome", "truth", "consensus")


def import_labels(
    file: str | Path, run: str | Path, *, drop: bool = False, people: Mapping[str, dict[str, str]] | None = None,
    images: Mapping[str, str] | None = None,
) -> Labels:  # fmt: skip
    """Join what people said to a run; labels that are there already stay, unless the file has others for them.

    file: a JSON export of Label Studio (also JSON-MIN), or a CSV file with the columns id (or finding) and label.
    Labels meet classes as folders do: case, `_` and `-` do not matter. An empty label, or one of `UNSURE`, is no
    answer. Of several people's answers to one image the one that most of them gave counts; where two are equally
    frequent, none. drop: pass the findings over that do not hold. people, images: as `Labels` has them.
    """
    if not Path(run).is_dir():
        raise UserError(f"{str(run)!r} is no run folder: labels are kept beside the shards of a run")
    answers = _read(Path(file))
    tables = [read_shard(shard, _COLUMNS) for shard in shard_files(run)]
    classes = Findings(tables[0]).classes
    rows = {row["id"]: row for table in tables for row in table.to_pylist()}
    for id, _ in answers:
        if id not in rows:
            raise UserError(f"{str(file)!r} labels {id!r}, which is no finding of {str(run)!r}: is it of another run?")
    known = _meant(answers, classes, str(file))
    before = labels_of(run)
    labels = before.labels | _majority([(id, known[label]) for id, label in answers if label in known])
    holds, fails = set[str](), set[str]()
    for id, label in labels.items():
        row = rows.get(id)
        if row is not None and row["outcome"] == "found":
            right = row["truth"] if row["truth"] is not None else row["consensus"]
            (holds if right is not None and classes[right] == label else fails).add(id)
    made = Labels(
        labels, frozenset(holds), frozenset(fails), frozenset(fails) if drop else before.dropped & fails,
        {**before.people, **(people or {})}, {**before.images, **(images or {})},
    )  # fmt: skip
    content = {
        "labels": made.labels, **{name: sorted(getattr(made, name)) for name in ("holds", "fails", "dropped")},
        **({"people": made.people, "images": made.images} if made.people else {}),
    }  # fmt: skip
    write_atomically(Path(run) / LABELS, json.dumps(content, indent=1, ensure_ascii=False).encode())
    return made


def _meant(answers: list[tuple[str, str]], classes: Sequence[str], where: str) -> dict[str, str]:
    """The class that each label means; nothing for those that say that nobody could tell. What is neither is refused,
    all of it at once."""
    known = {name: name for name in classes} | {choice_of(name): name for name in classes}
    wrong = {}
    for id, label in answers:
        if label in known or label in wrong:
            continue
        [place] = align([label], classes)
        if place is not None:
            known[label] = classes[place]
        elif label.strip().casefold() not in UNSURE:
            wrong[label] = id
    if wrong:
        told = ", ".join(f"{cut(label)!r} ({id})" for label, id in list(wrong.items())[:MOST_TOLD])
        more = ", …" if len(wrong) > MOST_TOLD else ""
        raise UserError(
            f"{where!r} has labels that are no class of the run: {told}{more}"
            f"{did_you_mean(next(iter(wrong)), classes)}; its {len(classes)} classes are {some(classes, 8)}. Leave a "
            "label empty, or write ?, where nobody could tell"
        )
    return known


def _read(file: Path) -> list[tuple[str, str]]:
    """(finding, label) of every answer in a file."""
    try:
        data = ordinary(file).read_bytes()
    except OSError as error:
        raise UserError(f"{str(file)!r} cannot be read ({error}): give the file that the labels are in") from error
    if file.suffix.lower() == ".csv":
        return _of_csv(data, str(file))
    if file.suffix.lower() == ".json":
        return [pair for task in _tasks(data, str(file)) for pair in _of_task(task)]
    raise UserError(f"{str(file)!r} is neither .json nor .csv: export JSON from Label Studio, or write id,label as CSV")


def _of_csv(data: bytes, where: str) -> list[tuple[str, str]]:
    try:
        text = data.decode("utf-8-sig")
        mark = max(",", ";", "\t", key=text.partition("\n")[0].count)  # spreadsheets of some countries write others
        lines = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=mark))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{where!r} is no CSV file in UTF-8 ({error}): expected the columns id and label") from error
    names = lines[0].keys() if lines else {"id", "label"}
    key = "finding" if "finding" in names else "id"  # Label Studio numbers its tasks in a column `id`
    if key not in names or "label" not in names:
        raise UserError(f"{where!r} has the columns {', '.join(map(str, names))}: expected id (or finding) and label")
    return [(line[key], line["label"]) for line in lines if line[key] and line["label"]]


def _tasks(data: bytes, where: str) -> list[dict[str, Any]]:
    tasks = parse_json(data, where)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise UserError(f"{where!r} is no export of Label Studio: expected a list of tasks, as its format JSON has it")
    return tasks


def _of_task(task: dict[str, Any]) -> list[tuple[str, str]]:
    """The answers to one task. What is not as Label Studio writes it is no answer."""
    inner = task.get("data")
    id = (inner if isinstance(inner, dict) else task).get("finding")
    if not isinstance(id, str):
        return []
    if "annotations" not in task:  # JSON-MIN
        return [(id, task["label"])] if isinstance(task.get("label"), str) else []
    answers = []
    for annotation in task["annotations"] if isinstance(task["annotations"], list) else ():
        if not isinstance(annotation, dict) or annotation.get("was_cancelled"):
            continue
        for result in annotation.get("result") or ():
            choices = result["value"].get("choices") if isinstance(result, dict) and _has_value(result) else None
            if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], str):
                answers.append((id, choices[0]))
    return answers


def _has_value(result: dict[str, Any]) -> bool:
    return isinstance(result.get("value"), dict)


def _majority(answers: list[tuple[str, str]]) -> dict[str, str]:
    """What most people said of each finding; nothing where two answers are equally frequent."""
    if not answers:
        raise UserError("there is no label in this file: expected answers that name a finding, and a class for each")
    votes: dict[str, Counter[str]] = {}
    for id, label in answers:
        votes.setdefault(id, Counter())[label] += 1
    ranked = {id: counter.most_common(2) for id, counter in votes.items()}
    return {id: two[0][0] for id, two in ranked.items() if len(two) == 1 or two[0][1] > two[1][1]}
