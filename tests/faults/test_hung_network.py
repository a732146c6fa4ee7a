"""A network that never answers: one Ctrl-C, or one request to end, is enough, wherever it hangs."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from small_tasks import Task, alive, descendants, linear_task, start, wait_for

from foible.data.stream import Threads, in_order

SOON = 5.0  # seconds; two on a machine that does nothing else

HUNG = """
import multiprocessing, threading, time
from pathlib import Path
from foible.testing import linear_network

def net():
    inner = linear_network(0)
    def forward(x):
        apart = multiprocessing.parent_process() is not None
        aside = threading.current_thread() is not threading.main_thread()
        if WHEN:
            Path(MARKER).touch()
            time.sleep(1000)
        return inner(x).detach()
    return forward
"""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return linear_task(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl-C to whole groups of processes")
@pytest.mark.parametrize(
    ("verb", "when", "stop"),
    [
        ("compare", "aside and len(x) > 16", signal.SIGINT),
        ("compare", "True", signal.SIGTERM),
        ("hunt --workers 1 --trials 40", "not aside and len(x) > 16", signal.SIGINT),
        ("hunt --workers 2 --trials 40 --unit 20", "apart", signal.SIGTERM),
        ("distort --source odd --images 40", "not aside", signal.SIGINT),
    ],
)
def test_one_signal_is_enough(verb: str, when: str, stop: signal.Signals, task: Task, tmp_path: Path) -> None:
    marker = tmp_path / "asleep"
    (tmp_path / "mine.py").write_text(HUNG.replace("WHEN", when).replace("MARKER", repr(str(marker))))
    odd = f"odd={tmp_path / 'mine.py'}:net?preprocess=inside&classes=data"
    command = [*verb.split(), "--network", odd, "--network", str(task.basket / "B"), "--data", task.data]
    with start(*command, "--split", "train", "--out", tmp_path / "run", start_new_session=True) as process:
        wait_for(marker.exists)
        workers = descendants(process.pid)
        began = time.monotonic()
        if stop == signal.SIGINT:
            os.killpg(process.pid, stop)
        else:
            process.send_signal(stop)
        _, said = process.communicate(timeout=60)
        took = time.monotonic() - began
    assert process.returncode == 3, said
    assert took < SOON
    assert "stopped" in said
    assert "Traceback" not in said
    wait_for(lambda: not any(map(alive, workers)), SOON, "workers outlived the program")


def test_what_is_not_wanted_any_more_is_not_waited_for() -> None:
    never, begun = threading.Event(), threading.Event()

    def work(part: int) -> int:
        if part:
            begun.set()
            never.wait()
        return part

    going = in_order(work, range(4), Threads(2, "hung"), 3)
    assert next(going) == 0
    assert begun.wait(10)
    began = time.monotonic()
    going.close()
    assert time.monotonic() - began < SOON
    left = [thread for thread in threading.enumerate() if thread.name.startswith("hung")]
    assert left
    assert all(thread.daemon for thread in left), "they do not keep Python from ending"
    never.set()
    for thread in left:
        thread.join(10)
        assert not thread.is_alive()


def test_threads_hand_errors_on_and_end_with_the_work() -> None:
    def work(part: int) -> float:
        return 1 / (3 - part)

    got = in_order(work, range(9), Threads(2, "short"), 2)
    assert [next(got), next(got)] == [1 / 3, 1 / 2]
    with pytest.raises(ZeroDivisionError):
        list(got)
    assert list(in_order(work, range(3), Threads(2, "short"), 9)) == [1 / 3, 1 / 2, 1.0]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("short")]
