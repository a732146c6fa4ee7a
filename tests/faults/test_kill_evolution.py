"""kill -9 in the middle of one evolution: it goes on from where it last noted that it stood, to the same bytes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_tasks import linear_task, shards

import foible
from foible.networks.progress_file import Checkpoint
from foible.recipes.fool import units
from foible.runs.folder import RunFolder
from foible.runs.spans import Plan, Span, without
from foible.search.elites import by_class

KILLED = """
import os, signal, sys
import foible
from foible.networks.progress_file import Checkpoint
from foible.recipes.fool import units

units.SECONDS, writes, write = 0.0, [], Checkpoint.write

def killed(self, *given):
    write(self, *given)
    writes.append(self.path)
    if len(writes) == 7:
        os.kill(os.getpid(), signal.SIGKILL)

Checkpoint.write = killed
foible.fool(sys.argv[1], sys.argv[2], out=sys.argv[3], suspect="A", runs=3, generations=20, population=20, unit=2,
            workers=1, device="cpu", quiet=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
def test_a_killed_evolution_goes_on_to_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = linear_task(tmp_path)
    settings: dict[str, Any] = {
        "suspect": "A", "runs": 3, "generations": 20, "population": 20, "unit": 2, "workers": 1, "device": "cpu",
        "quiet": True,
    }  # fmt: skip
    whole, run = tmp_path / "whole", tmp_path / "run"
    foible.fool(task.basket, task.data, out=whole, **settings)
    given = [sys.executable, "-c", KILLED, str(task.basket), task.data, str(run)]
    done = subprocess.run(given, timeout=120, check=False)
    assert done.returncode == -9
    stands = RunFolder(run).standing(Span(0, 0, 2))
    assert stands.is_file()
    assert shards(run) == {}
    begun: list[int] = []
    taken_up = by_class._taken_up

    def seen(held: Any, last: int, *given: Any) -> Any:
        begun.append(last)
        return taken_up(held, last, *given)

    monkeypatch.setattr(by_class, "_taken_up", seen)
    foible.fool(task.basket, task.data, out=run, **settings | {"unit": 1})  # the unit goes on as it was begun
    assert begun == [7]
    assert list(shards(run)) == list(shards(whole))
    assert shards(run) == shards(whole)
    assert not list(run.glob("*.safetensors"))  # nothing is left of it


def test_what_is_no_note_of_this_evolution_is_not_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = linear_task(tmp_path)
    settings: dict[str, Any] = {
        "suspect": "A", "runs": 1, "generations": 6, "population": 8, "quiet": True, "workers": 1, "device": "cpu"
    }  # fmt: skip
    foible.fool(task.basket, task.data, out=tmp_path / "whole", **settings)
    begin = units.Fooling.unit
    for place, held in enumerate((b"", b"no tensors", b"\0" * 100)):

        def damaged(self: Any, span: Span, tick: Any, held: bytes = held) -> Any:
            RunFolder(self.task.folder).standing(span).write_bytes(held)
            return begin(self, span, tick)

        with monkeypatch.context() as patch:
            patch.setattr(units.Fooling, "unit", damaged)
            foible.fool(task.basket, task.data, out=tmp_path / str(place), **settings)
        assert shards(tmp_path / str(place)) == shards(tmp_path / "whole")
        assert not list((tmp_path / str(place)).glob("unit-*"))


def test_units_that_were_begun_come_first_and_are_not_cut(tmp_path: Path) -> None:
    assert without([Span(0, 0, 10), Span(1, 0, 4)], [Span(0, 4, 6), Span(1, 0, 4)]) == [Span(0, 0, 4), Span(0, 6, 10)]
    assert without([Span(0, 0, 0)], []) == [Span(0, 0, 0)]
    plan = Plan([Span(0, 0, 10)], first=3, least=1, most=4, begun=[Span(0, 4, 8)])
    assert plan.left == 10
    units_done = []
    while (span := plan.next()) is not None:
        units_done.append(span)
        plan.took(span, 1e-6 if span == Span(0, 4, 8) else 100.0)
    assert units_done[0] == Span(0, 4, 8)
    assert sorted(one for span in units_done for one in range(span.first, span.end)) == list(range(10))
    folder = RunFolder(tmp_path)
    for span in (Span(0, 0, 4), Span(0, 2, 6), Span(0, 6, 20), Span(1, 0, 2)):
        Checkpoint(folder.standing(span), 0.0).write(dict, {})
    assert folder.begun([Span(0, 0, 30), Span(1, 1, 4)], 10) == [Span(0, 0, 4)]  # others overlap, are large, or done
    assert [file.name for file in tmp_path.iterdir()] == [folder.standing(Span(0, 0, 4)).name]
