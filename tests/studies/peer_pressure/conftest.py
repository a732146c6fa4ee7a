"""A basket of four small networks on the bundled digits, and a hunt with them: made once for all tests here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import foible
from foible.basket import Basket
from foible.findings import Findings
from foible.recipes.train.train import train
from foible.studies.peer_pressure import held_out


@pytest.fixture(scope="session")
def digits_basket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits") / "basket"
    train(["mlp:8", "mlp:12", "mlp:16", "mlp:20"], "digits", out=folder, epochs=20, device="cpu", quiet=True)
    return folder


@pytest.fixture(scope="session")
def digits_run(digits_basket: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hunt on disk, each network in turn."""
    run = tmp_path_factory.mktemp("digits-run") / "run"
    options: dict[str, Any] = {"shrink": False, "realism": "none", "workers": 1, "device": "cpu", "quiet": True}
    options |= {"peer_confidence": 0, "patience": 60}
    foible.hunt(str(digits_basket), "digits", trials=40, out=run, **options)
    return run


@pytest.fixture(scope="session")
def networks(digits_basket: Path) -> Basket:
    return Basket.open(digits_basket)


@pytest.fixture(scope="session")
def findings(digits_run: Path) -> Findings:
    return Findings.open(digits_run)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a study's quick scale tiny: `few(module, trials=20, …)`."""

    def shrink(module: Any, **plan: Any) -> None:
        monkeypatch.setitem(module.SCALES, "quick", module.SCALES["quick"] | plan)
        monkeypatch.setattr(module, "hunt", partial(module.hunt, patience=40))  # its trials end sooner

    monkeypatch.setattr("foible.runs.job.cores", lambda: 1)  # starting workers would take longer than the work
    monkeypatch.setattr(held_out, "NETWORK", "mlp:30")  # learns in a moment what a test needs
    return shrink
