"""`foible study deep`, tiny, from training to pictures; and on networks of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foible.errors import UserError
from foible.networks.files import read_record
from foible.studies import run_study

TINY = {"seeds": "2", "epochs": "2", "trials": "8", "images": "200", "networks": "resnet:8,width=4", "workers": "1"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("deep") / "out"
    run_study("deep", data="digits", out=out, device="cpu", quiet=True, options=TINY)
    return out


def test_it_writes_rows_notes_and_pictures(tiny: Path) -> None:
    result = json.loads((tiny / "result.json").read_text(encoding="utf-8"))
    assert (result["study"], result["scale"], result["settings"]["data"]) == ("deep", "quick", "digits")
    rows = {(row["table"], row["quantity"]): row for row in result["rows"]}
    names = ("network 1", "network 2")
    for name in names:
        assert 0 <= rows["resnet-8: accuracy", f"{name}: test accuracy %"]["measured"] <= 100
        success = rows["resnet-8: hunt", f"{name}: success %"]
        assert success["n"] == 8
        assert success["low"] <= success["measured"] <= success["high"]
    claim = rows["resnet-8: hunt", "networks with mistakes that all their peers get right"]
    assert (claim["paper"], claim["n"]) == (2, 2)
    found = sum(rows["resnet-8: hunt", f"{name}: moves"]["n"] for name in names)
    assert found > 0, "a hunt that finds nothing shows nothing: train less"
    kinds = [row for (table, _), row in rows.items() if "odds ratio" in table]
    assert kinds
    assert all(row["n"] == found and row["low"] <= row["measured"] <= row["high"] for row in kinds)
    themes = [row for (table, _), row in rows.items() if "severe" in table]
    assert len(themes) == 8
    for stem in ("figure-8-left", "figure-8-right", "sensitivity"):
        assert (tiny / f"{stem}-resnet-8.png").stat().st_size > 2000
    assert f"{stem}-resnet-8.png" in (tiny / "table.md").read_text(encoding="utf-8")
    known = json.loads((tiny / "sensitivity-resnet-8.json").read_text(encoding="utf-8"))
    assert {row["network"] for row in known["kinds"]} == {"resnet-8-width-4-s0", "resnet-8-width-4-s1"}


def test_networks_are_trained_as_the_paper_says(tiny: Path) -> None:
    record = read_record(tiny / "resnet-8" / "basket")
    augment = record["networks"][0]["training"]["augment"]
    assert {name: augment[name] for name in ("area", "flip", "brightness")} == {
        "area": 50.0, "flip": False, "brightness": 40.0  # of digits: no flips, and no crop of 8 %
    }  # fmt: skip


def test_the_same_command_does_nothing_twice(tiny: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in tiny.rglob("*.safetensors")}
    shards = {file: file.stat().st_mtime_ns for file in tiny.rglob("*.parquet")}
    first = (tiny / "result.json").read_bytes()
    run_study("deep", data="digits", out=tiny, device="cpu", quiet=True, options=TINY)
    assert (tiny / "result.json").read_bytes() == first
    assert {file: file.stat().st_mtime_ns for file in tiny.rglob("*.safetensors")} == before
    assert {file: file.stat().st_mtime_ns for file in tiny.rglob("*.parquet")} == shards


def test_a_basket_of_ones_own(tiny: Path, tmp_path: Path) -> None:
    data = next(tiny.glob("*.npz"))
    result = run_study(
        "deep", data=f"npz:{data}", basket=str(tiny / "resnet-8" / "basket"), out=tmp_path / "own", device="cpu",
        quiet=True, options={"trials": "4", "workers": "1"},
    )  # fmt: skip
    assert "networks" not in result.settings
    assert {row.n for row in result.rows if row.quantity.endswith("success %")} == {4}
    assert not list((tmp_path / "own").rglob("basket.json"))


def test_one_network_has_no_peers(tiny: Path, tmp_path: Path) -> None:
    one = str(tiny / "resnet-8" / "basket" / "resnet-8-width-4-s0")
    with pytest.raises(UserError, match="at least one peer"):
        run_study("deep", data="digits", basket=one, out=tmp_path / "one", device="cpu", quiet=True)
