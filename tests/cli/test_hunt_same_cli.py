"""What does not hang on how the work is done: the same bytes from any number of workers, realism in any unit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_tasks import shards

from foible import cli
from foible.findings import Findings


def _hunt(basket: Path, out: Path, *options: object) -> Findings:
    command = ["hunt", "--basket", basket, "--suspect", "mlp-10", "--trials", 32, *options, "--out", out]
    assert cli.run([str(word) for word in command]) == 0
    return Findings.open(out)


@pytest.mark.parametrize(
    ("search", "space"),
    [
        ("hill-climb", "affine"),
        ("gradient", "photometric+affine"),
        ("genetic", "photometric+affine"),
        ("strategy", "affine"),
    ],
)
def test_workers_change_no_byte(mlps: Path, tmp_path: Path, search: str, space: str) -> None:
    options = ("--search", search, "--space", space, "--unit", 16)
    one, two = (_hunt(mlps, tmp_path / str(n), *options, "--workers", n) for n in (1, 2))
    assert len(shards(tmp_path / "1")) == 2
    assert shards(tmp_path / "1") == shards(tmp_path / "2")
    found = one.filter(outcome="found")
    assert len(found) == len(two.filter(outcome="found")) > 5
    assert None not in found.column("least_image")  # shrinking and realism were on
    assert np.isfinite(found.column("realism")).all()


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
