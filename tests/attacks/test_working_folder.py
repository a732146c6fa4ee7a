"""A folder that somebody else filled: no module that lies there is run because we work in it, by us or by a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_tasks import SPACE, linear_task

NAMES = ("pickle", "multiprocessing", "random", "json", "torch", "struct", "numpy", "foible", "resource", "signal")
PROGRAM = "from foible.cli import main\nmain()\n"  # as the installed `foible` does
CALL = """
import foible
foible.hunt({basket!r}, {data!r}, out={out!r}, workers=2, trials=32, unit=16, suspect="A", patience=20, space={space!r},
            quiet=True)
"""


def _hostile(folder: Path) -> Path:
    """A working folder whose modules would leave a mark."""
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'marker')!r}, 'a').write({name!r} + ' ')\n")
    return folder


def _run(script: Path, here: Path, *args: object) -> str:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    if "PYTHONPATH" in os.environ:  # never the working folder itself
        env["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in os.environ["PYTHONPATH"].split(os.pathsep))
    done = subprocess.run(
        [sys.executable, str(script), *map(str, args)], cwd=here, env=env, capture_output=True, text=True, check=False
    )
    marked = (here / "marker").read_text() if (here / "marker").exists() else ""
    assert marked == "", f"{marked}was run\n{done.stderr}"
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("how", ["command", "function"])
def test_workers_run_nothing_that_lies_in_the_working_folder(how: str, tmp_path: Path) -> None:
    task, out, here = linear_task(tmp_path), tmp_path / "run", _hostile(tmp_path / "here")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    if how == "command":
        script.write_text(PROGRAM)
        sizes = ("--suspect", "A", "--trials", "32", "--unit", "16", "--patience", "20", "--workers", "2")
        _run(script, here, *task.hunt(*sizes), "--out", out)
    else:
        script.write_text(CALL.format(basket=str(task.basket), data=task.data, out=str(out), space=SPACE))
        _run(script, here)
    assert len(list((out / "shards").glob("*.parquet"))) == 2


def test_processes_that_decode_run_nothing_that_lies_there(tmp_path: Path) -> None:
    here = _hostile(tmp_path / "here")
    script = tmp_path / "elsewhere" / "script.py"
    script.parent.mkdir()
    script.write_text(
        "import os, sys, torch\n"
        "from pathlib import Path\n"
        "from PIL import Image\n"
        "from foible.data import open_data\n"
        "from foible.data.processes import decoded_apart\n"
        "from foible.views import View\n"
        "for name in 'ab':\n"
        "    os.makedirs(f'photos/{name}')\n"
        "    Image.new('RGB', (8, 8)).save(f'photos/{name}/1.png')\n"
        "data = open_data('folder:photos', 'train', quiet=True)\n"
        "print(sum(len(part.index) for part in decoded_apart(data, [View((8, 8))], torch.arange(2).split(1), 2)))\n"
        "print(os.environ.get('PYTHONSAFEPATH'))\n"
    )
    assert _run(script, here) == "2\nNone\n"  # and the caller's own environment is as it was
