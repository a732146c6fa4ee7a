"""A FOIBLE_DATA folder of each test's own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty FOIBLE_DATA folder; the cache folder is an empty one too."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("FOIBLE_DATA", str(folder))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder
