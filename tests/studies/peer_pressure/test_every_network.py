from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from foible.basket import Basket
from foible.errors import UserError
from foible.findings import Findings
from foible.studies.common import write
from foible.studies.peer_pressure import every_network
from foible.studies.peer_pressure.every_network import figure9, found_by, missed_by_all, numbers, pick


def test_seeds_that_every_network_misses_are_those_of_which_all_attempts_succeeded(
    findings: Findings, networks: Basket
) -> None:
    found = found_by(findings, networks.names)
    assert found.shape == (40, 4)
    whole = missed_by_all(findings, networks.names)
    assert len(whole) == int(found.all(1).sum()) > 0
    for rows in whole:
        assert [row["suspect"] for row in rows] == list(networks.names)
        assert len({row["origin_index"] for row in rows}) == 1
        for row in rows:
            assert row["outcome"] == "found"
            assert row["said"] != row["truth"] == row["consensus"]


def test_the_independent_share_is_the_product_of_the_networks_shares(findings: Findings, networks: Basket) -> None:
    rows, notes = numbers([findings], networks.names, 0.0)
    shares = [row.measured for row in rows if row.quantity.endswith("success, %")]
    by_name = {row.quantity: row.measured for row in rows}
    product = torch.tensor(shares).double().div(100).prod() * 100
    assert by_name["4 of 4, % of seeds if networks were independent"] == pytest.approx(float(product))
    expected = [by_name[f"{k} of 4, % of seeds if networks were independent"] or 0 for k in range(5)]
    measured = [by_name[f"{k} of 4, % of seeds"] or 0 for k in range(5)]
    assert sum(expected) == pytest.approx(100)
    assert sum(measured) == pytest.approx(100)
    mean = sum(k * share for k, share in enumerate(expected))  # both laws have the mean of the networks' successes
    assert mean == pytest.approx(sum(k * share for k, share in enumerate(measured)))
    assert f"{len(missed_by_all(findings, networks.names))} of 40 seeds" in notes[0]


def test_seeds_are_picked_from_different_classes(findings: Findings, networks: Basket) -> None:
    whole = missed_by_all(findings, networks.names)
    chosen = pick(whole)
    assert len(chosen) == min(2, len(whole))
    if len({rows[0]["truth"] for rows in whole}) > 1:
        assert chosen[0][0]["truth"] != chosen[1][0]["truth"]
    figure = figure9(chosen, findings.classes)
    assert [len(part.axes) for part in figure.subfigs] == [2 * 5] * len(chosen)


def test_the_study_writes_its_figures(digits_basket: Path, tmp_path: Path, few: Any) -> None:
    few(every_network, trials=30)
    basket = str(digits_basket)
    result = every_network.run(scale="quick", data="digits", out=tmp_path, basket=basket, device="cpu", quiet=True)
    write(result, tmp_path)
    assert {"figure-5", "figure-6", "figure-9"} <= set(result.figures)
    assert result.settings["rounds at peer confidence 0"] == 1


def test_a_basket_of_one_is_refused(digits_basket: Path, tmp_path: Path) -> None:
    one = str(digits_basket / "mlp-8")
    with pytest.raises(UserError, match="at least two"):
        every_network.run(scale="quick", data="digits", out=tmp_path, basket=one, device="cpu", quiet=True)
