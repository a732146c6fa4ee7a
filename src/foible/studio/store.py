"""What people said: tasks, who takes part, their turns, and answers, which are only ever added."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foible.errors import UserError
from foible.images import png_size
from foible.studio.base import Base, Item, Person, Saved, Task
from foible.studio.dealing import AHEAD, add_turns, ask_another, deal, take_over
from foible.studio.sharing import CHECK, FINAL, VOTE, settled


class Store(Base):
    """The labelling of one Studio. A write is on disk when its method returns."""

    # Tasks

    def add_task(
        self, name: str, source: str, classes: Sequence[str], items: Iterable[Item], *,
        run: str | None = None, question: str = "What do you see?", guideline: str = "", people: Sequence[str] = (),
        keys: Mapping[str, str] | None = None, other: Sequence[int] = (), votes: int = 1, extra: int = 2,
        repeats: float = 0.0, seed: int = 0,
    ) -> Task:  # fmt: skip
        """A new task, with everybody's turns dealt out."""
        if not 1 <= votes <= max(1, len(people)):
            raise UserError(
                f"{votes} votes an image of {len(people)} people: expected 1 to as many as there are people"
            )
        if not 0 <= repeats <= 0.5 or extra < 0:
            raise UserError(f"repeats {repeats:g}, extra {extra}: expected a share up to 0.5, and 0 or more")
        if len({*classes}) < 2:
            raise UserError(f"{len({*classes})} classes to choose from: expected at least two, with different names")
        if self.task(name) is not None:
            raise UserError(f"there is a task {name!r} in {str(self.file)!r} already: give another --task")
        row = (
            secrets.token_urlsafe(9), name, source, run, question, guideline, json.dumps(list(classes)),
            json.dumps(dict(keys or {})), json.dumps(list(other)), votes, extra, repeats, seed, time.time(),
        )  # fmt: skip
        with self.writing():
            columns = "key, name, source, run, question, guideline, classes, keys, other, votes, extra, repeats, seed"
            made = self.base.execute(f"INSERT INTO tasks ({columns}, made) VALUES ({_marks(len(row))})", row)
            task = int(made.lastrowid or 0)
            self.base.executemany(
                "INSERT INTO items (task, finding, png, known, example) VALUES (?, ?, ?, ?, ?)",
                ((task, *item) for item in items),
            )
            count = self.one("SELECT count(*) FROM items WHERE task = ? AND known IS NULL", task)[0]
            if not count:
                raise UserError(f"{source!r} has no image to label: expected findings with images, or a data set")
            self._add_person(task, 0, "owner", None)
            for number, called in enumerate(people, 1):
                self._add_person(task, number, called, secrets.token_urlsafe(18))
            deal(self, self.by_id(task))
        found = self.task(name)
        assert found is not None
        return found

    def task(self, which: str | int, by: str = "name") -> Task | None:
        """A task by its `name`, `key` or `id`."""
        row = self.one(f"SELECT * FROM tasks WHERE {by} = ?", which)
        if row is None:
            return None
        kept = {name: row[name] for name in row.keys() if name != "made"}  # noqa: SIM118
        lists = {name: tuple(json.loads(row[name])) for name in ("classes", "other")}
        return Task(**{**kept, **lists, "keys": json.loads(row["keys"])})

    def by_id(self, id: int) -> Task:
        found = self.task(id, "id")
        assert found is not None
        return found

    def tasks(self) -> list[Task]:
        found = (self.task(row["id"], "id") for row in self.all("SELECT id FROM tasks ORDER BY id"))
        return [task for task in found if task is not None]

    # People

    def _add_person(self, task: int, number: int, name: str, token: str | None) -> int:
        row = (task, number, name[:200], token)
        made = self.base.execute("INSERT INTO people (task, number, name, token) VALUES (?, ?, ?, ?)", row)
        return int(made.lastrowid or 0)

    def people(self, task: Task) -> list[Person]:
        """All but the owner."""
        rows = self.all("SELECT * FROM people WHERE task = ? AND number > 0 ORDER BY number", task.id)
        return [_person(row) for row in rows]

    def person_with(self, token: str) -> Person | None:
        """Who has this link; nobody where it was revoked."""
        row = self.one("SELECT * FROM people WHERE token = ? AND revoked = 0", token)
        return None if row is None else _person(row)

    def add_person(self, task: Task, name: str, *, link: bool = True) -> Person:
        """One more, who takes over a fair share of what the others have left."""
        with self.writing():
            number = 1 + self.one("SELECT max(number) FROM people WHERE task = ?", task.id)[0]
            id = self._add_person(task.id, number, name, secrets.token_urlsafe(18) if link else None)
            if link:
                take_over(self, task, id)
        return next(person for person in self.people(task) if person.id == id)

    def rename(self, person: Person, name: str) -> None:
        with self.writing():
            self.base.execute("UPDATE people SET name = ? WHERE id = ?", (name[:200], person.id))

    def revoke(self, person: Person) -> None:
        """Their link is dead, their answers stay, and what they had left goes to the others."""
        with self.writing():
            self.base.execute("UPDATE people SET revoked = 1 WHERE id = ?", (person.id,))
            self.base.execute("DELETE FROM turns WHERE person = ? AND open = 1 AND NOT EXISTS "
                               "(SELECT 1 FROM answers WHERE turn = turns.id)", (person.id,))  # fmt: skip
            self.base.execute(  # taken back and never answered again: no vote, and not to be waited for
                "UPDATE turns SET kind = 'gone', open = 0 WHERE person = ? AND open = 1", (person.id,)
            )
            deal(self, self.by_id(person.task))

    # Turns

    def next_turns(self, person: Person, count: int = AHEAD) -> list[str]:
        """Keys of what comes next."""
        return [key for key, _ in self.next_heads(person, count)]

    def next_heads(self, person: Person, count: int = AHEAD) -> list[tuple[str, bytes]]:
        """Keys of what comes next, and the first bytes of each image, which say how large it is."""
        query = "SELECT turns.key, substr(png, 1, 32) FROM turns JOIN items ON items.id = item WHERE person = ? AND "
        return [
            (row[0], bytes(row[1])) for row in self.all(f"{query}open = 1 ORDER BY place LIMIT ?", person.id, count)
        ]

    def progress(self, person: Person) -> tuple[int, int]:
        """How many turns are answered, and how many there are."""
        row = self.one("SELECT sum(1 - open), count(*) FROM turns WHERE person = ?", person.id)
        return row[0] or 0, row[1]

    def image(self, person: Person, key: str) -> bytes | None:
        """The PNG of one of a person's turns."""
        query = "SELECT png FROM items JOIN turns ON items.id = item WHERE turns.key = ? AND person = ?"
        row = self.one(query, key, person.id)
        return None if row is None else bytes(row[0])

    def examples(self, task: Task) -> list[tuple[int, int]]:
        """(item, class) of the images that the guideline shows."""
        query = "SELECT id, known FROM items WHERE task = ? AND example = 1 ORDER BY known, id"
        return [tuple(row) for row in self.all(query, task.id)]

    def side(self, task: Task) -> int:
        """How many pixels wide or high the images are, by the first."""
        return max(png_size(self.one("SELECT substr(png, 1, 32) FROM items WHERE task = ?", task.id)[0]) or (1, 1))

    def item_image(self, task: Task, item: int) -> bytes | None:
        row = self.one("SELECT png FROM items WHERE id = ? AND task = ?", item, task.id)
        return None if row is None else bytes(row[0])

    # Answers

    def answer(self, person: Person, turn: str, choice: int | None, seconds: float | None, key: str) -> Saved:
        """Add an answer; None takes the last one back. key: the sender's own name for this very answer: sent again, it
        is not added again. The turn's first answer stands until it is taken back."""
        return self.together(lambda: self._answer(person, turn, choice, seconds, key))

    def _answer(self, person: Person, turn: str, choice: int | None, seconds: float | None, key: str) -> Saved:
        row = self.one("SELECT id, item, kind, open FROM turns WHERE key = ? AND person = ?", turn, person.id)
        if row is None:
            raise UserError("this image is not one of yours")
        task = self.by_id(person.task)
        if choice is not None and not 0 <= choice < len(task.classes) and choice not in task.other:
            raise UserError("this is not one of the choices")
        there = self.one("SELECT turn, choice FROM answers WHERE key = ?", key)
        if there is not None:
            return Saved(False, (there["turn"], there["choice"]) == (row["id"], choice))
        if bool(row["open"]) == (choice is None):
            return Saved(False, False)
        self.base.execute(
            "INSERT INTO answers (turn, choice, at, seconds, key) VALUES (?, ?, ?, ?, ?)",
            (row["id"], choice, _now(), None if seconds is None else round(seconds, 3), key),
        )
        self.base.execute("UPDATE turns SET open = ? WHERE id = ?", (int(choice is None), row["id"]))
        if choice is not None and row["kind"] == VOTE:
            ask_another(self, task, row["item"])
        return Saved(True, True)

    def last_answered(self, person: Person) -> str | None:
        """The turn that was answered last and still is: what an undo takes back."""
        row = self.one(
            "SELECT turns.key FROM standing JOIN turns ON turns.id = turn WHERE person = ? ORDER BY standing.id DESC "
            "LIMIT 1", person.id,
        )  # fmt: skip
        return None if row is None else str(row[0])

    def decide(self, task: Task, item: int, choice: int, key: str) -> None:
        """The owner's word on an image that people do not agree on; a later one stands over an earlier."""
        if self.item_image(task, item) is None or choice not in (*range(len(task.classes)), *task.other):
            raise UserError("this is no image of the task, or none of the choices")
        with self.writing():
            owner = self.one("SELECT id FROM people WHERE task = ? AND number = 0", task.id)[0]
            row = self.one("SELECT id FROM turns WHERE item = ? AND person = ? AND kind = ?", item, owner, FINAL)
            if row is None:
                add_turns(self, [(owner, item, FINAL, 0.0)])
                row = self.one("SELECT id FROM turns WHERE item = ? AND person = ? AND kind = ?", item, owner, FINAL)
            if self.one("SELECT 1 FROM answers WHERE key = ?", key) is None:
                values = (row[0], choice, _now(), None, key)
                self.base.execute("INSERT INTO answers (turn, choice, at, seconds, key) VALUES (?, ?, ?, ?, ?)", values)
                self.base.execute("UPDATE turns SET open = 0 WHERE id = ?", (row[0],))

    def rows(self, task: Task) -> list[dict[str, Any]]:
        """Every answer that stands, in the order given: item, finding, person (number), name, kind, choice, known, at,
        seconds."""
        return [dict(row) for row in self.all(
            "SELECT item, finding, number AS person, people.name AS name, kind, choice, known, at, seconds, "
            "standing.key AS key FROM standing JOIN turns ON turns.id = turn JOIN items ON items.id = item "
            "JOIN people ON people.id = person WHERE items.task = ? ORDER BY standing.id", task.id)]  # fmt: skip

    def latest(self, task: Task) -> tuple[int, ...]:
        """What changes with every answer, and with everybody who comes or goes."""
        last = self.one("SELECT coalesce(max(id), 0) FROM answers")[0]
        people = self.one("SELECT count(*), sum(revoked), sum(length(name)) FROM people WHERE task = ?", task.id)
        return (last, *people)

    def given(self, task: Task) -> int:
        """How many rows of answers there are, those taken back and the taking back among them."""
        query = "SELECT count(*) FROM answers JOIN turns ON turns.id = turn JOIN people ON people.id = person"
        return int(self.one(f"{query} WHERE task = ?", task.id)[0])

    def findings(self, task: Task) -> dict[int, str]:
        """Items that are asked about (no checks), with their findings."""
        query = "SELECT id, finding FROM items WHERE task = ? AND known IS NULL ORDER BY id"
        return dict(map(tuple, self.all(query, task.id)))

    def disputed(self, task: Task, rows: Iterable[Mapping[str, Any]] | None = None) -> list[int]:
        """The adjudication queue: items that all have voted on, that nobody agrees on, and that nobody decided.
        rows: what `rows` says, where that is known already."""
        query = "SELECT DISTINCT item FROM turns JOIN items ON items.id = item WHERE task = ? AND "
        waiting = {row[0] for row in self.all(f"{query}(kind = ? AND open = 1 OR kind = ?)", task.id, VOTE, FINAL)}
        choices: dict[int, list[int]] = {}
        for row in self.rows(task) if rows is None else rows:
            if row["kind"] == VOTE and row["item"] not in waiting:
                choices.setdefault(row["item"], []).append(row["choice"])
        return sorted(item for item, some in choices.items() if not settled(some, task.votes))

    def take_in(self, task: Task, rows: Iterable[Mapping[str, Any]]) -> int:
        """Answers from elsewhere, as `foible.studio.tables` reads them: under their own names and times, as people
        without a link. What is here already is not taken twice. How many were new."""
        items = {finding: item for item, finding in self.findings(task).items()}
        checks = {row["finding"]: row["id"] for row in self.all(
            "SELECT id, finding FROM items WHERE task = ? AND known IS NOT NULL AND example = 0", task.id)}  # fmt: skip
        count = 0
        with self.writing():
            names = {row["name"]: row["id"] for row in self.all("SELECT id, name FROM people WHERE task = ?", task.id)}
            for row in rows:
                item = (checks if row["kind"] == CHECK else items).get(row["finding"])
                choice = task.choice(row["answer"])
                if item is None or choice is None:
                    what = "an image" if item is None else "a class"
                    raise UserError(f"{row['finding']!r}, called {row['answer']!r}: {what} that the task {task.name!r} "
                                    "does not have: is the file of another task?")  # fmt: skip
                if self.one("SELECT 1 FROM answers WHERE key = ?", row["key"]) is not None:
                    continue
                who = names.get(row["annotator"])
                if who is None:
                    number = 1 + self.one("SELECT max(number) FROM people WHERE task = ?", task.id)[0]
                    who = names[row["annotator"]] = self._add_person(task.id, number, row["annotator"], None)
                key = secrets.token_urlsafe(12)
                made = self.base.execute(
                    "INSERT INTO turns (key, person, item, kind, place, open) VALUES (?, ?, ?, ?, 0, 0)",
                    (key, who, item, row["kind"]),
                )
                values = (made.lastrowid, choice, row["at"], row["seconds"], row["key"])
                self.base.execute("INSERT INTO answers (turn, choice, at, seconds, key) VALUES (?, ?, ?, ?, ?)", values)
                count += 1
        return count


def _now() -> float:
    """Seconds since 1970, to the millisecond: what every export keeps."""
    return round(time.time(), 3)


def _person(row: Any) -> Person:
    return Person(row["id"], row["task"], row["number"], row["name"], row["token"], bool(row["revoked"]))


def _marks(count: int) -> str:
    return ", ".join("?" * count)
