"""What processes and threads have in common: how many cores, which device, one thread each, and a safe start."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from foible.errors import UserError

if TYPE_CHECKING:
    import torch

SAFE = "PYTHONSAFEPATH"


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
