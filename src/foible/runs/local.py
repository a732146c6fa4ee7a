"""The local engine: units of a run done in this process, or by N single-threaded worker processes.

A unit is a pure function of the settings and its lanes, so it does not matter which process does it, or how often. How
many lanes it has is decided when its turn comes, by how long the ones before took.
One thread a process is the fastest on a CPU and gives the same bits every time.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import torch

from foible.disk import write_atomically
from foible.errors import FoibleError, UserError
from foible.memory import keep
from foible.processes import is_ours, main_hidden, safe_path, stops_held, without_pandas, worker_context
from foible.runs.folder import RunFolder
from foible.runs.spans import Plan, Span

Tick = Callable[[float], None]


class Shard(NamedTuple):
    """The rows of a unit, and files to be written before them: path in the run -> contents."""

    rows: pa.Table
    beside: Mapping[str, bytes]


Made: TypeAlias = pa.Table | Shard | Callable[[], pa.Table | Shard]  # rows of a unit, or what is left to do for them
Work = Callable[[Span, Tick], Made]  # (lanes, tick) -> their rows


def do_unit(work: Work, folder: RunFolder, span: Span, tick: Tick) -> float:
    """Do one unit and write what it made; how long that took."""
    started = time.perf_counter()
    write_unit(work(span, tick), folder, span, started)
    return time.perf_counter() - started


def do_units(work: Work, folder: RunFolder, plan: Plan, tick: Tick) -> None:
    """Do units where another device does the work: what is left of one is done, and written, beside the next."""
    with ThreadPoolExecutor(1) as beside:
        last: Future[None] | None = None
        while (span := plan.next()) is not None:
            started = time.perf_counter()
            made = work(span, tick)
            plan.took(span, time.perf_counter() - started)
            if last is not None:
                last.result()
            last = beside.submit(write_unit, made, folder, span, started)
        if last is not None:
            last.result()


def shard_of(made: Made) -> Shard:
    """Do what is left to be done."""
    done = made() if callable(made) else made
    return done if isinstance(done, Shard) else Shard(done, {})


def write_unit(made: Made, folder: RunFolder, span: Span, started: float) -> None:
    """Write what a unit made, its shard last."""
    rows, beside = shard_of(made)
    for path, data in beside.items():
        place = Path(path)
        write_atomically(folder.inside(str(place.parent)) / place.name, data)
    folder.write(span, rows, {"seconds": time.perf_counter() - started})


def run_units(prepare: Callable[[Path], Work], folder: RunFolder, plan: Plan, *, workers: int, tick: Tick) -> None:
    """Do the units of a plan with `workers` processes; each calls `prepare(run folder)` once. Ctrl-C stops within a
    second."""
    context = worker_context()
    with safe_path():  # multiprocessing has a helper of its own, which starts with the first queue
        calls, tasks, news = context.Queue(), context.Queue(), context.Queue()
    first = [span for span in (plan.next() for _ in range(workers)) if span is not None]
    call = ForkingPickler.dumps(prepare)  # not an argument: a process that begins takes no more than a little at once,
    for span in first:  # and the next would begin only when it has read all
        calls.put(bytes(call))
        tasks.put(span)
    processes: list[Any] = []
    try:
        with safe_path(), main_hidden(), stops_held():
            for _ in first:
                process = context.Process(target=_worker, args=(folder.path, calls, tasks, news), daemon=True)
                process.start()
                processes.append(process)
        _listen(processes, tasks, news, plan, tick)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(0.5)
            if process.is_alive():
                process.kill()
                process.join(0.5)
        folder.sweep()
        for channel in (calls, tasks, news):
            channel.cancel_join_thread()
            channel.close()


def _listen(processes: list[Any], tasks: Any, news: Any, plan: Plan, tick: Tick) -> None:
    """Hand out the next unit whenever one is done, until none is left."""
    busy = len(processes)
    while busy:
        try:
            kind, value = news.get(timeout=0.2)
        except queue.Empty:
            codes = [process.exitcode for process in processes]
            dead = [code for code in codes if code not in (None, 0)] or (codes if None not in codes else [])
            if dead and news.empty():  # the last words of a worker may arrive after its end is known
                raise FoibleError(
                    f"a worker process died (exit code {dead[0]}), perhaps for want of memory: try fewer --workers or "
                    "a smaller --unit; finished units are safe, and the same command goes on from there"
                ) from None
            continue
        if kind == "tick":
            tick(value)
        elif kind == "done":
            plan.took(*value)
            following = plan.next()
            tasks.put(following)
            busy -= following is None
        elif kind == "user":
            raise UserError(value)
        else:
            raise FoibleError(f"a worker failed:\n{value}")


def _worker(path: Path, calls: Any, tasks: Any, news: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    is_ours()
    keep()
    without_pandas()
    folder = RunFolder(path)
    try:
        work: Work = pickle.loads(calls.get())(path)
        news.put(("tick", 0))  # work begins only now: to start and to open everything is no measure of it
        while (span := tasks.get()) is not None:
            took = do_unit(work, folder, span, lambda count: news.put(("tick", count)))
            pa.default_memory_pool().release_unused()
            news.put(("done", (span, took)))
    except UserError as error:
        news.put(("user", str(error)))
    except BaseException:
        news.put(("error", traceback.format_exc()))


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
