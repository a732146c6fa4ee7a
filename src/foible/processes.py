"""What processes and threads have in common: how many cores, which device, one thread each, and a safe start."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foible.errors import UserError

if TYPE_CHECKING:
    import torch

SAFE = "PYTHONSAFEPATH"
GPU = Path("/dev/nvidia0")  # where there is one, it does the work


class _Program:
    """ours: this process is the `foible` program, or a worker. copied: its workers are copies of one that has loaded
    everything."""

    ours = copied = False


def cores() -> int:
    """Processor cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def pick_device(device: str) -> torch.device:
    """`auto`, `cpu` or `cuda` as a device that is really there."""
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise UserError(f"device is {device!r}: expected auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("device is 'cuda', but torch sees no CUDA device here: use --device cpu (see `foible doctor`)")
    return torch.device(device)


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread inside, the caller's number again outside."""
    import torch  # not at the top: who counts cores need not wait for it

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes that start inside do not look for modules in the working folder: a `pickle.py` may lie there."""
    before = os.environ.get(SAFE)
    os.environ[SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE, None)
        else:
            os.environ[SAFE] = before


@contextmanager
def main_hidden() -> Iterator[None]:
    """Start workers without running the caller's script again in each: it needs no `if __name__ == "__main__"`."""
    main = sys.modules["__main__"]
    saved = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    with suppress(AttributeError):
        del main.__file__
    main.__spec__ = None
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(main, name, value)


def is_ours() -> None:
    """This process is the `foible` program, or a worker of a run, and nobody else's."""
    _Program.ours = True


def without_pandas() -> None:
    """In our program and its workers pyarrow does without pandas, which it otherwise loads (half a second) as soon as
    it is handed values: they might be a data frame's. Its own `to_pandas` and `from_pandas` load it all the same."""
    if _Program.ours and "pandas" not in sys.modules:
        import pyarrow as pa

        sys.meta_path.insert(0, _Absent)
        try:
            pa.array([0])  # it looks once
        finally:
            sys.meta_path.remove(_Absent)


class _Absent:
    """A finder of modules, before all others, to whom pandas is not installed."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def begin_workers(modules: Sequence[str], *, workers: int | None, device: str) -> None:
    """In our program, have a process load these modules beside this one, if there will be several workers: they are
    copies of it then, and do not load everything one by one. It is there until the program ends."""
    import multiprocessing

    several = cores() > 1 if workers is None else workers > 1
    gpu = workers is None and (device == "cuda" or (device == "auto" and GPU.exists()))
    can = "forkserver" in multiprocessing.get_all_start_methods()
    if not _Program.ours or _Program.copied or gpu or not several or not can:
        return
    from multiprocessing import forkserver, resource_tracker, util

    multiprocessing.set_forkserver_preload(list(modules))
    try:
        with safe_path():
            resource_tracker.ensure_running()  # before: to start it makes us hear Ctrl-C again
            with stops_held():
                forkserver.ensure_running()
    except OSError:  # no process or no socket to be had: each worker loads for itself, or says what is wrong
        return
    _Program.copied = True
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if pid:  # it holds our output open, and who reads that would wait until it has loaded everything
        util.Finalize(None, _kill, (pid, os.getpid()), exitpriority=0)


def _kill(pid: int, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)  # what its copies took counts as taken by this program


def worker_context() -> Any:
    """How worker processes begin."""
    import multiprocessing

    return multiprocessing.get_context("forkserver" if _Program.copied else "spawn")


def stops() -> list[signal.Signals]:
    """The signals besides Ctrl-C that ask a program to end, on this system."""
    return [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def stops_held() -> Iterator[None]:
    """Workers begin deaf to Ctrl-C, which a terminal sends to all processes; here it is heard at the end, as are the
    other signals that somebody listens to. Workers must not be deaf to those: they are ended with one of them."""
    block = getattr(signal, "pthread_sigmask", None)  # not on Windows
    before = block(signal.SIG_BLOCK, {signal.SIGINT}) if block else None
    heard: list[int] = []
    here = threading.current_thread() is threading.main_thread()  # elsewhere no signal is heard
    listening = {which: how for which in stops() if here and callable(how := signal.getsignal(which))}
    for which in listening:
        signal.signal(which, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        for which, how in listening.items():
            signal.signal(which, how)
        if block:
            block(signal.SIG_SETMASK, before)
        for number in heard[:1]:
            signal.raise_signal(number)
