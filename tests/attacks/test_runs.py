"""A run that somebody else made: its settings may name code, and nothing of it runs unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_tasks import linear_task

from foible import cli


@pytest.mark.parametrize("what", ["space", "objective", "search", "basket"])
def test_code_that_a_run_names_is_not_run(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = linear_task(tmp_path)
    run, marker, evil = tmp_path / "run", tmp_path / "marker", tmp_path / "run" / "evil.py"
    hunt = task.hunt("--suspect", "A", "--trials", "16", "--patience", "20", "--workers", "1", "--out", run)
    assert cli.run([str(part) for part in hunt]) == 0
    evil.write_text(f"open({str(marker)!r}, 'w').close()\nThing = None\n")
    config = json.loads((run / "config.json").read_text())
    config["where"][what] = [f"A={evil}:Thing?preprocess=inside"] if what == "basket" else f"{evil}:Thing"
    (run / "config.json").write_text(json.dumps(config))
    for command in (["show"], ["report"], ["replay"]):
        code = cli.run([*command, str(run)])
        assert code == (2 if command == ["replay"] else 0)
    assert "--trust" in capsys.readouterr().err
    assert not marker.exists()
    cli.run(["replay", str(run), "--trust"])
    assert marker.exists()
