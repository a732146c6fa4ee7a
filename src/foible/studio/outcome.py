"""What a task came to: how far people agree, what they say together, and the way of that into a run."""

from __future__ import annotations

import csv
import hashlib
import io
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from foible.errors import UserError
from foible.findings import read_shard, shard_files
from foible.findings.labels import Labels
from foible.recipes.labels import import_labels
from foible.studio.agreement import (
    Votes,
    dawid_skene,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
    person_agreement,
)  # fmt: skip
from foible.studio.base import Task
from foible.studio.make import shown
from foible.studio.sharing import CHECK, FINAL, REPEAT, VOTE
from foible.studio.store import Store

SMOOTHING = 0.01  # of a confusion, with few answers a person
WAYS = ("majority", "dawid-skene")


def votes_of(task: Task, rows: list[dict[str, Any]], items: dict[int, int], *, classes_only: bool) -> Votes:
    """The votes among rows of `Store.rows`. items: item to its number. classes_only: leave "cannot tell" out; else it
    is a class of its own."""
    kept = [row for row in rows if row["kind"] == VOTE and (row["choice"] >= 0 or not classes_only)]
    people = {number: place for place, number in enumerate(sorted({row["person"] for row in rows}))}
    many = len(task.classes)
    return Votes(
        np.array([items[row["item"]] for row in kept], np.int64),
        np.array([people[row["person"]] for row in kept], np.int64),
        np.array([c if (c := row["choice"]) >= 0 else many - 1 - c for row in kept], np.int64),
        len(items), len(people), many if classes_only else many + 2,
    )  # fmt: skip


def summary(store: Store, task: Task) -> dict[str, Any]:
    """Figures for the owner, and for JSON: counts, agreement in all, by class and by person."""
    rows, findings = store.rows(task), store.findings(task)
    items = {item: place for place, item in enumerate(findings)}
    votes = votes_of(task, rows, items, classes_only=False)
    counts = votes.counts()
    kappa, by_class = fleiss_kappa(counts)
    said = consensus(store, task, rows)
    both = [row for row in said if row["majority"] is not None and row["dawid-skene"] is not None]
    chosen = counts.sum(0)
    return {
        "task": task.name, "source": task.source, "images": len(items), "votes_each": task.votes,
        "answers": len(rows), "votes": int(counts.sum()), "voted": int((counts.sum(1) >= task.votes).sum()),
        "disputed": len(store.disputed(task, rows)), "decided": sum(row["kind"] == FINAL for row in rows),
        "fleiss_kappa": _number(kappa), "krippendorff_alpha": _number(krippendorff_alpha(counts)),
        "majority_and_dawid_skene_agree": [sum(r["majority"] == r["dawid-skene"] for r in both), len(both)],
        "classes": [
            {"class": name, "votes": int(chosen[place]), "kappa": _number(by_class[place])}
            for place, name in enumerate([*task.classes, *(task.word(one) for one in (-1, -2))])
            if place < len(task.classes) or -1 - (place - len(task.classes)) in task.other
        ],
        "people": _people(store, task, rows, votes),
    }  # fmt: skip


def _people(store: Store, task: Task, rows: list[dict[str, Any]], votes: Votes) -> list[dict[str, Any]]:
    agree = dict(zip(sorted({row["person"] for row in rows}), person_agreement(votes).tolist(), strict=True))
    made = []
    for person in store.people(task):
        mine = [row for row in rows if row["person"] == person.number]
        first = {row["item"]: row["choice"] for row in mine if row["kind"] == VOTE}
        again = [first[row["item"]] == row["choice"] for row in mine if row["kind"] == REPEAT and row["item"] in first]
        checks = [row["known"] == row["choice"] for row in mine if row["kind"] == CHECK]
        took = [row["seconds"] for row in mine if row["seconds"] is not None]
        done, whole = store.progress(person)
        made.append(
            {
                "number": person.number, "name": person.name, "revoked": person.revoked, "done": done, "turns": whole,
                "agreement": _number(agree.get(person.number, float("nan"))),
                "self_consistency": [sum(again), len(again)], "checks": [sum(checks), len(checks)],
                "median_seconds": median(took) if took else None,
            }
        )  # fmt: skip
    return made


def _number(value: float) -> float | None:
    return float(value) if value == value else None


def consensus(store: Store, task: Task, rows: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """What people say of each image: finding, votes by class, `majority`, `dawid-skene` (with its probability), and
    `decided`, the owner's word. Classes by name; None where there is none. rows: of `Store.rows`, where known."""
    rows, findings = store.rows(task) if rows is None else rows, store.findings(task)
    items = {item: place for place, item in enumerate(findings)}
    votes = votes_of(task, rows, items, classes_only=True)
    counts = votes.counts()
    most, used = majority(counts), np.flatnonzero(counts.sum(0))  # of a thousand classes, few were ever said
    few = replace(votes, choice=np.searchsorted(used, votes.choice), choices=len(used))
    model = dawid_skene(few, smoothing=SMOOTHING)
    best, sure = np.append(used, -1)[model.best], model.posterior.max(1, initial=0)
    decided = {row["item"]: row["choice"] for row in rows if row["kind"] == FINAL}
    told: dict[int, Counter[str]] = {}
    for row in rows:
        if row["kind"] == VOTE:
            told.setdefault(row["item"], Counter())[task.word(row["choice"])] += 1

    def name(choice: int) -> str | None:
        return task.classes[choice] if choice >= 0 else None

    return [
        {
            "item": item, "finding": finding, "votes": dict(told.get(item, Counter()).most_common()),
            "majority": name(int(most[place])), "dawid-skene": name(int(best[place])),
            "probability": float(sure[place]), "decided": task.word(decided[item]) if item in decided else None,
        }
        for place, (item, finding) in enumerate(findings.items())
    ]  # fmt: skip


def labels(store: Store, task: Task, by: str = "majority") -> list[tuple[str, str]]:
    """(finding, class) of every image that people agree on: the owner's word where there is one, else `by`."""
    if by not in WAYS:
        raise UserError(f"labels by {by!r}: expected {' or '.join(WAYS)}")
    found = (
        (row["finding"], row["decided"] if row["decided"] is not None else row[by]) for row in consensus(store, task)
    )
    return [(finding, label) for finding, label in found if label in task.classes]


def join(store: Store, task: Task, by: str = "majority", *, drop: bool = False) -> Labels:
    """Take the labels into the run that the task is of, beside its shards, as `foible import` does."""
    if task.run is None:
        raise UserError(f"the task {task.name!r} is of {task.source!r}, which is no run: export its answers instead")
    pairs = labels(store, task, by)
    if not pairs:
        raise UserError(f"nobody has labelled anything of {task.name!r} yet: there is nothing to take into the run")
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([("id", "label"), *pairs])
    with tempfile.TemporaryDirectory(prefix="foible-") as folder:
        file = Path(folder) / "labels.csv"
        file.write_text(out.getvalue(), "utf-8")
        return import_labels(file, task.run, drop=drop, **_one_by_one(store, task))


def _one_by_one(store: Store, task: Task) -> dict[str, Any]:
    """Who chose which class for which finding, and the hash of every image that was labelled, as the run has it. A task
    of other images than the run has now is refused."""
    assert task.run is not None
    people: dict[str, dict[str, str]] = {}
    labelled: dict[str, int] = {}
    for row in store.rows(task):
        if row["kind"] == VOTE and row["choice"] >= 0:
            people.setdefault(f"{task.name} {row['person']:03d}", {})[row["finding"]] = task.classes[row["choice"]]
            labelled[row["finding"]] = row["item"]
    images = {}
    for file in shard_files(task.run):
        for row in read_shard(file, ("id", "image")).to_pylist():
            if row["id"] in labelled and row["image"] is not None:
                seen = store.item_image(task, labelled[row["id"]])
                if seen is None or shown(seen, row["id"]) != shown(row["image"], row["id"]):
                    raise UserError(
                        f"the task {task.name!r} is of other images than the run {task.run!r} has now ({row['id']}): "
                        "make a new one with another --task"
                    )
                images[row["id"]] = hashlib.sha256(row["image"]).hexdigest()
    return {"people": people, "images": images}


def join_all(file: Path, run: Path) -> int:
    """Take what people said in all tasks of a run into it; how many tasks had something to say."""
    if not file.is_file():
        return 0
    with closing(Store(file)) as store:
        ours = [task for task in store.tasks() if task.run == str(run.resolve())]
        told = [task for task in ours if labels(store, task)]
        for task in told:
            join(store, task)
    return len(told)
