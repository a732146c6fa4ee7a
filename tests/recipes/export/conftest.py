"""One made-up run for all tests of exports."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_run import write_run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("made") / "run")
