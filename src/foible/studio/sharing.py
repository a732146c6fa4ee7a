"""Who labels what: balanced shares, an order for each person, and when an image needs another vote. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

VOTE, REPEAT, CHECK, FINAL = "vote", "repeat", "check", "final"
GAP = 8  # images at least between the first sight of one and its repeat, where there are as many


class Turn(NamedTuple):
    """One image for one person."""

    item: int
    kind: str


def share_out(
    needs: Mapping[int, int], seen: Mapping[int, set[int]], loads: Mapping[int, int], seed: int
) -> list[tuple[int, int]]:
    """(person, item) pairs: each item goes to as many people as it needs, none of whom has seen it, and always to those
    with the least to do. So loads that began alike differ by one at most.

    needs: item to number of people. seen: item to the people who have it already. loads: person to what they have to do
    so far; their keys are the people who take part. An item that too few are left for gets fewer.
    """
    draws = np.random.Generator(np.random.Philox(key=[seed & 0xFFFFFFFF, 1]))
    items = sorted(needs)
    order = [items[place] for place in draws.permutation(len(items))]
    people, now = sorted(loads), dict(loads)
    pairs = []
    for item, ties in zip(order, draws.random((len(items), max(1, len(people)))), strict=True):
        there = seen.get(item, set())
        free = [(now[person], tie, person) for person, tie in zip(people, ties, strict=True) if person not in there]
        for _, _, person in sorted(free)[: needs[item]]:
            pairs.append((person, item))
            now[person] += 1
    return pairs


def in_order(votes: Sequence[int], checks: Sequence[int], repeats: float, seed: int, person: int) -> list[Turn]:
    """One person's turns: votes and checks shuffled by (seed, person), and a share of the votes again, later on."""
    draws = np.random.Generator(np.random.Philox(key=[seed & 0xFFFFFFFF, 2 + person]))
    turns = [Turn(item, VOTE) for item in votes] + [Turn(item, CHECK) for item in checks]
    turns = [turns[place] for place in draws.permutation(len(turns))]
    again = [turn.item for turn in turns if turn.kind == VOTE]
    count = min(len(again) // 2, round(repeats * len(again)))
    for item in draws.choice(again[: max(1, len(again) // 2)], count, replace=False).tolist() if count else ():
        first = next(place for place, turn in enumerate(turns) if turn == Turn(item, VOTE))
        turns.insert(int(draws.integers(min(first + GAP, len(turns)), len(turns) + 1)), Turn(item, REPEAT))
    return turns


def place_between(low: float, high: float, seed: int, person: int, item: int) -> float:
    """A place for a turn that comes later, somewhere among what is left: as good as drawn."""
    bits = np.random.SeedSequence([seed & 0xFFFFFFFF, person, item]).generate_state(1)[0]
    return low + (high - low) * (float(bits) + 0.5) / 2**32


def settled(choices: Sequence[int], votes: int) -> bool:
    """Whether people agree on an image: the most frequent answer leads the next by two, or by one where one vote was
    all that was asked for."""
    ranked = [count for _, count in Counter(choices).most_common(2)] + [0, 0]
    return ranked[0] - ranked[1] >= min(2, votes)
