"""The report of a distortion: panels, pairs, who else falls for it; from the tables alone."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_findings import DIGITS, HOSTILE, MLPS, found_row, save_run, table_of
from fake_runs import genuine
from html_page import Page, says

from foible.findings import Findings
from foible.images import decode_png, encode_png
from foible.report import write_report
from foible.report.pages.distort_panels import difference

CONFIG: dict[str, Any] = {
    "recipe": "distort", "data": "digits", "split": "test", "source": "mlp-10", "target": "best", "method": "closest",
    "norm": "l2", "layer": None, "images": 40, "seed": 0, "lattice": True,
}  # fmt: skip
NETWORKS = MLPS[:3]


def rows(count: int = 40, **changed: Any) -> list[dict[str, Any]]:
    """Images found, where mlp-20 is fooled by every fourth and mlp-30 by none."""
    rng = np.random.default_rng(3)
    some = []
    for number in range(count):
        row = found_row(rng, "mlp-10", NETWORKS, number, 10)
        origin = decode_png(row["origin"])
        noise = torch.from_numpy(rng.integers(-3, 4, origin.shape))
        image = (origin + noise).clamp(0, 255).to(torch.uint8)
        moved = (image.float() - origin.float()) / 255
        right = np.full((3, 10), 0.01)
        right[:, row["truth"]] = 0.91
        after = right.copy()
        after[0] = np.where(np.arange(10) == row["said"], 0.51, 0.05)
        if number % 4 == 0:
            after[1] = after[0]
        rms = float(moved.square().mean().sqrt())
        row |= {
            "image": encode_png(image), "before": right.tolist(), "after": after.tolist(), "target": row["said"],
            "moves": 0, "path": [], "film": None, "distance": rms * 28, "distance_exact": rms * 27, "forwards": 500,
            "backwards": 400, "origin_split": "test",
            "change": [("rms", rms), ("linf", float(moved.abs().max())), ("rms before 8 bits", rms * 27 / 28)],
        }  # fmt: skip
        some.append(row | changed)
    return some


def run_of(folder: Path, some: list[dict[str, Any]], classes: Any = DIGITS, **changed: Any) -> Path:
    run = save_run(Findings(table_of(some, classes, config=CONFIG | changed)), folder, shards=2)
    return genuine(run, CONFIG | changed)


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(write_report(run_of(tmp_path / "run", rows())))


def test_headline_and_numbers(page: Page) -> None:
    rms = [dict(row["change"])["rms"] for row in rows()]
    [title] = page.texts("h1")
    assert title == (
        f"A change of {255 * np.median(rms):.1f} levels in 255 (root mean square) is enough to change what mlp-10 says."
    )
    cells = page.cells("mlp-10")
    assert cells[:2] == ["40", "40"]
    assert cells[3].startswith(f"{np.mean(rms) * 27 / 28:.4f}")
    assert cells[4] == f"{np.mean(rms):.4f} {np.median(rms):.4f}"
    assert cells[6:] == ["500", "400"]


def test_transfer(page: Page) -> None:
    place = page.find("tr", data_judge="mlp-20")[0]
    assert [says(cell) for cell in page.inside(place, "td")] == [
        "mlp-20", "40", "10", "", "25.0 %", "14.2–40.2", "10",
    ]  # fmt: skip
    place = page.find("tr", data_judge="mlp-30")[0]
    assert [says(cell) for cell in page.inside(place, "td")][2:5] == ["0", "", "0.0 %"]


def test_every_panel_is_original_difference_distorted(page: Page) -> None:
    places = page.find("article")
    assert len(places) == 40
    for place in places[:3]:
        pictures = [
            decode_png(b64decode(attributes["src"].partition(",")[2])).int()
            for _, attributes, _ in page.inside(place, "img")
        ]
        assert len(pictures) == 3
        origin, ten, image = pictures
        assert torch.equal(ten, (128 + 10 * (image - origin)).clamp(0, 255))
        assert not torch.equal(origin, image)
    texts = page.texts("article")
    assert sum("fools mlp-20" in text for text in texts) == 10
    assert sum("fools no other network" in text for text in texts) == 30
    first = min(rows(), key=lambda row: (row["truth"], row["said"], dict(row["change"])["rms"]))
    assert texts[0].startswith(f"{first['truth']} taken for {first['said']} (0.51)")
    assert len(page.inside(page.find("section", id="pairs")[0], "img")) == 60, "30 pairs"


def test_what_was_not_found_is_told_apart(tmp_path: Path) -> None:
    lost = rows(3, outcome="exhausted") + rows(2, outcome="unsettled")
    lost = [row | {"id": f"lost-{number}"} for number, row in enumerate(lost)]
    page = Page(write_report(run_of(tmp_path / "run", rows(20) + lost, target="next")))
    assert page.cells("mlp-10")[:2] == ["20", "25"]
    assert page.texts("span", class_="badge") == ["exhausted"] * 3 + ["unsettled"] * 2
    assert any("2 changes are unsettled" in text for text in page.texts("p", class_="warning"))
    assert any("3 exhausted: not reached" in text for text in page.texts("p", class_="note"))
    assert "the label that follows its own" in page.texts("p", class_="lead")[0]
    page = Page(write_report(run_of(tmp_path / "none", rows(4, outcome="exhausted"))))
    assert page.texts("h1") == ["No image was distorted."]


def test_a_layer_has_no_pictures_of_its_own(tmp_path: Path) -> None:
    some = rows(10, change=[("rms of the layer", 0.1), ("linf of the layer", 0.3), ("share of the layer", 0.25)])
    some = [row | {"image": row["origin"], "distance": None} for row in some]
    page = Page(write_report(run_of(tmp_path / "run", some, layer="hidden1")))
    [title] = page.texts("h1")
    assert title == "A change of 25.0 % in the output of hidden1 changes what mlp-10 says."
    assert not page.find("section", id="transfer")
    assert "25.0 % of the layer’s length" in page.texts("article")[0]
    assert "fools" not in page.texts("article")[0]
    assert len(page.inside(page.find("article")[0], "img")) == 1


def test_hostile_names_and_the_same_bytes(tmp_path: Path) -> None:
    some = [
        row | {"suspect": HOSTILE, "networks": [HOSTILE, "b", "c"], "origin_file": HOSTILE, "id": f"{HOSTILE}{number}"}
        for number, row in enumerate(rows(12))
    ]
    run = run_of(tmp_path / "run", some, [HOSTILE, *DIGITS[1:]], source=HOSTILE)
    text = write_report(run).read_text()
    assert "<img src=x" not in text
    assert "<script" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert write_report(run, tmp_path / "again.html").read_text() == text


def test_many_rows_stay_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foible.report.page.LIMIT", 120_000)
    file = write_report(run_of(tmp_path / "run", rows(80)))
    assert file.stat().st_size <= 120_000
    shown = len(Page(file).find("article"))
    assert 5 < shown < 80
    assert f"{shown} of 80 rows, evenly spread" in file.read_text()


def test_differences_that_cannot_be_shown() -> None:
    grey = encode_png(torch.full((1, 4, 4), 9, dtype=torch.uint8))
    wide = encode_png(torch.full((1, 4, 5), 9, dtype=torch.uint8))
    assert difference(grey, grey) is None
    assert difference(grey, wide) is None
    assert difference(None, grey) is None
    assert difference(grey, b"no image") is None
    lighter = encode_png(torch.full((1, 4, 4), 11, dtype=torch.uint8))
    made = difference(grey, lighter)
    assert made is not None
    assert decode_png(made).unique().tolist() == [148]


def test_robust_accuracy_in_a_table_and_as_a_curve(tmp_path: Path) -> None:
    some = rows(20)
    far = sorted(row["distance_exact"] for row in some)
    page = Page(write_report(run_of(tmp_path / "run", some, norm="l2", drawn=25, chosen=20)))
    [place] = page.find("tr", data_eps="0.25")
    right = sum(one > np.float32(0.25) for one in np.float32(far))
    assert [says(cell) for cell in page.inside(place, "td")][:3] == [str(right), "25", f"{4 * right:.1f} %"]
    [section] = page.find("section", id="robust")
    [note] = [says(one) for one in page.inside(section, "p")]
    assert "An upper bound: of the images drawn" in note
    _, line = (attributes["d"] for _, attributes, _ in page.inside(section, "path") if attributes["class"] != "zero")
    corners = [tuple(map(float, corner.split(","))) for corner in line.removeprefix("M").split()]
    assert corners[0] == (0.0, 32.0), "five of 25 are wrong at once: the curve begins at 80 %, 160 units high"
    assert corners[-1] == (640.0, 160.0), "and ends at 0"
    assert [y for _, y in corners] == sorted(y for _, y in corners)
    old = Page(write_report(run_of(tmp_path / "old", some, target="next")))
    [section] = old.find("section", id="robust")
    [note] = [says(one) for one in old.inside(section, "p")]
    assert "of the images that it gets right" in note
    assert "only “next” was asked for" in note
    layered = Page(write_report(run_of(tmp_path / "layer", rows(9, change=[("share of the layer", 0.2)]), layer="h")))
    assert not layered.find("section", id="robust")
