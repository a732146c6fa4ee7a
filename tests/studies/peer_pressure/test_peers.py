from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foible.errors import UserError
from foible.findings import Findings
from foible.studies.common import write
from foible.studies.peer_pressure import peers
from foible.studies.peer_pressure.peers import answer, at_equal_finds, rows_of
from foible.studies.peer_pressure.reliability import ConsensusFinds


def _tally(count: int, trials: int, found: list[tuple[int, int, int, int]]) -> ConsensusFinds:
    return ConsensusFinds(count, trials, found)


RIGHT, WRONG = (3, 3, 5, 3), (3, 5, 3, 3)  # label, consensus, suspect's answer, judge's


def test_the_answer_follows_the_numbers() -> None:
    worse, better = [RIGHT] * 300 + [WRONG] * 100, [RIGHT] * 99 + [WRONG]
    yes, pairs = answer("moves", [_tally(1, 500, worse), _tally(20, 500, better)])
    assert "Yes: reliability rises" in yes
    assert "from 75.0 % with 1 to 99.0 % with 20" in yes
    assert "success goes from 80.0 % with 1 to 20.0 % with 20" in yes
    assert "from 1 to 1; among 99 finds each, from 1 with 1 to 1 with 20 peers." in pairs
    assert "No: success falls" in answer("moves", [_tally(1, 500, better * 4), _tally(20, 500, better)])[0]
    free = answer("moves", [_tally(1, 500, worse), _tally(20, 500, better * 4)])
    assert "Reliability rises, and success does not" in free[0]
    assert "Neither" in answer("moves", [_tally(1, 500, worse), _tally(20, 500, worse)])[0]
    weak = [_tally(1, 500, [RIGHT] * 375 + [WRONG] * 25), _tally(20, 500, [RIGHT] * 98 + [WRONG])]
    assert "Yes" in answer("moves", weak, 1)[0]  # z is 2.1: enough for one curve, not for one of four
    assert "does not measurably rise" in answer("moves", weak, 4)[0]
    assert "too few to compare" in answer("moves", [_tally(1, 500, worse), _tally(20, 500, [RIGHT] * 3)])[0]


def test_coverage_is_compared_at_an_equal_number_of_finds() -> None:
    many = [(label, label, (label + k) % 10, label) for label in range(10) for k in range(1, 6)]
    kinds, least = at_equal_finds([_tally(1, 99, many * 2), _tally(2, 99, many[:25]), _tally(3, 99, many[:5])])
    assert least == 25
    assert kinds[0] is not None
    assert 15 < kinds[0] < 25
    assert kinds[1:] == [25, None]


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
    few(peers, trials=40, peers=(1, 3), levels=(0.9,), judge=2000)
    given: dict[str, Any] = {"scale": "quick", "data": "digits", "out": tmp_path, "device": "cpu", "quiet": True}
    result = peers.run(**given, basket=str(digits_basket))
    write(result, tmp_path)
    by_name = {(row.table, row.quantity): row for row in result.rows}
    for count, peer in ((1, "1 peer"), (3, "3 peers")):
        found = Findings.open(tmp_path / "hunts" / f"swaps-0.9-{count}-mlp-8")
        assert set(found.column("truth")) == {None}
        assert set(found.column("origin_split")) == {"test"}
        assert len(found[0]["networks"]) == 1 + count
        share = 100 * len(found.filter(outcome="found")) / 40
        assert by_name["pixel swaps, peer confidence 0.9: success", f"{peer}, %"].measured == share > 0
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
