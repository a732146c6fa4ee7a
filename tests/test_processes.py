"""What our own processes do otherwise than anybody else's: workers of the `foible` program are copies of one process
that has loaded everything, and pyarrow does without pandas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOK = """
import sys

def look(queue):
    queue.put("foible.runs.job" in sys.modules)
"""
PROGRAM = """
import sys
from multiprocessing import forkserver
import looking
from foible import processes

if {ours}:
    processes.is_ours()
processes.begin_workers(["foible.runs.job"], workers={workers}, device="cpu")
context = processes.worker_context()
with processes.safe_path(), processes.main_hidden():
    queue = context.Queue()
    worker = context.Process(target=looking.look, args=(queue,))
    worker.start()
print(context.get_start_method(), queue.get(timeout=60), "torch" in sys.modules, forkserver._forkserver._forkserver_pid)
worker.join()
"""


def began(folder: Path, *, ours: bool, workers: int) -> list[str]:
    """How the workers of such a program begin: the method, whether theirs is loaded, whether torch is loaded in the
    program itself, and the process that workers are copies of."""
    (folder / "looking.py").write_text(LOOK, "utf-8")
    code, paths = PROGRAM.format(ours=ours, workers=workers), os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True,
        env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_workers_of_our_program_have_loaded_everything_and_leave_nobody_behind(tmp_path: Path) -> None:
    method, loaded, here, copied = began(tmp_path, ours=True, workers=2)
    assert (method, loaded, here) == ("forkserver", "True", "False")
    with pytest.raises(ProcessLookupError):
        os.kill(int(copied), 0)


@pytest.mark.parametrize(("ours", "workers"), [(False, 2), (True, 1)])
def test_nothing_is_loaded_ahead_for_others_or_for_one_worker(tmp_path: Path, ours: bool, workers: int) -> None:
    assert began(tmp_path, ours=ours, workers=workers) == ["spawn", "False", "False", "None"]


FRAMES = """
import sys
import pyarrow as pa
from foible import processes

if {ours}:
    processes.is_ours()
processes.without_pandas()
table = pa.table({{"a": pa.array([1, 2])}})
before = "pandas" in sys.modules
print(before, table.to_pandas()["a"].tolist() == [1, 2], "pandas" in sys.modules)
"""


@pytest.mark.parametrize("ours", [True, False])
def test_our_program_loads_pandas_only_for_who_wants_a_data_frame(ours: bool) -> None:
    pytest.importorskip("pandas")
    code = FRAMES.format(ours=ours)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == [str(not ours), "True", "True"]
