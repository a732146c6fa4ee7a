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

    def advance(self, amount: int = 1, note: str = "") -> None:
        """`amount` more pieces are done; `note` is shown beside the bar until the next one."""


class _Silent:
    def advance(self, amount: int = 1, note: str = "") -> None:
        del amount, note


def duration(seconds: float) -> str:
    """A length of time as people say it: `8 s`, `2 min 05 s`, `1 h 02 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


class _Count:
    """How much is done, and what can be said of the time: the part that lines and notebooks share."""

    def __init__(self, what: str, total: int, clock: Clock) -> None:
        self.what, self.total, self.clock = what, total, clock
        self.done, self.note = 0, ""
        self.start = self.last = clock()

    def add(self, amount: int, note: str) -> float:
        """Count `amount`; return the seconds since something was last shown."""
        self.done += amount
        self.note = note or self.note
        return self.clock() - self.last

    def text(self) -> str:
        self.last = self.clock()
        spent = self.last - self.start
        if self.done >= self.total:
            time_said = f"in {duration(spent)}"
        elif self.done and spent >= 1:
            time_said = f"about {duration(spent / self.done * (self.total - self.done))} left"
        else:
            time_said = ""
        return "  ".join(part for part in (f"{self.what}: {self.done}/{self.total}", time_said, self.note) if part)


class _Lines(_Count):
    """A line when a tenth of the work is done, and at least every ten seconds."""

    def __init__(self, what: str, total: int, stream: TextIO, clock: Clock = time.monotonic) -> None:
        super().__init__(what, total, clock)
        self.stream, self.shown = stream, 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        waited = self.add(amount, note)
        tenths = 10 * self.done // max(self.total, 1)
        if tenths > self.shown or waited > 10:
            self.shown = tenths
            print(self.text(), file=self.stream, flush=True)


class _Notebook(_Count):
    """A bar in the cell's output, redrawn in place; needs no widgets."""

    def __init__(self, what: str, total: int, display: Callable[..., Any], clock: Clock = time.monotonic) -> None:
        super().__init__(what, total, clock)
        self.handle = display(self.bundle(), raw=True, display_id=True)

    def bundle(self) -> dict[str, str]:
        text = self.text()
        bar = f'<progress value="{self.done}" max="{max(self.total, 1)}"></progress>'
        return {"text/plain": text, "text/html": f"{bar} {html.escape(text)}"}

    def advance(self, amount: int = 1, note: str = "") -> None:
        if self.add(amount, note) > 0.2 or self.done >= self.total:
            self.handle.update(self.bundle(), raw=True)


class _Rich:
    def __init__(self, live: Progress, task: TaskID) -> None:
        self.live, self.task = live, task

    def advance(self, amount: int = 1, note: str = "") -> None:
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
def _rich_bar(what: str, total: int, stream: TextIO) -> Iterator[Bar]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    outer = _live.get()
    if outer is not None:
        task = outer.add_task(f"  {escape(what)}", total=total, note="")
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
            yield _Rich(live, live.add_task(escape(what), total=total, note=""))
        finally:
            _live.reset(token)


@contextmanager
def progress(what: str, total: int, *, quiet: bool = False) -> Iterator[Bar]:
    """A bar for `total` pieces of work called `what`; `bar.advance(n, note)` moves it. Bars may nest."""
    from foible.text import shown

    stream, what = sys.stderr, shown(what)  # it may name a network or a file
    if quiet or stream is None:
        yield _Silent()
    elif (display := _notebook_display()) is not None:
        yield _Notebook(what, total, display)
    elif stream.isatty() and os.environ.get("TERM") != "dumb":
        with _rich_bar(what, total, stream) as bar:
            yield bar
    else:
        yield _Lines(what, total, stream)
