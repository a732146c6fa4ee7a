"""Runs that were made before recipes were declared and rows were made smaller: they are still read.

version-0.1.0 has one run of every verb, as that version wrote it, with the networks and images that it names; only the
places in `where` are relative, which no hash covers.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import foible
from foible import cli
from foible.errors import UserError
from foible.findings import Findings
from foible.recipes.export import export
from foible.recipes.replay import replay
from foible.recipes.suite.suite import make_suite

VERBS = ("hunt", "distort", "compare", "rank")
ROWS = {"hunt": 12, "distort": 4, "compare": 25, "rank": 2}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A copy that knows where it is."""
    home = tmp_path / "earlier"
    shutil.copytree(Path(__file__).parent / "version-0.1.0", home)
    for file in home.rglob("config.json"):
        config = json.loads(file.read_text("utf-8"))
        config["where"]["basket"] = [str(home / "basket")]
        config["where"]["data"] = f"npz:{home / config['where']['data'].removeprefix('npz:')}"
        file.write_text(json.dumps(config), "utf-8")
    return home


@pytest.mark.parametrize("verb", VERBS)
def test_it_is_shown_reported_and_cited(runs: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(Findings.open(runs / verb)) == ROWS[verb]
    for command in ("show", "report", "cite"):
        assert cli.run([command, str(runs / verb)]) == 0, capsys.readouterr().err
    page = (runs / verb / "report.html").read_text("utf-8")
    assert "data:image/png;base64," in page
    assert cli.run(["show", str(runs / verb), "--json"]) == 0


@pytest.mark.parametrize("verb", VERBS)
def test_every_row_replays(runs: Path, verb: str) -> None:
    again = replay(runs / verb)
    assert len(again) == ROWS[verb]
    assert [one.id for one in again if not one.holds] == []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("to", ["csv", "folder", "parquet"])
def test_every_row_is_exported(runs: Path, verb: str, to: str, tmp_path: Path) -> None:
    assert export(runs / verb, to, tmp_path / "out", everything=True) == ROWS[verb]


def test_a_suite_takes_them(runs: Path, tmp_path: Path) -> None:
    make_suite([runs / verb for verb in VERBS], tmp_path / "suite")
    tags = {tag for tags in Findings.open(tmp_path / "suite").column("tags") for tag in tags}
    assert tags >= {"hunt", "distort", "anchor"}


def test_to_go_on_with_one_is_refused_in_words(runs: Path) -> None:
    """Seeds are chosen in another way now, and settings say so."""
    with pytest.raises(UserError, match="settings"):
        foible.hunt(
            runs / "basket", f"npz:{runs / 'data.npz'}", out=runs / "hunt", suspect="A", trials=12, patience=60,
            space="affine?degrees=8&percent=8&pixels=0.7", peer_confidence=0.4, workers=1, quiet=True,
        )  # fmt: skip
    assert len(Findings.open(runs / "hunt")) == ROWS["hunt"]
