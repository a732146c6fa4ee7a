"""A recipe of somebody's own goes through the same job as ours: workers, kill -9, resume, replay, report."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import SPACE, linear_task, same_table, shards, start, wait_for

import foible
from foible import cli
from foible.errors import UserError
from foible.testing import CLASSES, blobs, check_recipe

MEND = '''
"""Mend: the small change that makes a network right again, from images that it alone gets wrong."""
from dataclasses import dataclass, replace

import torch
from foible.basket.accuracy import answers
from foible.basket.judging import judged
from foible.recipes.config import HuntConfig
from foible.recipes.hunt import HUNT
from foible.runs.task import Seeds


@dataclass(frozen=True)
class MendConfig(HuntConfig):
    """The settings of a hunt, with other defaults."""

    objective: str = f"{__file__}:Righted"
    realism: str = "none"


class Righted:
    """The suspect says the true class."""

    asks = "suspect"

    def score(self, logits, aim):
        return logits.log_softmax(1).gather(1, aim[:, None])[:, 0]

    def allows(self, logits, aim):
        return torch.ones_like(aim, dtype=torch.bool)

    def found(self, logits, aim):
        return logits[0].argmax(1) == aim


def wrong_under_suspect(task):
    """Images that the first suspect gets wrong."""
    place = task.basket.names.index(task.config.suspect[0])
    wrong = []
    for part in judged(task.basket, task.matched.data, index=task.matched.index, native=False):
        said, labels = answers(part.logits), task.matched.labels[part.index]
        wrong.append(part.index[said[place] != labels])
    eligible = torch.cat(wrong)
    return Seeds({"eligible": eligible, "aims": task.matched.labels[eligible]})


MEND = replace(HUNT, name="mend", config=MendConfig, doing="Mending", seeds=wrong_under_suspect, papers=lambda _: ())
'''


@pytest.fixture
def mend(tmp_path: Path) -> str:
    (tmp_path / "mend.py").write_text(MEND)
    return f"{tmp_path / 'mend.py'}:MEND"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hunt", {"trials": 12, "space": SPACE, "suspect": "A", "patience": 20}),
        ("distort", {"source": "A", "images": 8}),
    ],
)
def test_ours_keep_their_promises(name: str, options: dict[str, Any]) -> None:
    check_recipe(name, split="train", unit=4, **options)


@pytest.mark.parametrize(("name", "options"), [("compare", {}), ("rank", {"top": 60})])
def test_ours_without_a_search_keep_them(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    basket, data = _task(tmp_path)
    check_recipe(name, basket=basket, data=data, split="train", unit=16, **options)


def test_a_recipe_of_ones_own_keeps_them_too(mend: str, tmp_path: Path) -> None:
    basket, data = _task(tmp_path)
    options = {"suspect": "A", "trials": 16, "unit": 8, "space": SPACE, "patience": 40}
    check_recipe(mend, basket=basket, data=data, split="train", **options)


def _task(folder: Path) -> tuple[str, str]:
    """Three linear networks, and images on which they err."""
    task = linear_task(folder)
    generator, labels = torch.Generator().manual_seed(3), torch.arange(60) % CLASSES
    images = 0.5 * blobs()[labels] + 0.5 * torch.rand(60, 1, 12, 12, generator=generator) ** 2
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    np.savez(folder / "noisy.npz", images=pixels, labels=labels.numpy(), classes=np.array(list("012")))
    return str(task.basket), f"npz:{folder / 'noisy.npz'}"


def test_it_is_shown_reported_replayed_exported_and_cited(
    mend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    basket, data = _task(tmp_path)
    run = tmp_path / "run"
    flags = ["--set", "trials=16", "--set", "suspect=A", "--set", f"space={SPACE}", "--set", "split=train"]
    assert cli.run(["run", mend, "--basket", basket, "--data", data, "--out", str(run), *flags, "--workers", "1"]) == 0
    settings = json.loads((run / "config.json").read_text())["settings"]
    assert settings["recipe"] == "mend.py:MEND"
    assert settings["recipe_sha256"]
    table = ["export", "--to", "csv", "--out", f"{run}.csv"]
    for name, *more in (["show"], ["report"], ["replay", "--trust"], ["cite"], table):
        assert cli.run([name, str(run), *more]) == 0, name
    capsys.readouterr()
    assert cli.run(["replay", str(run)]) == 2
    assert "--trust" in capsys.readouterr().err
    with pytest.raises(UserError, match="no recipe 'hunted'; did you mean 'hunt'"):
        foible.run("hunted", basket, data)


def test_a_run_may_be_called_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ranking` is also the folder of what comes first in a ranking."""
    basket, data = _task(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, options in (("hunt", {"suspect": "A", "trials": 16, "patience": 5}), ("rank", {"top": 9})):
        run = Path(name) / "ranking"
        foible.run(name, basket, data, out=run, split="train", unit=8, workers=2, quiet=True, **options)
        assert len(foible.Findings.open(run))


def test_a_comparison_by_processes_writes_the_same_bytes(tmp_path: Path) -> None:
    basket, data = _task(tmp_path)
    compare = ["compare", "--basket", basket, "--data", data, "--split", "train", "--unit", "16", "--out"]
    assert cli.run([*compare, str(tmp_path / "one")]) == 0
    assert cli.run([*compare, str(tmp_path / "two"), "--workers", "2"]) == 0
    assert shards(tmp_path / "one") == shards(tmp_path / "two")
    answers = [{f.name: f.read_bytes() for f in (tmp_path / run / "answers").iterdir()} for run in ("one", "two")]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("where", [{"recipe": 3}, {"space": ["x"]}, {"recipe": "no.py"}])
def test_an_edited_run_of_ones_own_is_refused(mend: str, tmp_path: Path, where: dict[str, Any]) -> None:
    basket, data = _task(tmp_path)
    run = tmp_path / "run"
    foible.run(mend, basket, data, out=run, suspect="A", trials=8, split="train", patience=5, quiet=True)
    config = json.loads((run / "config.json").read_text())
    config["where"].update(where)
    (run / "config.json").write_text(json.dumps(config))
    assert cli.run(["replay", str(run), "--trust"]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
def test_kill_and_resume(mend: str, tmp_path: Path) -> None:
    basket, data = _task(tmp_path)
    head = "def score(self, logits, aim):\n"
    (tmp_path / "mend.py").write_text(MEND.replace(head, f"{head}        __import__('time').sleep(0.002)\n"))
    whole, run = tmp_path / "whole", tmp_path / "run"
    settings = {"trials": 96, "suspect": "A", "space": SPACE, "split": "train", "unit": 4, "patience": 20}
    foible.run(mend, basket, data, out=whole, workers=1, quiet=True, shrink=False, **settings)
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    command = ["run", mend, "--basket", basket, "--data", data, "--out", run, *flags, "--set", "shrink=no"]
    with start(*command, "--workers", 2) as process:
        wait_for(lambda: len(list((run / "shards").glob("*.parquet"))) >= 2 or process.poll() is not None, 120)
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        process.kill()
        process.wait()
    assert 0 < len(shards(run)) < len(shards(whole))
    assert cli.run([str(word) for word in (*command, "--workers", 1)]) == 0
    same_table(run, whole)
    assert shards(run) == shards(whole)
