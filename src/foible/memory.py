"""Freed memory, kept for the next tensor.

glibc gives every large block back to the system as soon as it is freed, and takes it from there again for the next
layer, page by page. For networks of real size that is half of the time of a forward pass on a CPU. A program of ours
keeps what it freed; a process that somebody else owns is left as it is, unless its owner calls `keep`.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # of <malloc.h>


def keep() -> bool:
    """Keep freed memory in this process from now on. False where the system is another one, or the user has set up
    malloc by its own environment variables."""
    if sys.platform != "linux" or platform.libc_ver()[0] != "glibc":
        return False
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    wanted = {_ARENA_MAX: 1, _MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 2**26}
    return all(mallopt(option, value) == 1 for option, value in wanted.items())
