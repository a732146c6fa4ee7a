"""Fool: through the harness, replayed, resumed, and refused with a clear word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import Interrupted, UserError
from foible.findings import Findings
from foible.findings.same_class import same_class
from foible.images import decode_png
from foible.recipes.fool import units
from foible.recipes.fool.replay import draw_again
from foible.recipes.fool.summary import summarise
from foible.recipes.replay import replay
from foible.report import write_report
from foible.runs.recipe import recipe_called
from foible.search.climb import ascend
from foible.search.elites.encodings import drawn
from foible.spaces.cppn import Cppn
from foible.testing import SHAPE, linear_basket

FEW: dict[str, Any] = {"runs": 3, "generations": 12, "population": 20, "quiet": True}


def data(basket: Basket) -> Dataset:
    images = torch.randint(0, 256, (20, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return Dataset("memory", "test", images, torch.arange(20) % len(basket.classes), tuple(basket.classes))


def fooled(**options: Any) -> Findings:
    basket = linear_basket(3)
    return foible.fool(basket, data(basket), **({"suspect": "A"} | FEW | options))


@pytest.mark.parametrize("encoding", ["cppn", "direct", "ascent?preset=plain&steps=40"])
def test_a_row_for_every_run_and_class(encoding: str) -> None:
    findings = fooled(encoding=encoding, confidence=0.6)
    classes = len(findings.classes)
    rows = list(findings)
    assert [(row["lane"], row["target"]) for row in rows] == [(lane, c) for lane in range(3) for c in range(classes)]
    assert len({row["id"] for row in rows}) == len(rows)
    found = [row for row in rows if row["outcome"] == "found"]
    assert found
    for row in rows:
        own = row["after"][0]
        hit = own[row["target"]] >= 0.6 and int(np.argmax(own)) == row["target"]
        assert row["outcome"] == ("found" if hit else "exhausted")
        assert len(row["trace"]) == 1 + row["moves"] == 1 + len(row["path"])
        assert row["trace"][-1][0] == pytest.approx(own[row["target"]], abs=0.02)
        assert row["before"][0][row["target"]] <= own[row["target"]] + 1e-4
    told = summarise(findings)["suspects"][0]
    assert told["found"] == len(found)
    assert told["tried"] == 3 * (40 * classes if "ascent" in encoding else 12 * 20)
    assert [one["judge"] for one in told["judges"]] == ["B", "C"]


def test_confidence_grows_and_only_the_classes_asked_for_are_made() -> None:
    findings = fooled(target=("beta",) if "beta" in linear_basket(3).classes else (linear_basket(3).classes[1],))
    assert {row["target"] for row in findings} == {1}
    assert len(findings) == 3
    for row in findings:
        assert row["trace"][-1][0] >= row["trace"][0][0]


def test_alone_means_that_no_other_is_sure() -> None:
    basket = linear_basket(3)
    findings = foible.fool(basket, data(basket), suspect="A", of="alone", confidence=0.5, **FEW)
    for row in findings:
        if row["outcome"] == "found":
            assert max(max(answers) for answers in row["after"][1:]) <= 0.5
    whole = foible.fool(basket, data(basket), suspect="A", of="all", confidence=0.5, **FEW)
    for row in whole:
        if row["outcome"] == "found":
            assert np.mean(row["after"], 0)[row["target"]] >= 0.5


def trained(folder: Path) -> Path:
    foible.train("mlp:8", "digits", out=folder, epochs=2, device="cpu", quiet=True)
    return folder


def test_a_run_on_disk_is_resumed_extended_replayed_and_reported(tmp_path: Path) -> None:
    basket = trained(tmp_path / "basket")
    settings: dict[str, Any] = {
        "generations": 15, "population": 30, "quiet": True, "unit": 1, "confidence": 0.2, "workers": 1
    }  # fmt: skip
    whole = foible.fool(basket, "digits", out=tmp_path / "whole", runs=3, **settings)
    foible.fool(basket, "digits", out=tmp_path / "part", runs=2, **settings)
    (shard,) = (tmp_path / "part" / "shards").glob("*000000001.parquet")
    shard.unlink()  # as if it had been killed
    part = foible.fool(basket, "digits", out=tmp_path / "part", runs=3, **settings)
    for name in ("id", "image", "point", "after", "trace", "outcome", "film"):
        assert whole.column(name) == part.column(name), name
    again = replay(tmp_path / "part")
    assert all(one.same_image for one in again)
    assert max(one.difference for one in again) < 1e-5
    assert [one.now == "found" for one in again] == [row["outcome"] == "found" for row in part]
    page = write_report(tmp_path / "part").read_text("utf-8")
    assert "images that show nothing" in page
    assert "data:image/webp" in page
    assert "Generation by generation" in page
    assert draw_again(tmp_path / "part", part[0]["id"], 64).shape == (1, 64, 64)
    assert torch.equal(drawn(part[0], Cppn()), decode_png(part[0]["image"]))


def test_a_climb_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    basket = trained(tmp_path / "basket")
    settings: dict[str, Any] = {"encoding": "ascent?steps=30", "runs": 1, "workers": 1, "device": "cpu", "quiet": True}
    whole = foible.fool(basket, "digits", out=tmp_path / "whole", **settings)
    monkeypatch.setattr(units, "SECONDS", 0.0)
    steps, step = [0], ascend._step

    def counted(*given: Any) -> None:
        steps[0] += 1
        if steps[0] == 21:
            raise KeyboardInterrupt
        step(*given)

    monkeypatch.setattr(ascend, "_step", counted)
    with pytest.raises(Interrupted):
        foible.fool(basket, "digits", out=tmp_path / "part", **settings)
    part = foible.fool(basket, "digits", out=tmp_path / "part", **settings)
    assert steps == [31]
    for name in ("id", "image", "after", "trace", "outcome"):
        assert whole.column(name) == part.column(name), name
    assert not list((tmp_path / "part").glob("unit-*"))


class Broken(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :3] * torch.nan


class Doubtful(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return 0.01 * images.flatten(1)[:, :3]


def test_networks_that_give_nan_or_are_never_sure_are_told() -> None:
    classes = ("a", "b", "c")
    images = torch.randint(0, 256, (8, *SHAPE), dtype=torch.uint8)
    some = Dataset("memory", "test", images, torch.arange(8) % 3, classes)
    basket = Basket({"broken": Broken(), "doubtful": Doubtful()}, classes=classes, shape=SHAPE, preprocess="inside")
    findings = foible.fool(basket, some, **FEW)
    assert {row["outcome"] for row in findings.filter(suspect="broken")} == {"invalid"}
    assert {row["outcome"] for row in findings.filter(suspect="doubtful")} <= {"exhausted", "invalid"}


def test_wrong_input_is_named() -> None:
    with pytest.raises(UserError, match="no class 'zebra'"):
        fooled(target="zebra")
    with pytest.raises(UserError, match="no network 'Z'"):
        fooled(suspect="Z")
    with pytest.raises(UserError, match="generations is 0"):
        fooled(generations=0)
    with pytest.raises(UserError, match="unknown encoding"):
        fooled(encoding="cpn")
    with pytest.raises(UserError, match="no preset 'blurr'"):
        fooled(encoding="ascent?preset=blurr")
    with pytest.raises(UserError, match="of is 'me'"):
        fooled(of="me")
    findings = fooled(encoding="direct")
    with pytest.raises(UserError, match="made of pixels"):
        drawn(findings[0], Cppn(), (64, 64))
    assert recipe_called("fool").name == "fool"


@pytest.mark.parametrize(
    "damage",
    [
        {"trace": [[]]}, {"trace": None}, {"trace": [[0.1, 0.2]] * 3}, {"path": None}, {"target": None},
        {"path": [{"step": -5, "draws": []}] * 9}, {"film": b"no film"}, {"image": b"\x89PNG cut"}, {"lane": None},
    ],
)  # fmt: skip
def test_rows_of_anybody_break_no_page(damage: dict[str, Any], tmp_path: Path) -> None:
    import pyarrow as pa

    from foible.findings import SCHEMA, with_metadata

    findings = fooled(runs=2)
    rows = findings.table.to_pylist()
    rows[0] |= damage
    table = with_metadata(pa.Table.from_pylist(rows, SCHEMA), ("</script>", *findings.classes[1:]), findings.configs)
    page = write_report(Findings(table), tmp_path / "report.html").read_text("utf-8")
    assert "&lt;/script&gt;" in page
    assert page.count("</script>") == page.count("<script")
    assert summarise(Findings(table))["suspects"][0]["images"] >= len(rows) - 1
    with pytest.raises(UserError, match=r"made of pixels|is no genome|cannot be read|no PNG|not a PNG|is damaged"):
        drawn(rows[0] | {"point": [], "image": b"cut"}, Cppn())


def test_who_else_falls_for_it_is_counted_of_what_the_suspect_takes_for_the_class() -> None:
    sure = np.array([[0.999, 0.995], [0.99, 0.5], [0.4, 0.6], [0.999, 0.2]])
    first = np.array([[True, True], [True, True], [False, True], [True, False]])
    [told] = same_class(["A", "B"], sure, first, 0.99)
    assert [told[key] for key in ("judge", "images", "same", "both", "higher")] == ["B", 3, 2, 1, 2]
    assert told["low"] < 2 / 3 < told["high"]
    assert same_class(["A", "B"], np.zeros((0, 2)), np.zeros((0, 2), bool), 0.99)[0]["images"] == 0
