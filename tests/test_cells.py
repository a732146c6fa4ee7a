"""Cells of an atlas: where a finding stands, from its columns alone."""

from __future__ import annotations

from typing import Any

import pytest

from foible.cells import COLUMNS, MOVES, Cell, bin_labels, cell_of, is_atlas, kind_of, size_bin, size_of


def row(**changed: Any) -> dict[str, Any]:
    """A finding of a box: 4 taken for 9 by a way of 3.5 largest moves."""
    usual = {"truth": 4, "consensus": 4, "said": 9, "kinds": ["rotation", "shift"], "size": 3.5, "least_path": None}
    return {**usual, "moves": 7, **changed}


def test_bins() -> None:
    assert bin_labels() == ["<1", "1–2", "2–4", "≥4"]
    assert bin_labels(MOVES) == ["<4", "4–16", "16–64", "≥64"]
    assert [size_bin(size) for size in (0.0, 0.99, 1.0, 2.0, 3.9, 4.0, 90.0)] == [0, 0, 1, 2, 2, 3, 3]
    assert [kind_of(kinds) for kinds in (None, [], ["a"], ["b", "a"])] == ["any", "any", "a", "b"]


def test_the_smallest_change_counts_where_it_is_known() -> None:
    assert cell_of(row()) == Cell(4, 9, "rotation", 2)
    assert size_of(row(least_path=[[0.5 + 0.3, 0.5 - 0.4]])) == (pytest.approx(1.0), 1)  # 0.6 and −0.8 largest moves
    assert cell_of(row(least_path=[[0.95, 0.5]])).size == 0
    assert cell_of(row(least_path=[[0.95, 0.5]]), own=True).size == 2
    assert cell_of(row(least_path=[[0.9, 0.1]], size=None, moves=20), own=True).size == 2
    assert size_of(row(least_path=[[0.9, 0.5], [0.9, 0.5]])) == (3.5, 2)  # two moves do not add up to a size


def test_without_a_box_moves_are_counted() -> None:
    assert cell_of(row(size=None)) == Cell(4, 9, "rotation", 1)
    assert cell_of(row(size=None, least_path=[[0.1, 0.2]] * 3)).size == 0
    assert cell_of(row(size=None, moves=None, kinds=None)) == Cell(4, 9, "any", 0)


def test_classes_that_nobody_knows() -> None:
    assert cell_of(row(truth=None)).right == 4  # what the peers agree on
    assert cell_of(row(truth=None, consensus=None, said=None))[:2] == (-1, -1)
    assert set(COLUMNS) == set(row())


def test_which_runs_are_atlases() -> None:
    assert is_atlas({"search": "map-elites?width=100"})
    assert is_atlas({"search": "map-elites"})
    assert not any(is_atlas(settings) for settings in ({}, {"search": None}, {"search": "hill-climb"}))
