"""A trained basket for hunts that are to be broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_tasks import Task, linear_task

from foible.recipes.train.train import train


@pytest.fixture(scope="session")
def mlps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlp-10, mlp-20 and mlp-30, trained a little on the bundled digits."""
    folder = tmp_path_factory.mktemp("mlps") / "basket"
    train(["mlp:10", "mlp:20", "mlp:30"], "digits", epochs=10, out=folder, quiet=True)
    return folder


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return linear_task(tmp_path)
