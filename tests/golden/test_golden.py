"""Golden runs: the same settings give the same findings, column by column, whatever was moved in the code.

golden.json has a record for each machine on which one was made: all columns must be as there. On another processor with
the same libraries those must be that all records have alike: outcomes, moves, images, and not the last bits of answers.
`python tests/golden/record.py` records this machine anew; a change needs a line in CHANGELOG.md.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_runs import machine, make_all

Runs = dict[str, dict[str, str]]
HERE = machine()
RECORDS = [
    record
    for record in json.loads(Path(__file__).with_name("golden.json").read_text("utf-8"))["records"]
    if all(record["machine"][name] == HERE[name] for name in ("torch", "numpy", "pyarrow", "processor"))
]


def known() -> Runs:
    """What this machine must give: run -> column -> hash."""
    for record in RECORDS:
        if record["machine"].get("last bits") == HERE["last bits"]:
            return dict(record["runs"])
    return agreed()


def agreed() -> Runs:
    """Columns that all records have alike."""
    first, *others = (record["runs"] for record in RECORDS)
    return {
        run: {name: value for name, value in columns.items() if all(one[run][name] == value for one in others)}
        for run, columns in first.items()
    }


@pytest.mark.skipif(not RECORDS, reason=f"never recorded with {HERE}")
def test_every_column_of_every_run_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = make_all(tmp_path)
    assert list(made) == list(known())
    differ = [
        f"{run}: {column}"
        for run, columns in known().items()
        for column, value in columns.items()
        if made[run].get(column) != value
    ]
    assert differ == [], "if that is meant: python tests/golden/record.py"


@pytest.mark.skipif(not RECORDS, reason=f"never recorded with {HERE}")
def test_records_of_several_processors_agree_on_what_was_found() -> None:
    for run, columns in agreed().items():
        assert {"id", "outcome", "truth", "said"} <= columns.keys(), run
