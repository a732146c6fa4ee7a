"""The local engine: the same shards from this process and from workers, and no way to fail that is silent."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import unit_work
from small_tasks import SETTINGS, SPACE, WHERE, linear_task, same_table, shards

from foible.errors import FoibleError, UserError
from foible.processes import one_thread
from foible.recipes.hunt.recipe import hunt
from foible.recipes.replay import replay
from foible.recipes.train.train import train
from foible.runs.folder import RunFolder
from foible.runs.local import Tick, Work, do_unit, do_units, run_units
from foible.runs.spans import Plan, Span
from foible.spec_files import absolute_data


def _run(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.path.mkdir()
    folder.begin(SETTINGS, WHERE, [27])
    return folder


def _plan(first: int = 0, end: int = 27, workers: int = 1) -> Plan:
    """Units of three lanes."""
    return Plan([Span(0, first, end)], first=3, least=3, most=3, workers=workers)


def _units(plan: Plan) -> list[Span]:
    return list(iter(plan.next, None))


def test_workers_write_the_same_shards_as_this_process(tmp_path: Path) -> None:
    here, there = _run(tmp_path / "here"), _run(tmp_path / "there")
    work = unit_work.numbers(here.path)
    with one_thread():
        for span in _units(_plan()):
            do_unit(work, here, span, lambda _: None)
    ticks: list[float] = []
    main = sys.modules["__main__"]
    before = {name: getattr(main, name, None) for name in ("__file__", "__spec__")}
    run_units(unit_work.numbers, there, _plan(workers=2), workers=2, tick=ticks.append)
    assert {name: getattr(main, name, None) for name in before} == before
    assert shards(there.path) == shards(here.path)
    assert len(shards(there.path)) == 9
    assert sum(ticks) == 27
    assert set(pq.read_table(there.shard(Span(0, 12, 15)))["threads"].to_pylist()) == {1}


def test_what_is_left_of_a_unit_is_done_beside_the_next(tmp_path: Path) -> None:
    """The same shards; each unit's rest in another thread, and no two rests at once."""
    here, beside = _run(tmp_path / "here"), _run(tmp_path / "beside")
    work, done = unit_work.numbers(here.path), []
    gone_on = threading.Event()

    def deferred(span: Span, tick: Tick) -> Callable[[], pa.Table]:
        if span.first:
            gone_on.set()
        rows = work(span, tick)

        def rest() -> pa.Table:
            assert gone_on.wait(20)  # the next unit has begun
            done.append((span.first, threading.current_thread() is threading.main_thread()))
            return rows

        return rest

    do_units(deferred, beside, _plan(end=12), lambda _: None)
    for span in _units(_plan(end=12)):
        do_unit(work, here, span, lambda _: None)
    assert done == [(first, False) for first in (0, 3, 6, 9)]
    assert shards(beside.path) == shards(here.path)


def test_a_rest_that_fails_is_heard_and_earlier_units_are_kept(tmp_path: Path) -> None:
    folder = _run(tmp_path / "run")
    work = unit_work.numbers(folder.path)

    def failing() -> pa.Table:
        raise UserError("the disk is full")

    def deferred(span: Span, tick: Tick) -> Callable[[], pa.Table]:
        rows = work(span, tick)
        return failing if span.first == 6 else lambda: rows

    with pytest.raises(UserError, match="the disk is full"):
        do_units(deferred, folder, _plan(), lambda _: None)
    assert len(shards(folder.path)) == 2


@pytest.mark.parametrize(
    ("prepare", "kind", "message"),
    [
        (unit_work.raises_user_error, UserError, "^lane 21 is not to my liking$"),
        (unit_work.raises_zero_division, FoibleError, "a worker failed:\nTraceback(.|\n)*ZeroDivisionError"),
        (unit_work.leaves_quietly, FoibleError, "a worker process died"),
    ],
)
def test_a_worker_that_fails_is_heard(
    tmp_path: Path, prepare: Callable[[Path], Work], kind: type[FoibleError], message: str
) -> None:
    folder = _run(tmp_path / "run")
    with pytest.raises(kind, match=message) as error:
        run_units(prepare, folder, _plan(18), workers=1, tick=lambda _: None)
    assert type(error.value) is kind
    assert folder.missing() == [Span(0, 0, 18), Span(0, 21, 27)]  # the first unit is kept


def test_one_thread_gives_the_callers_number_back() -> None:
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_a_script_without_a_main_guard_may_use_workers(tmp_path: Path) -> None:
    task = linear_task(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import foible
        print("the script begins")
        found = foible.hunt({str(task.basket)!r}, {task.data!r}, out={str(tmp_path / "run")!r}, workers=2,
                            trials=32, unit=16, suspect="A", patience=20, space={SPACE!r}, quiet=True)
        print(len(found), "trials")
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "the script begins\n32 trials\n"
    hunt(
        task.basket, task.data, out=tmp_path / "here", workers=1,
        trials=32, unit=16, suspect="A", patience=20, space=SPACE, quiet=True,
    )  # fmt: skip
    same_table(tmp_path / "run", tmp_path / "here")
    assert shards(tmp_path / "run") == shards(tmp_path / "here")


def test_a_basket_that_moved_is_found_by_workers_too(tmp_path: Path) -> None:
    options = {"trials": 32, "unit": 16, "suspect": "A", "patience": 20, "space": SPACE, "quiet": True}
    task = linear_task(tmp_path / "old")
    whole = hunt(task.basket, task.data, out=tmp_path / "run", workers=1, **options)
    before = shards(tmp_path / "run")
    assert len(whole) == 32
    for file in (tmp_path / "run" / "shards").iterdir():
        file.unlink()
    moved = task.basket.rename(tmp_path / "elsewhere")
    hunt(moved, task.data, out=tmp_path / "run", workers=2, **options)
    assert shards(tmp_path / "run") == before


def test_a_folder_called_like_the_data_is_not_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the basket of `foible train … --data digits --out digits` is."""
    monkeypatch.chdir(tmp_path)
    train(["softmax", "mlp:4"], "digits", out="digits", epochs=1, quiet=True)
    found = hunt("digits", "digits", out="run", workers=2, trials=8, unit=4, suspect="mlp-4", patience=5, quiet=True)
    assert len(found) == 8
    assert all(one.holds for one in replay("run"))


@pytest.mark.parametrize(
    ("spec", "full"),
    [("mnist", "mnist"), ("mnist?root=mnist", "mnist?root=HERE/mnist"), ("folder:nowhere", "folder:nowhere"),
     ("folder:mnist?size=64", "folder:HERE/mnist?size=64"), ("in memory", "in memory")],
)  # fmt: skip
def test_data_opens_from_any_folder(spec: str, full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mnist").mkdir()
    assert absolute_data(spec) == full.replace("HERE", str(tmp_path.resolve()))
