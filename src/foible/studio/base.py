"""One SQLite file, one connection, one lock. Answers are only ever added; the file refuses to change or delete one.

tasks    what is asked, of which classes, how many votes an image needs
items    the images of a task, as PNG, with the id of the finding; `known` is the answer of an attention check,
         or of an example, which is shown with the guideline and asked of nobody
people   who may answer in a task, each by a link of their own; number 0 is the owner, who decides
turns    one image for one person; `key` is all that a person ever sees of it
answers  who, what, when, how long it took; an answer taken back is one more row, without a choice
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from foible.disk import ordinary
from foible.errors import UserError

OURS, VERSION = 0x466F6962, 1  # "Foib", in the file's header
CANNOT_TELL, NONE_OF_THESE = -1, -2
WORDS = {CANNOT_TELL: "cannot tell", NONE_OF_THESE: "none of these"}
_SCHEMA = """
CREATE TABLE tasks (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, source TEXT NOT NULL,
  run TEXT, question TEXT NOT NULL, guideline TEXT NOT NULL, classes TEXT NOT NULL, keys TEXT NOT NULL,
  other TEXT NOT NULL, votes INTEGER NOT NULL, extra INTEGER NOT NULL, repeats REAL NOT NULL, seed INTEGER NOT NULL,
  made REAL NOT NULL);
CREATE TABLE items (
  id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks, finding TEXT NOT NULL, png BLOB NOT NULL,
  known INTEGER, example INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX items_once ON items (task, finding) WHERE known IS NULL;
CREATE TABLE people (
  id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks, number INTEGER NOT NULL, name TEXT NOT NULL,
  token TEXT UNIQUE, revoked INTEGER NOT NULL DEFAULT 0, UNIQUE (task, number));
CREATE TABLE turns (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, person INTEGER NOT NULL REFERENCES people,
  item INTEGER NOT NULL REFERENCES items, kind TEXT NOT NULL, place REAL NOT NULL, open INTEGER NOT NULL DEFAULT 1);
CREATE INDEX turns_open ON turns (person, place) WHERE open = 1;
CREATE INDEX turns_person ON turns (person, open);
CREATE INDEX turns_item ON turns (item);
CREATE TABLE answers (
  id INTEGER PRIMARY KEY AUTOINCREMENT, turn INTEGER NOT NULL REFERENCES turns, choice INTEGER, at REAL NOT NULL,
  seconds REAL, key TEXT NOT NULL UNIQUE);
CREATE INDEX answers_turn ON answers (turn, id);
CREATE TRIGGER answers_stay BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;
CREATE TRIGGER answers_last BEFORE DELETE ON answers BEGIN SELECT RAISE(ABORT, 'answers are never deleted'); END;
CREATE VIEW standing AS SELECT * FROM answers AS a
  WHERE choice IS NOT NULL AND id = (SELECT max(id) FROM answers AS b WHERE b.turn = a.turn);
"""


class Item(NamedTuple):
    """An image of a task. known: the answer, of an attention check or an example."""

    finding: str
    png: bytes
    known: int | None = None
    example: bool = False


@dataclass(frozen=True)
class Task:
    """A labelling task. other: which answers besides the classes there are, CANNOT_TELL, NONE_OF_THESE or both.
    keys: a key for a class, where it is not the usual one."""

    id: int
    key: str
    name: str
    source: str
    run: str | None
    question: str
    guideline: str
    classes: tuple[str, ...]
    keys: dict[str, str]
    other: tuple[int, ...]
    votes: int
    extra: int
    repeats: float
    seed: int

    def word(self, choice: int) -> str:
        return WORDS[choice] if choice < 0 else self.classes[choice]

    def choice(self, word: str) -> int | None:
        """The number of an answer in words; None where there is none such."""
        if word in self.classes:
            return self.classes.index(word)
        return next((number for number in WORDS if WORDS[number] == word), None)


@dataclass(frozen=True)
class Person:
    id: int
    task: int
    number: int
    name: str
    token: str | None
    revoked: bool


@dataclass(frozen=True)
class Saved:
    """What became of an answer. new: False where it was there already, sent a second time. stands: whether it counts;
    False where another answer to the same turn was there first."""

    new: bool
    stands: bool


@dataclass
class _Waiting:
    """Something to be written, and what became of it."""

    work: Callable[[], Saved]
    result: Saved | None = None
    error: BaseException | None = None
    done: bool = False

    def run(self, base: sqlite3.Connection) -> None:
        base.execute("SAVEPOINT one")
        try:
            self.result = self.work()
        except Exception as error:
            base.execute("ROLLBACK TO one")
            self.error = error
        base.execute("RELEASE one")


class Base:
    """One file, one connection, one lock: a write is on disk when its method returns."""

    def __init__(self, file: str | Path) -> None:
        self.file = ordinary(Path(file))
        self._lock = threading.RLock()
        self._queue: deque[_Waiting] = deque()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            new = not self.file.exists()
            if new:
                self.file.touch(mode=0o600)  # links are in it
            self.base = sqlite3.connect(self.file, timeout=20, isolation_level=None, check_same_thread=False)
            self.base.row_factory = sqlite3.Row
            mine = self.one("PRAGMA application_id")[0], self.one("PRAGMA user_version")[0]
            tables = self.one("SELECT count(*) FROM sqlite_master")[0]
            if tables and mine[0] != OURS:
                raise UserError(f"{str(file)!r} is a database, but not of Foible's Studio: give another --store")
            if tables and mine[1] != VERSION:
                raise UserError(f"{str(file)!r} is of version {mine[1]}, this Foible reads {VERSION}: use its Foible")
            self.base.execute("PRAGMA journal_mode = DELETE")
            self.base.execute("PRAGMA synchronous = FULL")
            self.base.execute("PRAGMA foreign_keys = ON")
            if not tables:
                with self.writing():
                    if not self.one("SELECT count(*) FROM sqlite_master")[0]:
                        for statement in _statements(_SCHEMA):
                            self.base.execute(statement)
                        self.base.execute(f"PRAGMA application_id = {OURS}")
                        self.base.execute(f"PRAGMA user_version = {VERSION}")
        except (sqlite3.DatabaseError, OSError) as error:
            raise UserError(
                f"{str(file)!r} cannot be opened as Studio's file ({error}): give another --store"
            ) from error

    def close(self) -> None:
        with self._lock:
            self.base.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._lock:
            self.base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self.base.execute("COMMIT")
            except BaseException:  # a full disk, too
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")
                raise

    def together(self, work: Callable[[], Saved]) -> Saved:
        """Do `work` in a transaction, together with what others wait for: what comes while a commit is on its way to
        the disk goes into the next one, all of it. What fails leaves nothing behind, and does not touch the others'."""
        mine = _Waiting(work)
        self._queue.append(mine)
        with self._lock:  # whoever gets it does the work of all; the others find theirs done
            if not mine.done:
                some = [self._queue.popleft() for _ in range(len(self._queue))]
                try:
                    with self.writing():
                        for one in some:
                            one.run(self.base)
                except BaseException as error:
                    for one in some:
                        one.error = one.error or error
                    raise
                finally:
                    for one in some:
                        one.done = True
        if mine.error is not None:
            raise mine.error
        assert mine.result is not None
        return mine.result

    def one(self, query: str, *values: Any) -> Any:
        with self._lock, closing(self.base.execute(query, values)) as found:
            return found.fetchone()

    def all(self, query: str, *values: Any) -> list[Any]:
        with self._lock, closing(self.base.execute(query, values)) as found:
            return found.fetchall()


def _statements(schema: str) -> Iterator[str]:
    """The statements of a schema, one by one: executed together they would end the transaction."""
    pending = ""
    for line in schema.splitlines():
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
