"""One trained basket and one finished run for the tests of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from foible import cli
from foible.recipes.train.train import train


@pytest.fixture(scope="session")
def mlps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """mlp-10, mlp-20 and mlp-30, trained a little on the bundled digits."""
    folder = tmp_path_factory.mktemp("mlps") / "basket"
    train(["mlp:10", "mlp:20", "mlp:30"], "digits", epochs=10, out=folder, quiet=True)
    return folder


@pytest.fixture(scope="session")
def run(mlps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hunt of each of them, 50 trials, two shards a suspect."""
    folder = tmp_path_factory.mktemp("run") / "hunt"
    hunt = ["hunt", "--basket", str(mlps), "--trials", "50", "--unit", "32", "--patience", "60", "--workers", "1"]
    assert cli.run([*hunt, "--peer-confidence", "0.3", "--out", str(folder)]) == 0
    return folder
