"""A program that is asked to end: SIGTERM and SIGHUP do what Ctrl-C does, and one of them is enough."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_tasks import SLOW_SPACE, Task, alive, descendants, leftovers, same_table, start, wait_for

from foible import cli

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")

SOON = 8.0  # seconds; a second on a machine that does nothing else
HANGING = """
import time, pathlib, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 3))

    def forward(self, images):
        if {when}:
            pathlib.Path(__file__).with_name("hangs").touch()
            time.sleep(600)
        return self.inner(images)

torch.manual_seed(0)
net = Net().eval()
"""


def _stopped(process: subprocess.Popen[str], which: signal.Signals) -> str:
    workers = descendants(process.pid)
    began = time.monotonic()
    process.send_signal(which)
    try:
        _, said = process.communicate(timeout=4 * SOON)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("the program did not end")
    assert time.monotonic() - began < SOON
    assert process.returncode == 3, (process.returncode, said)
    wait_for(lambda: not any(map(alive, workers)), SOON, "workers outlived the program")
    assert "Traceback" not in said
    assert "the same command goes on:\n  foible hunt" in said
    return said


@pytest.mark.parametrize(("which", "workers"), [("SIGTERM", 2), ("SIGTERM", 1), ("SIGHUP", 2)])
def test_a_signal_to_end_is_heard_and_the_run_goes_on_later(
    which: str, workers: int, task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slow.py").write_text(SLOW_SPACE)
    sizes = ["--suspect", "A", "--trials", "256", "--unit", "16", "--patience", "10", "--no-shrink"]
    hunt = [*task.hunt(*sizes), "--space", f"{tmp_path / 'slow.py'}:Slow", "--workers", str(workers), "--out"]
    run = tmp_path / "run"

    def hearing() -> None:  # also where the tests themselves were started deaf to it
        signal.signal(getattr(signal, which), signal.SIG_DFL)

    with start(*hunt, run, preexec_fn=hearing) as process:
        wait_for(lambda: list((run / "shards").glob("*.parquet")))
        _stopped(process, getattr(signal, which))
    assert 0 < len(list((run / "shards").glob("*.parquet"))) < 16
    assert leftovers(run) == []
    if workers == 1:
        code = cli.run([*hunt, str(run)])
        err = capsys.readouterr().err
        assert (code, "already on disk" in err) == (0, True), err
        assert cli.run([*hunt, str(tmp_path / "whole")]) == 0
        same_table(run, tmp_path / "whole")


def test_who_wants_to_outlive_the_terminal_does(task: Task, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_SPACE)
    sizes = ["--suspect", "A", "--trials", "64", "--unit", "16", "--patience", "10", "--no-shrink", "--workers", "1"]
    hunt = [*task.hunt(*sizes), "--space", f"{tmp_path / 'slow.py'}:Slow", "--out", tmp_path / "run"]

    def nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with start(*hunt, preexec_fn=nohup) as process:
        wait_for(lambda: list((tmp_path / "run" / "shards").glob("*.parquet")))
        process.send_signal(signal.SIGHUP)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


@pytest.mark.parametrize("where", ["here", "workers"])
def test_one_ctrl_c_is_enough_for_a_network_that_hangs(where: str, task: Task, tmp_path: Path) -> None:
    when = "len(images) > 16" if where == "here" else "__import__('multiprocessing').parent_process()"
    (tmp_path / "hanging.py").write_text(HANGING.format(when=when))
    spec = f"{tmp_path / 'hanging.py'}:net?preprocess=inside&classes=data"
    networks = ["--network", f"A={spec}", "--network", f"B={spec}"]
    sizes = ["--trials", "64", "--unit", "16", "--patience", "5", "--workers", "2", "--no-shrink"]
    hunt = ["hunt", *networks, "--data", task.data, *sizes, "--out", tmp_path / "run"]
    with start(*hunt) as process:
        wait_for(lambda: (tmp_path / "hangs").exists() or process.poll() is not None)
        _stopped(process, signal.SIGINT)
