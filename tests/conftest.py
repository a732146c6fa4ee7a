"""Shared by all tests: one torch thread (two busy processes on two threads each are many times slower)."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)

# What the program remembers of its user is not this user's: a cache of the tests' own.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="foible-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# Nothing is looked up in the network: where there is none, the hub's client tries for 23 seconds. It reads this once.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture(autouse=True, scope="session")
def _commands_are_read_once() -> Iterator[None]:
    """The program makes its commands from their functions at each start: once a process, as a user's does."""
    from foible import cli

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "get_command", functools.cache(cli.get_command))
        yield


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, where there is one."""
    folder = os.environ.get("FOIBLE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FOIBLE_DATA names no folder of data sets")
    return Path(folder)
