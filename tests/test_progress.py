"""Progress: lines in a log, a bar in a terminal or a notebook, and never anything on standard output."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from foible import progress as module
from foible.progress import Stages, _Lines, duration, progress, roughly


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (7.6, "8 s"), (59.7, "1 min 00 s"), (125, "2 min 05 s"), (3720, "1 h 02 min"), (-1, "0 s")],
)
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_lines_come_at_every_tenth_and_say_how_long_is_left() -> None:
    clock, out = Clock(), io.StringIO()
    bar = _Lines("Hunting", 100, out, clock)
    for _ in range(100):
        clock.now += 0.5
        bar.advance(1, "3 found")
    lines = out.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "Hunting: 10/100  about 45 s left  3 found"
    assert lines[-1] == "Hunting: 100/100  in 50 s  3 found"


def test_what_was_on_disk_already_says_nothing_of_the_time_that_is_left() -> None:
    clock, out = Clock(), io.StringIO()
    bar = _Lines("Hunting", 1000, out, clock, done=900, note="already on disk")
    for _ in range(10):
        clock.now += 2
        bar.advance(1)
    lines = out.getvalue().splitlines()
    assert lines == [
        "Hunting: 900/1000  already on disk", "Hunting: 906/1000  about 3 min 08 s left  already on disk",
    ]  # fmt: skip


def test_the_clock_of_the_work_starts_when_the_work_does() -> None:
    clock, out = Clock(), io.StringIO()
    bar = _Lines("Hunting", 10, out, clock)
    clock.now = 9
    bar.advance(0)  # workers have started
    for _ in range(2):
        clock.now += 1
        bar.advance(1)
    assert out.getvalue().splitlines()[-1] == "Hunting: 2/10  about 8 s left"


def test_parts_of_a_piece_add_up() -> None:
    out = io.StringIO()
    bar = _Lines("Hunting", 3, out, Clock())
    for _ in range(30):
        bar.advance(0.1)
    assert out.getvalue().splitlines()[-1] == "Hunting: 3/3  in 0 s"
    assert "Hunting: 0/3" not in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 seconds"), (80, "80 seconds"), (725, "12 minutes"), (9000, "2.5 hours")]
)
def test_what_is_not_known_exactly_is_said_roughly(seconds: float, said: str) -> None:
    assert roughly(seconds) == said


def test_stages_of_a_unit_go_as_far_as_they_went_the_last_time() -> None:
    clock, told = Clock(), []
    stages = Stages(clock)
    for _ in range(8):
        told.clear()
        stages.begin(10, told.append)
        search = stages.tick("search", 2)  # two of each piece
        for _ in range(20):
            clock.now += 1
            search(1)
        searched = sum(told)
        stages.done("rows")
        shrunk = stages.tick("shrink", 0.5)  # every second piece
        for _ in range(10):
            clock.now += 6
            shrunk(0.5)
        assert 0 < searched < sum(told) <= 10.001
        stages.end()
        assert sum(told) == pytest.approx(10)
    assert searched == pytest.approx(2.5, abs=0.1), "the search is a quarter of the time"


def test_slow_work_says_something_every_ten_seconds() -> None:
    clock, out = Clock(), io.StringIO()
    bar = _Lines("Training", 1000, out, clock)
    bar.advance(1)
    assert out.getvalue() == ""
    clock.now = 10.5
    bar.advance(1)
    assert out.getvalue() == "Training: 2/1000  about 1 h 27 min left\n"


def test_the_last_note_stays_until_another_comes() -> None:
    out = io.StringIO()
    bar = _Lines("Training", 10, out, Clock())
    bar.advance(1, "accuracy 0.9")
    bar.advance(1)
    assert all(line.endswith("accuracy 0.9") for line in out.getvalue().splitlines())


def test_no_work_and_too_much_work_are_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Nothing", 0):
        pass
    with progress("More than said", 1) as bar:
        bar.advance(5)
    assert "5/1" in capsys.readouterr().err


def test_a_pipe_gets_plain_lines_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Hunting", 4) as bar:
        bar.advance(4, "done")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Hunting: 4/4")
    assert "\x1b" not in captured.err


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Hunting", 4, quiet=True) as bar:
        bar.advance(4)
    assert capsys.readouterr() == ("", "")


def test_a_program_without_standard_error_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress("Hunting", 4) as bar:
        bar.advance(4)


def test_a_terminal_gets_a_bar_and_nested_bars_share_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress("Outer [bold]", 2) as outer:
        with progress("Inner", 3) as inner:
            inner.advance(3)
            live = module._live.get()
            assert live is not None
            assert [task.description for task in live.tasks][1] == "  Inner"
            assert live.tasks[1].completed == 3
        assert len(live.tasks) == 1
        outer.advance(2, "note [red]")
    assert module._live.get() is None
    text = terminal.getvalue()
    assert "Outer [bold]" in text  # a name is text, never markup
    assert "note [red]" in text
    assert "2/2" in text


def test_an_error_inside_a_bar_leaves_no_display_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with pytest.raises(KeyboardInterrupt), progress("Hunting", 2):
        raise KeyboardInterrupt
    assert module._live.get() is None
    with progress("Again", 1) as bar:
        bar.advance()


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    with progress("Hunting", 1) as bar:
        bar.advance()
    assert terminal.getvalue() == "Hunting: 1/1  in 0 s\n"


def test_a_notebook_gets_a_bar_that_is_redrawn_and_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, bundle: dict[str, str], raw: bool) -> None:
            assert raw
            shown.append(bundle)

    def display(bundle: dict[str, str], **options: Any) -> Handle:
        assert options == {"raw": True, "display_id": True}
        shown.append(bundle)
        return Handle()

    ipython, part = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    part.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", part)
    with progress("Hunting", 2) as bar:
        bar.advance(2, "<script>")
    assert shown[0]["text/plain"].startswith("Hunting: 0/2")
    assert 'value="2" max="2"' in shown[-1]["text/html"]
    assert "&lt;script&gt;" in shown[-1]["text/html"]
    assert "<script>" not in shown[-1]["text/html"]


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert module._notebook_display() is None
