"""Who gets which image: everybody's turns, dealt out, taken over and added to. Inside a transaction of its caller."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from foible.studio.base import Base, Task
from foible.studio.sharing import VOTE, in_order, place_between, settled, share_out

AHEAD = 8  # turns that a page is told of at a time
HELD = 2 * AHEAD  # turns that it may know of: these are not taken away, and nothing is put among them


def deal(base: Base, task: Task) -> None:
    """Give every image the votes that it still needs. Whoever has had no turn yet gets checks and repeats too."""
    voters, loads = voters_of(base, task.id)
    asked = "SELECT id FROM items WHERE task = ? AND known IS {} NULL AND example = 0 ORDER BY id"
    active = {person for person in loads if person not in gone(base, task.id)}
    needs = {}
    for (item,) in base.all(asked.format(""), task.id):
        missing = task.votes - len(voters.get(item, ()))
        if missing > 0:
            needs[item] = missing
    pairs = share_out(needs, voters, {person: loads[person] for person in active}, task.seed)
    checks = [item for (item,) in base.all(asked.format("NOT"), task.id)]
    for person in sorted(active):
        mine = [item for who, item in pairs if who == person]
        if loads[person]:
            for item in mine:
                add_later(base, task, person, item)
        else:
            number = base.one("SELECT number FROM people WHERE id = ?", person)[0]
            turns = in_order(mine, checks if mine else [], task.repeats, task.seed, number)
            add_turns(base, [(person, turn.item, turn.kind, place) for place, turn in enumerate(turns)])


def voters_of(base: Base, task: int) -> tuple[dict[int, set[int]], dict[int, int]]:
    """Item to the people who vote on it; and person to how many votes they have."""
    voters: dict[int, set[int]] = {}
    loads = {row[0]: 0 for row in base.all("SELECT id FROM people WHERE task = ? AND number > 0", task)}
    query = "SELECT item, person FROM turns JOIN items ON items.id = item WHERE task = ? AND kind = ?"
    for item, person in base.all(query, task, VOTE):
        voters.setdefault(item, set()).add(person)
        loads[person] += 1
    return voters, loads


def gone(base: Base, task: int) -> set[int]:
    """Who takes no further part: revoked, or answers that came from a file."""
    return {row[0] for row in base.all(
        "SELECT id FROM people WHERE task = ? AND (revoked = 1 OR token IS NULL)", task)}  # fmt: skip


def add_turns(base: Base, rows: Iterable[tuple[int, int, str, float]]) -> None:
    base.base.executemany(
        "INSERT INTO turns (key, person, item, kind, place) VALUES (?, ?, ?, ?, ?)",
        ((secrets.token_urlsafe(12), *row) for row in rows),
    )


def add_later(base: Base, task: Task, person: int, item: int) -> None:
    """One more vote for somebody who has begun: somewhere among what they have left, but after what a page may
    have fetched already."""
    rows = base.all("SELECT place FROM turns WHERE person = ? AND open = 1 ORDER BY place", person)
    places = [row[0] for row in rows]
    last = base.one("SELECT max(place) FROM turns WHERE person = ?", person)[0] or 0
    low = places[HELD] if len(places) > HELD else last
    add_turns(base, [(person, item, VOTE, place_between(low, last + 1, task.seed, person, item))])


def take_over(base: Base, task: Task, person: int) -> None:
    """Open votes of those who have most left go to a newcomer, until nobody has two more."""
    rows = base.all(
        "SELECT turns.id, person, item FROM turns JOIN items ON items.id = item WHERE task = ? AND kind = ? AND "
        "open = 1 AND NOT EXISTS (SELECT 1 FROM answers WHERE turn = turns.id) ORDER BY place", task.id, VOTE,
    )  # fmt: skip
    left: dict[int, list[tuple[int, int]]] = {}
    for turn, who, item in rows:
        left.setdefault(who, []).append((turn, item))
    many, mine = {who: len(some) for who, some in left.items()}, set[int]()
    while able := [who for who in left if left[who] and many[who] > max(len(mine) + 1, HELD)]:
        who = max(able, key=many.__getitem__)
        turn, item = left[who].pop()
        if item not in mine:
            base.base.execute("DELETE FROM turns WHERE id = ?", (turn,))
            many[who] -= 1
            mine.add(item)
    number = base.one("SELECT number FROM people WHERE id = ?", person)[0]
    checks = base.all("SELECT id FROM items WHERE task = ? AND known IS NOT NULL AND example = 0 ORDER BY id", task.id)
    turns = in_order(sorted(mine), [row[0] for row in checks] if mine else [], task.repeats, task.seed, number)
    add_turns(base, [(person, turn.item, turn.kind, place) for place, turn in enumerate(turns)])


def ask_another(base: Base, task: Task, item: int) -> None:
    """One more vote where all have voted and do not agree, as long as there are extra votes, and people."""
    turns = base.all("SELECT person, open FROM turns WHERE item = ? AND kind = ?", item, VOTE)
    if any(row["open"] for row in turns) or not task.votes <= len(turns) < task.votes + task.extra:
        return
    query = "SELECT choice FROM standing JOIN turns ON turns.id = turn WHERE item = ? AND kind = ?"
    if settled([row[0] for row in base.all(query, item, VOTE)], task.votes):
        return
    away = gone(base, task.id)
    query = "SELECT people.id, (SELECT count(*) FROM turns WHERE person = people.id AND open = 1) FROM people"
    loads = base.all(f"{query} WHERE task = ? AND number > 0", task.id)
    active = {person: left for person, left in map(tuple, loads) if person not in away}
    for person, _ in share_out({item: 1}, {item: {row["person"] for row in turns}}, active, task.seed + item):
        add_later(base, task, person, item)
