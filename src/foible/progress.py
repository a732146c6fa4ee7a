"""One progress bar for every long step: rich in a terminal, HTML in a notebook, plain lines elsewhere.

All write to standard error or to the notebook's cell, so that standard output holds results alone.
"""

from __future__ import annotations

import html
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Clock = Callable[[], float]


class Bar(Protocol):
    """What a long step moves as it goes."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """`amount` more pieces are done, or parts of one; `note` is shown beside the bar until the next one."""


class _Silent:
    def advance(self, amount: float = 1, note: str = "") -> None:
        del amount, note


def duration(seconds: float) -> str:
    """A length of time as people say it: `8 s`, `2 min 05 s`, `1 h 02 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def roughly(seconds: float) -> str:
    """A length of time that is not known exactly: `40 seconds`, `12 minutes`, `3.5 hours`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} seconds"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


class _Count:
    """How much is done, and what can be said of the time: the part that lines and notebooks share. Of what was done
    before nobody knows how long it took: it tells nothing of the time that is left."""

    def __init__(self, what: str, total: int, clock: Clock, done: int = 0, note: str = "") -> None:
        self.what, self.total, self.clock = what, total, clock
        self.done, self.before, self.note = float(done), done, note
        self.start = self.last = clock()

    def add(self, amount: float, note: str) -> float:
        """Count `amount`; return the seconds since something was last shown. None at all means that work begins."""
        if not amount and self.done == self.before:
            self.start = self.clock()
        self.done += amount
        self.note = note or self.note
        return self.clock() - self.last

    def text(self) -> str:
        self.last = self.clock()
        spent, now = self.last - self.start, self.done - self.before
        if self.whole >= self.total:
            time_said = f"in {duration(spent)}"
        elif now > 0 and spent >= 1:
            time_said = f"about {duration(spent / now * (self.total - self.done))} left"
        else:
            time_said = ""
        return "  ".join(part for part in (f"{self.what}: {self.whole}/{self.total}", time_said, self.note) if part)

    @property
    def whole(self) -> int:
        """Pieces that are done entirely; parts that add up to one may lack its last bit."""
        return int(self.done + 1e-6)


class _Lines(_Count):
    """A line when a tenth of the work is done, and at least every ten seconds."""

    def __init__(
        self, what: str, total: int, stream: TextIO, clock: Clock = time.monotonic, done: int = 0, note: str = ""
    ) -> None:
        super().__init__(what, total, clock, done, note)
        self.stream, self.shown = stream, 10 * self.whole // max(total, 1)
        if done:
            print(self.text(), file=stream, flush=True)

    def advance(self, amount: float = 1, note: str = "") -> None:
        waited = self.add(amount, note)
        tenths = 10 * self.whole // max(self.total, 1)
        if tenths > self.shown or waited > 10:
            self.shown = tenths
            print(self.text(), file=self.stream, flush=True)


class _Notebook(_Count):
    """A bar in the cell's output, redrawn in place; needs no widgets."""

    def __init__(
        self, what: str, total: int, display: Callable[..., Any], clock: Clock = time.monotonic, done: int = 0,
        note: str = "",
    ) -> None:  # fmt: skip
        super().__init__(what, total, clock, done, note)
        self.handle = display(self.bundle(), raw=True, display_id=True)

    def bundle(self) -> dict[str, str]:
        text = self.text()
        bar = f'<progress value="{self.whole}" max="{max(self.total, 1)}"></progress>'
        return {"text/plain": text, "text/html": f"{bar} {html.escape(text)}"}

    def advance(self, amount: float = 1, note: str = "") -> None:
        if self.add(amount, note) > 0.2 or self.whole >= self.total:
            self.handle.update(self.bundle(), raw=True)


class _Rich:
    def __init__(self, live: Progress, task: TaskID) -> None:
        self.live, self.task = live, task

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.live.advance(self.task, amount)
        if note:
            self.live.update(self.task, note=note)


# A terminal holds one live display: a bar opened inside another one joins it.
_live: ContextVar[Progress | None] = ContextVar("foible_progress", default=None)


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` inside a notebook's kernel, else None; never imports IPython itself."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from importlib import import_module

    display: Callable[..., Any] = import_module("IPython.display").display
    return display


@contextmanager
def _rich_bar(what: str, total: int, stream: TextIO, done: int, note: str) -> Iterator[Bar]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    outer = _live.get()
    if outer is not None:
        task = outer.add_task(f"  {escape(what)}", total=total, completed=done, note=note)
        try:
            yield _Rich(outer, task)
        finally:
            outer.remove_task(task)
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True), TextColumn("{task.fields[note]}", markup=False),
    )  # fmt: skip
    with Progress(*columns, console=Console(file=stream)) as live:
        token = _live.set(live)
        try:
            yield _Rich(live, live.add_task(escape(what), total=total, completed=done, note=note))
        finally:
            _live.reset(token)


@contextmanager
def progress(what: str, total: int, *, done: int = 0, quiet: bool = False) -> Iterator[Bar]:
    """A bar for `total` pieces of work called `what`; `bar.advance(n, note)` moves it. Bars may nest.

    done: pieces that need no more work, because they are on disk already.
    """
    from foible.text import shown

    stream, note = sys.stderr, f"{done:,} already on disk" if done else ""
    what = shown(what)  # it may name a network or a file
    if quiet or stream is None:
        yield _Silent()
    elif (display := _notebook_display()) is not None:
        yield _Notebook(what, total, display, done=done, note=note)
    elif stream.isatty() and os.environ.get("TERM") != "dumb":
        with _rich_bar(what, total, stream, done, note) as bar:
            yield bar
    else:
        yield _Lines(what, total, stream, done=done, note=note)


class Stages:
    """How far a unit of work is, where one thing after another is done with all of its pieces. What share of the whole
    each stage is, is what it was the last time."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.clock = clock
        self.shares = {"search": 0.6, "rows": 0.1, "settle": 0.1, "shrink": 0.2}
        self.begin(0, lambda _: None)

    def begin(self, pieces: int, tell: Callable[[float], None]) -> None:
        """A unit of so many pieces begins; `tell(k)` hears of k further ones."""
        self.pieces, self.tell, self.told = pieces, tell, 0.0
        self.took, self.last = dict.fromkeys(self.shares, 0.0), self.clock()

    def tick(self, stage: str, each: float = 1) -> Callable[[float], None]:
        """To be called with what was done in this stage, which in all is `each` for a piece."""
        begin = sum(share for name, share in self.shares.items() if name not in self._after(stage))
        whole, done = self.pieces * each, 0.0

        def heard(amount: float) -> None:
            nonlocal done
            done += amount
            self._reach(begin + self.shares[stage] * min(1.0, done / whole if whole else 1.0))
            self._note(stage)

        return heard

    def done(self, stage: str) -> None:
        """A stage is over."""
        self._note(stage)
        self._reach(1 - sum(self.shares[name] for name in self._after(stage)[1:]))

    def end(self) -> None:
        """All is done; what comes last took no time to speak of."""
        self._reach(1.0)
        whole = sum(self.took.values())
        if whole > 0:
            self.shares = {name: (share + self.took[name] / whole) / 2 for name, share in self.shares.items()}

    def _after(self, stage: str) -> list[str]:
        """This stage and those that come after it."""
        names = list(self.shares)
        return names[names.index(stage) :]

    def _note(self, stage: str) -> None:
        now = self.clock()
        self.took[stage] += now - self.last
        self.last = now

    def _reach(self, share: float) -> None:
        far = share * self.pieces
        if far > self.told:
            self.tell(far - self.told)
            self.told = far
