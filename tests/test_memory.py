"""Freed memory is kept: in a process of its own, because it is kept for good."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from foible.memory import keep
kept = keep() if sys.argv[1] == "keep" else False
def work():
    for _ in range(20):
        b"x" * (40_000_000 * len(sys.argv))
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str, **more: str) -> tuple[bool, int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True, env=clean | more
    )
    kept, faults = done.stdout.split()
    return kept == "True", int(faults)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc only")
def test_large_blocks_are_not_faulted_in_again() -> None:
    plain, kept = _faults("plain"), _faults("keep")
    assert kept[0]
    assert plain[1] > 10_000
    assert kept[1] < plain[1] / 10


def test_what_the_user_has_set_up_stays() -> None:
    assert _faults("keep", MALLOC_ARENA_MAX="2")[0] is False
