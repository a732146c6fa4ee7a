"""Answers are added and never lost, doubled or changed; turns are fair; disagreement brings votes, then the owner."""

from __future__ import annotations

import sqlite3
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from foible.errors import UserError
from foible.images import encode_png
from foible.studio import outcome, tables
from foible.studio.base import CANNOT_TELL, NONE_OF_THESE, Item, Person, Task
from foible.studio.dealing import voters_of
from foible.studio.labelling import keys_for
from foible.studio.sharing import CHECK, REPEAT, VOTE
from foible.studio.store import Store

PNG = encode_png(np.zeros((1, 4, 4), np.uint8))
CLASSES = ("cat", "dog", "=cow\x01")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "studio.sqlite")
    made.base.execute("PRAGMA synchronous = OFF")  # no test here cuts the power
    yield made
    made.close()


def task_of(store: Store, items: int = 6, people: int = 3, **more: object) -> Task:
    rows = [Item(f"f{number}", PNG) for number in range(items)]
    options = {"votes": 3, "people": [f"p{n}" for n in range(people)], "other": (CANNOT_TELL,), **more}
    return store.add_task("small", "a source", CLASSES, [*rows, *options.pop("checks", [])], **options)  # type: ignore[arg-type, misc]


def say(store: Store, person: Person, choices: dict[str, int | None] | int) -> list[str]:
    """One person answers all that is left; findings by name."""
    task = store.task(person.task, "id")
    assert task is not None
    done = []
    while keys := store.next_turns(person, 1):
        query = "SELECT finding FROM turns JOIN items ON items.id = item WHERE turns.key = ?"
        finding = store.one(query, keys[0])[0]
        choice = choices if isinstance(choices, int) else choices.get(finding, 0)
        assert store.answer(person, keys[0], choice, 1.25, f"{person.id}-{keys[0]}").stands
        done.append(finding)
    return done


def test_the_file_is_safe_and_ours(store: Store, tmp_path: Path) -> None:
    again = Store(store.file)
    assert again.one("PRAGMA journal_mode")[0] == "delete"
    assert again.one("PRAGMA synchronous")[0] == 2  # FULL
    assert stat.S_IMODE(store.file.stat().st_mode) == 0o600
    again.close()
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).execute("CREATE TABLE a (b)").connection.close()
    with pytest.raises(UserError, match="not of Foible's Studio"):
        Store(other)
    (tmp_path / "text").write_text("no database, but long enough to be looked at" * 30)
    with pytest.raises(UserError, match="cannot be opened"):
        Store(tmp_path / "text")


def test_answers_are_added_and_nothing_else(store: Store) -> None:
    task = task_of(store)
    person = store.people(task)[0]
    first, second, *_ = store.next_turns(person)
    assert store.answer(person, first, 0, 0.5, "k1").new
    again = store.answer(person, first, 0, 0.5, "k1")
    assert not again.new
    assert again.stands
    late = store.answer(person, first, 1, 0.5, "k2")  # of a second device, which did not know
    assert not late.stands
    assert store.next_turns(person)[0] == second
    assert store.last_answered(person) == first
    assert store.answer(person, first, None, None, "k3").new  # taken back
    assert not store.answer(person, first, None, None, "k4").new
    assert store.next_turns(person)[0] == first
    assert store.answer(person, first, 1, 0.5, "k5").new
    assert [row["choice"] for row in store.rows(task)] == [1]
    assert store.given(task) == 3
    for change in ("UPDATE answers SET choice = 2", "DELETE FROM answers"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            store.base.execute(change)
    with pytest.raises(UserError, match="choices"):
        store.answer(person, second, 7, None, "k6")
    with pytest.raises(UserError, match="choices"):
        store.answer(person, second, NONE_OF_THESE, None, "k7")
    with pytest.raises(UserError, match="yours"):
        store.answer(store.people(task)[1], second, 0, None, "k8")


def test_everybody_gets_a_share_in_an_order_of_their_own(store: Store) -> None:
    checks = [Item("f0", PNG, 2), Item("f1", PNG, 1)]
    task = task_of(store, 40, 8, checks=checks, repeats=0.2, seed=5)
    orders = []
    for person in store.people(task):
        rows = store.all("SELECT finding, kind FROM turns JOIN items ON items.id = item WHERE person = ? "
                          "ORDER BY place", person.id)  # fmt: skip
        kinds = Counter(row["kind"] for row in rows)
        assert kinds == {VOTE: 15, CHECK: 2, REPEAT: 3}
        orders.append([row["finding"] for row in rows])
    assert len({tuple(order) for order in orders}) == 8
    assert all(order != sorted(order) for order in orders)
    keys = [row[0] for row in store.all("SELECT key FROM turns")]
    assert len({*keys}) == len(keys)  # a repeat has a key of its own: nobody can tell


def test_disagreement_brings_votes_then_the_owner(store: Store) -> None:
    task = task_of(store, 6, 6, extra=2)
    people = store.people(task)
    for number, person in enumerate(people):
        say(store, person, {"f0": number % 2, "f1": 0 if number else 1})
    for person in people:  # the extra votes
        say(store, person, {"f0": person.number % 2})
    votes = {row["finding"]: row["votes"] for row in outcome.consensus(store, task)}
    assert sum(votes["f5"].values()) == 3
    assert sum(votes["f0"].values()) == 5 or abs(votes["f0"]["cat"] - votes["f0"]["dog"]) == 2
    for item in store.disputed(task):
        assert store.findings(task)[item] in ("f0", "f1")
        store.decide(task, item, 2, f"d{item}")
        store.decide(task, item, 2, f"d{item}")
    assert store.disputed(task) == []
    decided = {row["finding"] for row in outcome.consensus(store, task) if row["decided"] == CLASSES[2]}
    assert {finding for finding, label in outcome.labels(store, task) if label == CLASSES[2]} == decided


def test_those_who_leave_and_those_who_come(store: Store) -> None:
    task = task_of(store, 60, 4, votes=2)
    first, second, *_ = store.people(task)
    say_some = store.next_turns(first, 5)
    for key in say_some:
        store.answer(first, key, 0, None, key)
    store.answer(first, say_some[0], None, None, "back")
    store.revoke(first)
    assert store.person_with(first.token or "") is None
    assert store.next_turns(first) == []
    assert len(store.rows(task)) == 4
    new = store.add_person(task, "late")
    assert new.token
    left = [store.progress(person)[1] for person in store.people(task)[1:]]
    assert max(left) - min(left) <= 2
    voters, _ = voters_of(store, task.id)
    assert {len(people) for people in voters.values()} == {2}  # every image still gets its two votes
    for person in store.people(task)[1:]:
        say(store, person, 0)
    assert all(sum(row["votes"].values()) >= 2 for row in outcome.consensus(store, task))
    assert second.name in [person["name"] for person in outcome.summary(store, task)["people"]]


def test_what_a_task_cannot_be(store: Store) -> None:
    for wrong in ({"votes": 4}, {"repeats": 0.9}, {"items": 0}):
        with pytest.raises(UserError):
            task_of(store, **wrong)  # type: ignore[arg-type]
    task_of(store)
    with pytest.raises(UserError, match="already"):
        task_of(store)
    assert len(store.tasks()) == 1


@pytest.mark.parametrize("form", ["csv", "parquet", "label-studio"])
def test_every_export_reads_back_to_the_same_table(store: Store, tmp_path: Path, form: str) -> None:
    task = task_of(store, 12, 4, other=(CANNOT_TELL, NONE_OF_THESE), checks=[Item("f1", PNG, 1)], repeats=0.25)
    store.rename(store.people(task)[0], "=HYPERLINK(\"x\"), 'a' <b> \u202eπ\n")
    store.rename(store.people(task)[1], "p3")  # two people of one name
    for number, person in enumerate(store.people(task)):
        say(store, person, {"f0": number % 3, "f2": CANNOT_TELL, "f3": NONE_OF_THESE, "f4": 2})
    for item in store.disputed(task)[:1]:
        store.decide(task, item, 1, "decided")
    rows = tables.table(store, task)
    assert {row["kind"] for row in rows} >= {VOTE, REPEAT, CHECK}
    suffix = tables.FORMS[form][0]
    file = tmp_path / f"answers{suffix}"
    assert tables.write(store, task, file) == len(rows)
    by_key = {row["key"]: row for row in rows}
    read = tables.read(file, task)
    assert len(read) == len(rows)
    assert {row["key"]: row for row in read} == by_key
    second = Store(tmp_path / "second.sqlite")
    second.base.execute("PRAGMA synchronous = OFF")
    images = [Item(finding, PNG) for finding in store.findings(task).values()]
    copy = second.add_task("copy", "s", CLASSES, [*images, Item("f1", PNG, 1)], people=["x"], votes=1,
                           other=task.other)  # fmt: skip
    assert tables.take_in(second, copy, file) == len(rows)
    assert tables.take_in(second, copy, file) == 0  # again: nothing twice
    assert {row["key"]: row for row in tables.table(second, copy)} == by_key
    mine, theirs = outcome.consensus(store, task), outcome.consensus(second, copy)
    assert [(r["finding"], r["votes"], r["majority"]) for r in mine] == [
        (r["finding"], r["votes"], r["majority"]) for r in theirs
    ]
    second.close()


def test_the_long_form_for_cleanlab(store: Store, tmp_path: Path) -> None:
    import pandas as pd

    task = task_of(store, 5, 3)
    for person in store.people(task):
        say(store, person, {"f0": person.number % 2, "f1": CANNOT_TELL})
    tables.write(store, task, tmp_path / "long.csv", "cleanlab")
    frame = pd.read_csv(tmp_path / "long.csv")
    assert list(frame.columns) == ["task", "annotator", "label"]
    assert frame["label"].dtype == "int64"
    wide = frame.pivot_table("label", "task", "annotator")  # as cleanlab does it
    assert wide.shape == (4, 3)
    assert wide.loc["f0"].tolist() == [1, 0, 1]


def test_files_that_are_not_answers(store: Store, tmp_path: Path) -> None:
    task = task_of(store)
    for name, content in {
        "a.json": b"{}", "b.json": b"[{}]", "c.csv": b"\xff\xfe", "d.parquet": b"no", "e.txt": b"",
        "f.csv": b"finding,annotator,answer,kind\nf0,me,cat,spoon\n",
        "g.csv": b"finding,annotator,label\nnone,me,cat\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError):
            tables.take_in(store, task, tmp_path / name)
    (tmp_path / "plain.csv").write_text("id,annotator,label\nf0,me,cat\nf1,me,dog\n")
    assert tables.take_in(store, task, tmp_path / "plain.csv") == 2
    assert store.rows(task)[0]["choice"] == 0


def test_many_at_once_each_exactly_once(store: Store) -> None:
    """Answers that come together go to the disk together; one that is refused takes no other with it."""
    task = task_of(store, 10, 8, votes=8, extra=0)
    refused = []

    def work(person: Person) -> None:
        for turn in store.next_turns(person, 10):
            with pytest.raises(UserError):
                store.answer(person, turn, 99, None, f"wrong-{turn}")
            refused.append(turn)
            for _ in range(2):  # sent again, as after a lost reply
                assert store.answer(person, turn, person.number % 3, 0.1, f"key-{turn}").stands

    threads = [threading.Thread(target=work, args=(person,)) for person in store.people(task)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = store.rows(task)
    assert len(rows) == store.given(task) == len(refused) == 80
    assert {(row["item"], row["person"]) for row in rows} == {(i, p) for i in store.findings(task) for p in range(1, 9)}
    assert all(row["choice"] == row["person"] % 3 for row in rows)


def test_keys(store: Store) -> None:
    digits = store.add_task("digits", "s", list("0123456789"), [Item("a", PNG)], people=["me"], other=(CANNOT_TELL,))
    keys = keys_for(digits)
    assert all(keys[number] == [str(number)] for number in range(10))  # the class, not its place
    assert keys[CANNOT_TELL] == ["?"]
    words = store.add_task(
        "words", "s", ["cat", "cow", "dog", "ccc"], [Item("a", PNG)], people=["me"], keys={"dog": "c"}
    )
    keys = keys_for(words)
    assert keys[2] == ["c", "3"]
    assert keys[0] == ["a", "1"]
    assert keys[1] == ["o", "2"]
    assert keys[3] == ["4"]  # no letter of it is free
