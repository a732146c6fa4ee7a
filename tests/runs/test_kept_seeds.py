"""Seeds are judged once: a run that goes on, or is made longer, asks the networks of no image twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from small_tasks import SPACE, linear_task

import foible
from foible.errors import Interrupted
from foible.findings import Findings
from foible.recipes import seeds
from foible.runs.folder import RunFolder
from foible.runs.kept_seeds import FILE

BATCH = 8


class Watched:
    """`judged` in small batches, which notes the images that are asked for, and stops as Ctrl-C does before `stop`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real, self.asked, self.stop = seeds.judged, list[int](), 10**9
        monkeypatch.setattr(seeds, "judged", self)

    def __call__(self, *given: Any, **how: Any) -> Iterator[Any]:
        for part in self.real(*given, **how, batch=BATCH):
            if len(self.asked) >= self.stop:
                raise KeyboardInterrupt
            self.asked += part.index.tolist()
            yield part

    def count(self) -> int:
        new, self.asked = len(self.asked), []
        return new


@pytest.fixture
def hunt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Findings]:
    monkeypatch.setattr(seeds, "LEAST", 16)
    task = linear_task(tmp_path)

    def run(out: str = "run", **more: Any) -> Findings:
        options: dict[str, Any] = {"space": SPACE, "split": "train", "suspect": "A", "trials": 24, "unit": 8}
        return foible.hunt(
            task.basket, task.data, out=tmp_path / out, quiet=True, workers=1, peer_confidence=0, shrink=False,
            realism="none", patience=5, **(options | more),
        )  # fmt: skip

    return run


def test_seeds_are_judged_once(hunt: Callable[..., Findings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched, run = Watched(monkeypatch), tmp_path / "run"
    whole = hunt().table
    first = watched.count()
    assert first >= 24
    RunFolder(run).shards()[1].unlink()
    assert hunt().table.equals(whole)
    assert watched.count() == 0

    longer = hunt(trials=40).table  # only what more are needed for
    assert 0 < watched.count() <= 2 * BATCH + 16
    assert longer.slice(0, 24).drop_columns(["versions"]).equals(whole.drop_columns(["versions"]))
    assert hunt("fresh", trials=40).table.drop_columns(["versions"]).equals(longer.drop_columns(["versions"]))
    watched.count()

    hunt(trials=40, judge_all=True)
    watched.count()
    tensors = load_file(run / FILE)
    with safe_open(str(run / FILE), framework="pt") as file:
        about = file.metadata()
    bad = {"index": tensors["index"] + 10**6, "aims": tensors["aims"] - 2, "said": tensors["said"][:1]}
    for name, values in bad.items():  # of another run, or nobody's: judged anew
        RunFolder(run).shards()[1].unlink()
        save_file(tensors | {name: values.contiguous()}, run / FILE, about)
        assert hunt(trials=40).table.equals(longer)
        assert watched.count() >= 40
    (run / FILE).write_bytes(b"damaged")
    RunFolder(run).shards()[1].unlink()
    hunt(trials=40)
    assert watched.count() >= 40
    hunt("other", trials=40, seed=1)
    (tmp_path / "other" / FILE).replace(run / FILE)  # of another order
    RunFolder(run).shards()[1].unlink()
    watched.count()
    assert hunt(trials=40).table.equals(longer)
    assert watched.count() >= 40


def test_ctrl_c_while_seeds_are_judged_loses_none(
    hunt: Callable[..., Findings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    whole = hunt("whole", trials=40)
    watched.count()
    watched.stop = 3 * BATCH
    with pytest.raises(Interrupted, match=r"while images were judged; what the networks said of 24 images is kept in "):
        hunt("stopped", trials=40)
    before = {*watched.asked}
    assert len(before) == watched.count() == 3 * BATCH
    assert sorted(file.name for file in (tmp_path / "stopped").iterdir()) == ["run.lock", FILE]
    watched.stop = 10**9
    again = hunt("stopped", trials=40)
    assert not before & {*watched.asked}
    assert again.table.equals(whole.table)
    said = [load_file(tmp_path / name / FILE)["said"][:, :40] for name in ("whole", "stopped")]
    assert torch.equal(*said)
