from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foible.errors import UserError
from foible.studies.common import write
from foible.studies.peer_pressure import peers
from foible.studies.peer_pressure.peers import answer, rows_of
from foible.studies.peer_pressure.reliability import Tally


def _tally(count: int, trials: int, found: list[tuple[int, int, int, int]]) -> Tally:
    return Tally(count, trials, found)


RIGHT, WRONG = (3, 3, 5, 3), (3, 5, 3, 3)  # label, consensus, suspect's answer, judge's


def test_the_answer_follows_the_numbers() -> None:
    worse, better = [RIGHT] * 300 + [WRONG] * 100, [RIGHT] * 99 + [WRONG]
    yes = answer("moves", [_tally(1, 500, worse), _tally(20, 500, better)])
    assert "Yes: reliability rises" in yes[0]
    assert "from 75.0 % to 99.0 %" in yes[0]
    assert "success from 80.0 % to 20.0 %" in yes[0]
    no = answer("moves", [_tally(1, 500, better * 4), _tally(20, 500, better)])
    assert "No: success falls" in no[0]
    free = answer("moves", [_tally(1, 500, worse), _tally(20, 500, better * 4)])
    assert "Reliability rises, and success does not" in free[0]
    assert "Neither" in answer("moves", [_tally(1, 500, worse), _tally(20, 500, worse)])[0]
    assert "nothing was found with 20 peers" in answer("moves", [_tally(1, 500, worse), _tally(20, 500, [])])[0]


def test_rows_tell_reliability_by_label_and_by_judge() -> None:
    drifted = (3, 3, 5, 5)  # the label holds for the seed; the judge sees in the image what the suspect said
    rows = rows_of("moves", [_tally(1, 10, [RIGHT, RIGHT, drifted, WRONG])], 10)
    by_name = {row.quantity: row.measured for row in rows}
    assert by_name["1 peer, %"] == 40
    assert by_name["1 peer: consensus is the seed's label, %"] == 75
    assert by_name["1 peer: consensus is what the judge sees, %"] == 50
    assert by_name["1 peer: both, %"] == 50
    assert by_name["1 peer: pairs of 90"] == 1
    assert by_name["1 peer: true classes"] == 1
    assert rows[0].table == "moves: success"


def test_the_study_hides_labels_and_measures_them(digits_basket: Path, tmp_path: Path, few: Any) -> None:
    few(peers, trials=40, peers=(1, 3), judge=2000)
    given: dict[str, Any] = {"scale": "quick", "data": "digits", "out": tmp_path, "device": "cpu", "quiet": True}
    result = peers.run(**given, basket=str(digits_basket))
    write(result, tmp_path)
    by_name = {(row.table, row.quantity): row for row in result.rows}
    few_peers, more = (by_name["pixel swaps: success", f"{k}, %"].measured for k in ("1 peer", "3 peers"))
    assert few_peers is not None
    assert more is not None
    assert few_peers > more
    for row in result.rows:
        if "reliability" in row.table and row.n:
            assert row.measured is not None
            assert 0 <= row.measured <= 100
    assert result.settings["unlabelled"]
    assert any("does adding more peers" in note for note in result.notes)


def test_too_few_networks_are_refused(digits_basket: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="4 networks for 4 suspects"):
        peers.run(
            scale="quick", data="digits", out=tmp_path, basket=str(digits_basket), suspects=4, device="cpu", quiet=True
        )
