"""Seeds are judged once: a run that goes on takes those that it kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small_tasks import SPACE, linear_task

import foible
from foible.findings import Findings
from foible.recipes import seeds
from foible.runs.folder import RunFolder
from foible.runs.kept_seeds import FILE


def test_seeds_are_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = linear_task(tmp_path)
    run = tmp_path / "run"

    def hunt(**more: Any) -> Findings:
        options: dict[str, Any] = {"space": SPACE, "split": "train", "suspect": "A", "trials": 24, "unit": 8}
        return foible.hunt(
            task.basket, task.data, out=run, quiet=True, workers=1, peer_confidence=0, shrink=False, realism="none",
            **(options | more),
        )  # fmt: skip

    looks: list[int] = []
    real = seeds.look

    def counted(*given: Any) -> Any:
        looks.append(1)
        return real(*given)

    monkeypatch.setattr(seeds, "look", counted)
    whole = hunt().table
    RunFolder(run).shards()[1].unlink()
    assert hunt().table.equals(whole)
    assert len(looks) == 1

    hunt(trials=40)  # more are needed
    assert len(looks) == 2
    tensors = load_file(run / FILE)
    with safe_open(str(run / FILE), framework="pt") as file:
        about = file.metadata()
    for name, values in (("eligible", torch.tensor([10**6])), ("aims", torch.tensor([-1]))):
        RunFolder(run).shards()[1].unlink()
        save_file(tensors | {name: values}, run / FILE, about)
        hunt(trials=40)
    (run / FILE).write_bytes(b"damaged")
    RunFolder(run).shards()[1].unlink()
    hunt(trials=40)
    assert len(looks) == 5
