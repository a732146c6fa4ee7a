from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import foible
from foible.basket import Basket
from foible.studies.common import write
from foible.studies.peer_pressure import table2
from foible.studies.peer_pressure.held_out import Judge
from foible.studies.peer_pressure.table2 import GRID, Curve, PeerTrials, mosaic, notes_of, rows_of

OPTIONS: dict[str, Any] = {"shrink": False, "realism": "none", "device": "cpu", "quiet": True}


def test_a_suspect_without_peers_is_searched_alone(networks: Basket) -> None:
    found = foible.hunt(networks.only(["mlp-8"]), "digits", trials=20, space="swaps", **OPTIONS)
    assert len(found.filter(outcome="found")) > 15
    for row in found.filter(outcome="found"):
        assert row["networks"] == ["mlp-8"]
        assert row["consensus"] is None
        assert row["said"] != row["truth"]


def test_a_tally_counts_what_the_judge_and_left_out_peers_say(networks: Basket) -> None:
    suspect, *peers = networks.names
    found = foible.hunt(networks, "digits", suspect=suspect, peers=peers[:1], trials=30, **OPTIONS)
    tally = PeerTrials()
    tally.add(found, Judge(networks.only([suspect]), 0.0), networks, peers[1:])
    wins = len(found.filter(outcome="found"))
    assert tally.trials == 30
    assert tally.drifted == tally.sided == len(tally.moves) == wins > 3  # a judge that is the suspect sides with it
    assert tally.left_out == 2 * wins
    assert 0 < tally.left_out_wrong < tally.left_out
    again = PeerTrials()
    again.add(found, Judge(networks.only(peers[:1]), 0.0), networks, [])
    assert again.drifted == again.sided == 0  # a judge that was the peer holds the class in every finding


def _curve(space: str) -> Curve:
    tallies = [PeerTrials(300, [36] * 299), PeerTrials(1200, [37] * 600, drifted=60)]
    return Curve(space, 0.9, tallies, [("none", tallies[0]), ("B", PeerTrials(300, [40] * 100))])


def test_rows_stand_beside_the_papers_figures() -> None:
    rows = {row.quantity: row for row in rows_of(_curve("swaps"))}
    assert rows["0 peers: success, %"].paper == rows["0 peers: success, %"].measured == 100 * 299 / 300
    assert rows["1 peer: success, %"].measured == 50
    assert rows["1 peer: success, %"].n == 1200
    assert rows["1 peer: moves of a success"].paper == rows["1 peer: moves of a success"].measured == 37
    assert rows["B: moves of a success"].measured == 40
    assert rows["1 peer: the judge sees another digit, %"].measured == 10
    assert all(row.paper is None for row in rows_of(_curve("affine")))


def test_notes_say_what_the_figures_do() -> None:
    basket: Any = None
    falls, digit = notes_of(_curve("swaps"), Judge(basket, 0.02))
    assert "falls with every further peer (99.7, 50.0 % for 0 to 1 peers); moves of a success 36, 37" in falls
    assert "in 0 % of what was found without peers and in 10 % with 1; it errs on 2.0 %" in digit
    flat = Curve("swaps", 0.0, [PeerTrials(10, [1] * 5), PeerTrials(10, [1] * 5)])
    assert "success does not fall" in notes_of(flat, Judge(basket, 0.02))[0]


def test_a_mosaic_leaves_white_what_it_does_not_have() -> None:
    sheet = mosaic([torch.full((1, 3, 3), 7, dtype=torch.uint8)] * 2)
    assert sheet.shape == (1, GRID * 4 - 1, GRID * 4 - 1)
    assert (sheet == 7).sum() == 18
    assert (mosaic([]) == 255).all()


def test_the_study_finds_less_with_sure_peers(digits_basket: Path, tmp_path: Path, few: Any) -> None:
    few(table2, levels=(0.9,), trials=20, judge=2000, choices=2)
    result = table2.run(scale="quick", data="digits", out=tmp_path, basket=str(digits_basket), device="cpu", quiet=True)
    write(result, tmp_path)
    table = "Table 2, pixel swaps, peer confidence 0.9"
    success = [row for row in result.rows if row.table == table and row.quantity.endswith("success, %")]
    assert [row.n for row in success] == [20, 40, 40, 20]  # two choices, where there are two
    assert success[0].measured is not None
    assert success[-1].measured is not None
    assert success[0].measured > success[-1].measured + 10
    assert result.figures == ["figure-1", "table-2"]
    assert len(list((tmp_path / "hunts").iterdir())) == 2 * 6
