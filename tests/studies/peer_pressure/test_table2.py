from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import foible
from foible.basket import Basket
from foible.studies.common import write
from foible.studies.peer_pressure import table2
from foible.studies.peer_pressure.held_out import Judge
from foible.studies.peer_pressure.table2 import GRID, Tally, mosaic, rows_of


def test_a_suspect_without_peers_is_searched_alone(networks: Basket) -> None:
    found = foible.hunt(networks.only(["mlp-8"]), "digits", trials=20, space="swaps", device="cpu", quiet=True)
    assert len(found.filter(outcome="found")) > 15
    for row in found.filter(outcome="found"):
        assert row["networks"] == ["mlp-8"]
        assert row["consensus"] is None
        assert row["said"] != row["truth"]


def test_a_tally_counts_what_the_judge_and_left_out_peers_say(networks: Basket) -> None:
    suspect, *peers = networks.names
    found = foible.hunt(networks, "digits", suspect=suspect, peers=peers[:1], trials=30, device="cpu", quiet=True)
    tally = Tally()
    tally.add(found, Judge(networks.only([suspect]), 0.0), networks, peers[1:])
    wins = len(found.filter(outcome="found"))
    assert tally.trials == 30
    assert tally.drifted == tally.sided == len(tally.moves) == wins > 3  # a judge that is the suspect sides with it
    assert tally.left_out == 2 * wins
    assert 0 < tally.left_out_wrong < tally.left_out
    again = Tally()
    again.add(found, Judge(networks.only(peers[:1]), 0.0), networks, [])
    assert again.drifted == again.sided == 0  # a judge that was the peer holds the class in every finding


def test_rows_stand_beside_the_papers_figures() -> None:
    tallies = [Tally(300, [36] * 299), Tally(1200, [37] * 600, drifted=60)]
    named = [("none", tallies[0]), ("B", tallies[1])]
    rows = {row.quantity: row for row in rows_of("Table 2", tallies, named, paper=True)}
    assert rows["0 peers: success, %"].paper == rows["0 peers: success, %"].measured == 100 * 299 / 300
    assert rows["1 peer: success, %"].measured == 50
    assert rows["1 peer: moves of a success"].paper == rows["1 peer: moves of a success"].measured == 37
    assert rows["1 peer: the judge sees another digit, %"].measured == 10
    assert all(row.paper is None for row in rows_of("affine", tallies, named, paper=False))


def test_a_mosaic_leaves_white_what_it_does_not_have() -> None:
    sheet = mosaic([torch.full((1, 3, 3), 7, dtype=torch.uint8)] * 2)
    assert sheet.shape == (1, GRID * 4 - 1, GRID * 4 - 1)
    assert (sheet == 7).sum() == 18
    assert (mosaic([]) == 255).all()


def test_the_study_finds_less_with_peers(digits_basket: Path, tmp_path: Path, few: Any) -> None:
    few(table2, trials=20, judge=2000)
    result = table2.run(scale="quick", data="digits", out=tmp_path, basket=str(digits_basket), device="cpu", quiet=True)
    write(result, tmp_path)
    success = [row.measured for row in result.rows if row.table == "Table 2: pixel swaps" and "success" in row.quantity]
    assert len(success) == 4
    assert success[0] is not None
    assert success[-1] is not None
    assert success[0] > success[-1] + 10
    assert [row.n for row in result.rows[::2]][:4] == [20, 60, 60, 20]  # every choice of peers
    assert result.figures == ["figure-1", "table-2"]
    assert len(list((tmp_path / "hunts").iterdir())) == 2 * 8
