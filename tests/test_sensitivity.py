"""Sensitivity on made-up findings whose counts are known."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from foible.errors import UserError
from foible.findings import SCHEMA, Findings, with_metadata
from foible.odds import odds_ratio
from foible.sensitivity import sensitivity

CLASSES = ("cat", "dog")


def table(rows: list[dict[str, Any]]) -> Findings:
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in SCHEMA]
    return Findings(with_metadata(pa.table(columns, schema=SCHEMA), CLASSES, {}))


def trials(
    suspect: str, kinds: list[str] | None, count: int, truth: int | None = 0, **more: Any
) -> list[dict[str, Any]]:
    outcome = "exhausted" if kinds is None else "found"
    return [{"suspect": suspect, "outcome": outcome, "kinds": kinds, "truth": truth, **more}] * count


def lighting_and_rotation() -> Findings:
    """A's mistakes are mostly light, with rotation; B's and C's mostly rotation alone."""
    rows = trials("A", ["brightness"], 20) + trials("A", ["hue", "rotation"], 40) + trials("A", ["rotation"], 20)
    rows += trials("A", ["shift"], 20)
    for name in ("B", "C"):
        rows += (
            trials(name, ["brightness"], 10) + trials(name, ["rotation"], 80) + trials(name, ["hue", "rotation"], 10)
        )
    return table(rows)


def test_kinds_are_counted_against_the_peers() -> None:
    rows = {(row.network, row.kind): row for row in sensitivity(lighting_and_rotation()).kinds}
    row = rows["A", "brightness"]
    assert (row.count, row.mistakes, row.peers_count, row.peers_mistakes) == (20, 100, 20, 200)
    assert row.odds == odds_ratio(20, 80, 20, 180)
    group = rows["A", "lighting"]
    assert (group.group, group.count, group.peers_count) == (True, 60, 40)
    assert group.odds.ratio == pytest.approx((60 / 40) / (40 / 160))
    assert group.holm == pytest.approx(min(1, group.odds.p * len(rows)))  # the smallest p of all is times all of them
    geometry = rows["A", "geometry"]
    assert (geometry.count, geometry.peers_count) == (80, 180)
    assert {kind for name, kind in rows if name == "A"} == {
        "lighting", "geometry", "brightness", "hue", "rotation", "shift"
    }  # fmt: skip
    assert str(rows["A", "lighting"]) == "A: lighting odds ratio 6.0 (3.5–10.2)"


def test_pairs_are_held_against_independence() -> None:
    result = sensitivity(lighting_and_rotation())
    rows = {(row.network, row.first, row.second): row for row in result.pairs}
    assert set(rows) == {(name, "lighting", kind) for name in "ABC" for kind in ("rotation", "shift")}
    row = rows["A", "lighting", "rotation"]
    assert (row.observed, row.expected) == (40, pytest.approx(60 * 60 / 100))
    assert (row.peers_observed, row.peers_expected) == (20, pytest.approx(40 * 180 / 200))
    assert row.odds == odds_ratio(40, 20, 20, 20)


def test_pairs_of_one_group_are_all_pairs() -> None:
    rows = trials("A", ["rotation", "shift"], 5) + trials("B", ["rotation"], 4) + trials("B", ["shear"], 3)
    pairs = {(row.first, row.second) for row in sensitivity(table(rows)).pairs}
    assert pairs == {("rotation", "shear"), ("rotation", "shift"), ("shear", "shift")}


def test_a_class_is_held_against_the_networks_other_classes() -> None:
    """A is weaker than B everywhere, and in dogs as much as in cats; C in dogs alone."""
    rows = []
    for name, cats, dogs in (("A", 60, 60), ("B", 30, 30), ("C", 30, 80)):
        for truth, found in ((0, cats), (1, dogs)):
            rows += trials(name, ["rotation"], found, truth) + trials(name, None, 100 - found, truth)
    result = {(row.network, row.label): row for row in sensitivity(table(rows)).classes}
    row = result["C", "dog"]
    assert (row.found, row.trials, row.peers_found, row.peers_trials) == (80, 100, 90, 200)
    assert row.odds == odds_ratio(80, 20, 90, 110)
    elsewhere = (30 / 70) / (90 / 110)
    assert row.beyond.ratio == pytest.approx((80 / 20) / (90 / 110) / elsewhere)
    assert row.holm < 0.001
    assert "C: dog found in 80 % of trials, peers 45 %; odds ratio beyond its other classes 9.3" in str(row)
    assert result["C", "cat"].beyond.ratio == pytest.approx(1 / row.beyond.ratio)


def test_words_name_what_stands_out_and_say_when_nothing_does() -> None:
    text = sensitivity(lighting_and_rotation()).as_text()
    first = text.splitlines()[0]
    assert first.startswith("A: ")
    assert "A: lighting odds ratio 6.0 (3.5–10.2)" in text
    same = [row for name in "AB" for row in trials(name, ["rotation"], 9) + trials(name, ["shift"], 9)]
    # Kinds that exclude each other are not independent, which is no difference between networks.
    alike = sensitivity(table(same))
    assert all(row.holm == 1 for row in alike.kinds)
    quiet = sensitivity(table([row for name in "AB" for row in trials(name, ["rotation"], 9)])).as_text()
    assert quiet == "A: nothing that sets it apart from its peers\nB: nothing that sets it apart from its peers"


def test_findings_without_kinds_or_labels() -> None:
    """A space that has no kinds still has classes; unlabelled trials count by the peers' consensus."""
    rows = trials("A", [], 6, None, consensus=1) + trials("B", [], 2, None, consensus=1)
    rows += trials("B", None, 4, None, consensus=None)
    result = sensitivity(table(rows))
    assert (result.kinds, result.pairs) == ((), ())
    assert [(row.network, row.label, row.found, row.trials) for row in result.classes] == [
        ("A", "dog", 6, 6),
        ("B", "dog", 2, 2),
    ]


def test_one_suspect_has_nobody_to_be_compared_with() -> None:
    with pytest.raises(UserError, match="leave --suspect out"):
        sensitivity(table(trials("A", ["rotation"], 3)))
