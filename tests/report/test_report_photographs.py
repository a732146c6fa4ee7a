"""Reports of hunts among photographs: accuracy on clean images, the canvas, and pictures that stay smooth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_compare import field
from fake_findings import CONFIG, MLPS, found_row, save_run, table_of
from fake_runs import genuine
from html_page import Page

from foible.errors import UserError
from foible.findings import Findings
from foible.images import encode_png
from foible.report import write_report

CLEAN = {
    "mlp-10": {"right": 912, "n": 1000, "share": 0.912, "low": 0.8928, "high": 0.928, "chance": 0.1},
    "mlp-20": {"right": 113, "n": 1000, "share": 0.113, "low": 0.0948, "high": 0.1342, "chance": 0.1},
}


def photographs(folder: Path, side: int = 224, film: int = 64) -> Path:
    """A run among colour images of this side, with films of this height."""
    rng, paint, rows = np.random.default_rng(0), field(side), []
    for lane in range(6):
        row = found_row(rng, "mlp-10", MLPS, lane, 10)
        strip = rng.integers(0, 255, (3, film, film * (row["moves"] + 1)), np.uint8)
        row |= {"image": paint(lane, 1), "origin": paint(lane, 1), "film": encode_png(strip)}
        rows.append(row | {"origin_file": f"photos/{lane}.jpg"})
    config = {**CONFIG, "canvas": {"size": [side, side], "resize": 256, "interpolation": "bicubic"}}
    return save_run(Findings(table_of(rows, config=config)), folder)


def with_config(run: Path, **entries: Any) -> Path:
    return genuine(run, **entries)


@pytest.fixture
def page(tmp_path: Path) -> Page:
    near = {name: row | {"near_chance": name == "mlp-20"} for name, row in CLEAN.items()}
    return Page(write_report(with_config(photographs(tmp_path / "run"), clean=near, notes=["only 10 <i>shared</i>"])))


def test_clean_accuracy_is_in_the_head(page: Page) -> None:
    header = page.texts("header")[0]
    assert "Accuracy on 1,000 images as they are, with 95 % interval:" in header
    assert "mlp-1091.2 % 89.3–92.8" in header
    assert "mlp-2011.3 % 9.5–13.4" in header
    assert "only 10 <i>shared</i>" in header
    (warning,) = page.texts("p", class_="warning")
    assert warning.startswith("mlp-20 is near chance: right on 11.3 % of 1,000 images, where chance is 10.0 %.")


@pytest.mark.parametrize("clean", [[], {"mlp-10": 3}, {"mlp-10": {"right": "<b>"}}, "x"])
def test_a_strange_clean_accuracy_is_refused(tmp_path: Path, clean: object) -> None:
    with pytest.raises(UserError, match="at clean"):
        write_report(with_config(photographs(tmp_path / "run"), clean=clean))


def test_without_clean_accuracy_nothing_is_said_of_it(tmp_path: Path) -> None:
    page = Page(write_report(with_config(photographs(tmp_path / "run"), clean=None)))
    assert "Accuracy on" not in page.texts("header")[0]
    assert page.texts("p", class_="warning") == []


def test_unreadable_files_are_counted(tmp_path: Path) -> None:
    run = photographs(tmp_path / "run")
    (run / "unreadable.txt").write_text("a.jpg: cut short\nb.jpg: no image\n")
    warning = Page(write_report(run)).texts("p", class_="warning")[0]
    assert warning.startswith("2 files could not be read")
    assert "run/unreadable.txt" in warning


def test_canvas_is_stated_once(page: Page) -> None:
    facts = page.texts("dl", class_="facts")[0]
    assert "moves act on a canvas of 224×224" in facts
    assert "bicubic" not in facts


def test_cards_name_the_file(page: Page) -> None:
    assert sorted(page.texts("p", class_="file")) == [f"photos/{lane}.jpg" for lane in range(6)]


def pixelated(page: Page) -> set[tuple[str, bool]]:
    return {(a["width"], a.get("class") == "px") for tag, a, _ in page.elements if tag == "img"}


def test_photographs_and_their_films_are_smooth(page: Page) -> None:
    assert pixelated(page) == {("64", False), ("224", False)}
    assert page.find("ul", class_="cards photos")


def test_small_images_and_their_films_show_their_pixels(tmp_path: Path) -> None:
    page = Page(write_report(photographs(tmp_path / "run", side=32, film=32)))
    assert pixelated(page) == {("32", True)}
    assert page.find("ul", class_="cards")
