"""What does not hang on how the work is done: the same bytes from any number of workers, realism in any unit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_tasks import shards

from foible import cli
from foible.findings import Findings

ALL = "import json, sys\nfrom foible import cli\nsys.exit(any([cli.run(one) for one in json.loads(sys.argv[1])]))\n"


def _command(basket: Path, out: Path, *options: object) -> list[str]:
    command = ["hunt", "--basket", basket, "--suspect", "mlp-10", "--trials", 32, *options, "--out", out]
    return [str(word) for word in command]


def _hunt(basket: Path, out: Path, *options: object) -> Findings:
    assert cli.run(_command(basket, out, *options)) == 0
    return Findings.open(out)


def _same(one: Path, two: Path) -> None:
    """The same bytes, of shards in which something was found."""
    assert len(shards(one)) == 2
    assert shards(one) == shards(two)
    found = Findings.open(one).filter(outcome="found")
    assert len(found) > 5
    assert None not in found.column("least_image")  # shrinking and realism were on
    assert np.isfinite(found.column("realism")).all()


def test_workers_change_no_byte(mlps: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        _hunt(mlps, tmp_path / str(workers), "--patience", 60, "--unit", 16, "--workers", workers)
    _same(tmp_path / "1", tmp_path / "2")


def test_another_process_changes_no_byte(mlps: Path, tmp_path: Path) -> None:
    """Of any search: one process does all of them, as a worker does its units."""
    ways = [
        ("gradient", "photometric+affine"),
        ("genetic?generations=20", "photometric+affine"),
        ("strategy?generations=30", "affine"),
    ]
    here, there = (
        [_command(mlps, tmp_path / where / search[:7], "--search", search, "--space", space, "--unit", 16,
                  "--peer-confidence", 0, "--workers", 1) for search, space in ways]
        for where in ("here", "there")
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", ALL, json.dumps(there)], check=True, capture_output=True)
    for command in here:
        assert cli.run(command) == 0
    for search, _ in ways:
        _same(tmp_path / "here" / search[:7], tmp_path / "there" / search[:7])


def test_realism_and_kinds_are_the_same_in_any_unit(mlps: Path, tmp_path: Path) -> None:
    """A row's place in its batch may move a last bit, and no more."""
    options = ("--patience", 10, "--peer-confidence", 0.5, "--workers", 1)
    whole, parts = (_hunt(mlps, tmp_path / str(unit), *options, "--unit", unit) for unit in (32, 3))
    assert 0 < len(whole.filter(outcome="found")) < 32
    for ours, theirs in zip(whole, parts, strict=True):
        if ours["image"] == theirs["image"]:
            assert ours["realism"] == pytest.approx(theirs["realism"], abs=1e-3)
            assert ours["kinds"] == theirs["kinds"]
    assert sum(a == b for a, b in zip(whole.column("image"), parts.column("image"), strict=True)) >= 30
