"""Shared by all tests: one torch thread (two busy processes on two threads each are many times slower)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, where there is one."""
    folder = os.environ.get("FOIBLE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("FOIBLE_DATA names no folder of data sets")
    return Path(folder)
