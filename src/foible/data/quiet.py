"""Pillow's warnings kept to itself while pictures are read, in however many threads that happens at once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_readers = 0
_lists: list[list[Any]] = []  # lists of filters that ours was put into
_OURS = r"PIL(\.|$)"


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Ignore warnings that come from Pillow: of odd notes in a file, or of a size that is refused here anyhow.

    `warnings.catch_warnings` puts back what it found and so undoes what another thread does meanwhile. Here the first
    reader puts one filter in and the last one takes it out, from whichever lists of filters it went into: another
    thread's `catch_warnings` may have swapped them in between.
    """
    global _readers
    with _lock:
        _readers += 1
        if not any(_is_ours(entry) for entry in warnings.filters):
            warnings.filterwarnings("ignore", module=_OURS)
            _lists.append(warnings.filters)  # type: ignore[arg-type]
    try:
        yield
    finally:
        with _lock:
            _readers -= 1
            if _readers == 0:
                for filters in [*_lists, warnings.filters]:
                    filters[:] = [entry for entry in filters if not _is_ours(entry)]  # type: ignore[index]
                _lists.clear()


def _is_ours(entry: Any) -> bool:
    action, message, category, module, line = entry
    ours = ("ignore", None, Warning, _OURS, 0)
    return (action, message, category, getattr(module, "pattern", None), line) == ours
