"""Which lanes a unit does, and how many of them: no more than take about half a minute, by what was measured so far.

Unit sizes are no setting: a lane's rows do not depend on them, and a run is the set of its shards, whoever sized them.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

SECONDS = 25.0  # that a unit should take: at most about half a minute, some lanes being slower than others
SPARE = 1.25  # times as many lanes may be in the last units, if all workers then end together
ROUNDS = 3  # units that each worker is still to do when that is seen to
TELLING = 2.0  # seconds of a unit that say what others will take: less is mostly the beginning of each
NAME = re.compile(r"unit-([0-9]{3,6})-([0-9]{9,11})-([0-9]{9,11})")
NUMBERED = re.compile(r"unit-([0-9]{6,8})")  # of runs that were made before shards were named by their lanes


class Span(NamedTuple):
    """Lanes `first` to `end` of one part of a run: what a unit does, and a shard holds."""

    part: int
    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first

    @property
    def name(self) -> str:
        """Of its files; in alphabetical order spans are in the order of their rows."""
        return f"unit-{self.part:03d}-{self.first:09d}-{self.end:09d}"

    @staticmethod
    def called(name: str) -> Span | None:
        """The span with this name; None where it is no name of ours."""
        found = NAME.fullmatch(name)
        span = Span(*map(int, found.groups())) if found else None
        return span if span is not None and span.name == name else None

    def inside(self, other: Span) -> bool:
        """Whether all of its lanes are among those of the other."""
        return self.part == other.part and other.first <= self.first < self.end <= other.end

    def within(self, lanes: Sequence[int]) -> bool:
        """Whether a run whose parts have so many lanes has these; a run without any has one empty unit."""
        if not self.size:
            return self == EMPTY and not any(lanes)
        return self.part < len(lanes) and 0 <= self.first < self.end <= lanes[self.part]


EMPTY = Span(0, 0, 0)


def numbered(number: int, lanes: Sequence[int], size: int) -> Span | None:
    """The lanes of a unit that goes by its number, where all have `size`; None where there are not so many."""
    for part, count in enumerate(lanes):
        units = -(-count // size)
        if number < units:
            return Span(part, number * size, min((number + 1) * size, count))
        number -= units
    return EMPTY if number == 0 and not any(lanes) else None


def gaps(done: Iterable[Span], lanes: Sequence[int]) -> list[Span]:
    """What is missing of parts with so many lanes, in order."""
    done = sorted(done)
    if not any(lanes):
        return [] if done else [EMPTY]
    found = []
    for part, count in enumerate(lanes):
        at = 0
        for span in done:
            if span.part == part:
                if span.first > at:
                    found.append(Span(part, at, span.first))
                at = max(at, span.end)
        if at < count:
            found.append(Span(part, at, count))
    return found


def without(spans: Iterable[Span], out: Iterable[Span]) -> list[Span]:
    """What is left of some lanes once those of `out` are cut out of them."""
    found = []
    for span in spans:
        at = span.first
        for hole in sorted(one for one in out if one.inside(span)):
            if hole.first > at:
                found.append(Span(span.part, at, hole.first))
            at = hole.end
        if at < span.end or not span.size:
            found.append(Span(span.part, at, span.end))
    return found


class Plan:
    """Cuts what is missing into units. The first of each worker is small; then they are as large as fits `SECONDS`."""

    def __init__(
        self, missing: Sequence[Span], *, first: int, least: int, most: int, workers: int = 1,
        begun: Sequence[Span] = (),
    ) -> None:  # fmt: skip
        """first: lanes of a first unit. least: fewer take as long. most: what memory holds; where it is `least`, every
        unit has so many. begun: units among what is missing that were broken off, and go on as they are."""
        self.begun, self.resumed, missing = deque(begun), frozenset(begun), without(missing, begun)
        self.gaps, self.first, self.least, self.most = deque(missing), first, least, max(least, most)
        self.workers, self.pace, self.shared, self.reached = workers, 0.0, False, 0
        self.measured: list[tuple[int, float]] = []  # lanes and seconds of the last two units
        self.heard: Callable[[float], None] | None = None  # told once what a lane takes, when that is known well enough

    def next(self) -> Span | None:
        """The lanes of the next unit; None where all are taken."""
        if self.begun:
            self.reached = max(self.reached, self.begun[0].end)
            return self.begun.popleft()
        if not self.gaps:
            return None
        if self.pace and self.workers > 1 and self.least < self.most and not self.shared:
            self._share()
        gap = self.gaps.popleft()
        size = gap.size if self.shared else self._size(gap.size)
        if size < gap.size:
            self.gaps.appendleft(Span(gap.part, gap.first + size, gap.end))
        span = Span(gap.part, gap.first, min(gap.end, gap.first + size))
        self.reached = max(self.reached, span.end)
        return span

    @property
    def left(self) -> int:
        """Lanes that no unit has taken yet."""
        return sum(gap.size for gap in (*self.begun, *self.gaps))

    def fits(self, times: float = 1.0) -> int:
        """Lanes that take `SECONDS`, or so many times that, by the last measure, and by how much more it took than a
        smaller unit: most of a small one is the same for a larger one."""
        (size, took), (less, before) = self.measured[-1], self.measured[0]
        each = self.pace
        if size > less and took < SECONDS:
            each = max((took - before) / (size - less), self.pace / 8)
        return max(self.least, min(self.most, int(times * (size + (SECONDS - took) / each))))

    def _size(self, left: int) -> int:
        if self.least == self.most:
            return self.most
        if not self.pace:
            return min(self.first, self.most)
        return max(self.least, -(-left // -(-left // self.fits()))) if left else 0

    def _share(self) -> None:
        """Once few units are left: they are cut so that all workers end together."""
        whole = len(self.gaps) // self.workers * self.workers
        last = list(self.gaps)[whole:]
        for rounds in range(1, ROUNDS + 1):
            pieces = list(self.gaps)[:whole]
            for gap in last:
                size = max(self.least, -(-gap.size // (rounds * -(-self.workers // len(last)))))
                pieces += [Span(gap.part, at, min(at + size, gap.end)) for at in range(gap.first, gap.end, size)]
            if pieces and max(piece.size for piece in pieces) <= self.fits(SPARE):
                self.gaps, self.shared = deque(pieces), True
                return

    def took(self, span: Span, seconds: float) -> None:
        """A unit took so long. One that went on from somewhere tells nothing of others."""
        if span in self.resumed:
            return
        if span.size:
            self.pace = max(1e-9, seconds / span.size)
            self.measured = [*self.measured[-1:], (span.size, seconds)]
        if seconds >= TELLING and self.heard is not None:
            self.heard(self.pace)
            self.heard = None
