"""Golden runs: the same settings give the same findings, column by column, whatever was moved in the code.

`python tests/golden/record.py` writes golden.json anew; a change of it needs a line in CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_runs import machine, make_all

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text("utf-8"))


@pytest.mark.skipif(GOLDEN["machine"] != machine(), reason=f"recorded with {GOLDEN['machine']}")
def test_every_column_of_every_run_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, known = make_all(tmp_path), GOLDEN["runs"]
    differ = [
        f"{run}: {column}"
        for run in {**known, **made}
        for column in {**known.get(run, {}), **made.get(run, {})}
        if known.get(run, {}).get(column) != made.get(run, {}).get(column)
    ]
    assert differ == [], "if that is meant: python tests/golden/record.py"
