"""The report of a ranked pool: images as they are, the clearest dissent first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_findings import HOSTILE, MLPS, found_row, save_run, table_of
from fake_runs import genuine
from html_page import Page

from foible.findings import Findings
from foible.report import write_report

CONFIG: dict[str, Any] = {
    "recipe": "pool", "data": "folder:photos", "split": "all", "top": 1000, "label": "consensus", "realism": "patches",
    "peer_confidence": 0.5, "suspect_confidence": 0.0, "labels": False, "canvas": None,
}  # fmt: skip
SUMMARY: dict[str, Any] = {
    "images": 12_345, "unreadable": 2, "invalid": 3, "agree": 12_000, "top": 1000, "label": "consensus",
    "suspects": [
        {"suspect": "mlp-10", "peers": list(MLPS[1:]), "dissent": 210, "found": 205, "kept": 20, "reliability": None},
        {"suspect": "mlp-20", "peers": [], "dissent": 90, "found": 88, "kept": 20,
         "reliability": {"right": 70, "n": 88, "share": 70 / 88, "low": 0.7, "high": 0.866}},
    ],
}  # fmt: skip


def pool_rows(count: int = 40, **changed: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    scores = np.sort(rng.gamma(2, 1, count).astype(np.float32))[::-1]
    some = []
    for number in range(count):
        suspect = MLPS[number % 2]
        row = found_row(rng, suspect, MLPS, number, 10)
        row |= {
            "tags": ["dissent"], "truth": None, "label_from": "consensus", "moves": 0, "candidates": 1, "path": [],
            "trace": row["trace"][:1], "change": [], "film": None, "origin": row["image"], "score": scores[number],
            "realism": float(rng.normal()), "origin_file": f"photos/{number}.png", "id": f"{suspect}-{number:06d}",
        }  # fmt: skip
        some.append(row | changed)
    return some


def pool_run(folder: Path, some: list[dict[str, Any]], summary: Any = SUMMARY, config: Any = CONFIG) -> Path:
    """Rows in two shards, worst suspect first, as a run folder."""
    mine = sorted(some, key=lambda row: row["suspect"], reverse=True)
    run = save_run(Findings(table_of(mine, config=config)), folder, shards=2)
    genuine(run, config)
    if summary is not None:
        (run / "pool.json").write_text(json.dumps(summary))
    return run


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(write_report(pool_run(tmp_path / "pool", pool_rows())))


def test_headline_and_results(page: Page) -> None:
    assert page.texts("h1") == ["mlp-10 dissents from its peers on 210 of 12,345 images of the pool."]
    assert page.cells("mlp-10") == ["210", "1.70 %", "205", "20", "–", "–"]
    assert page.cells("mlp-20") == ["90", "0.73 %", "88", "20", "70 of 88", "70.0–86.6"]
    assert any("consensus, and it may be wrong" in text for text in page.texts("p", class_="warning"))
    assert not page.find("section", id="changes")
    assert not page.find("section", id="sessions")


def test_cards_are_ranked_by_score(page: Page) -> None:
    ids = [text for text in page.texts("code") if text.startswith("mlp-")]
    best = [row["id"] for row in sorted(pool_rows(), key=lambda row: -row["score"])]
    assert ids == best
    row = pool_rows()[0]
    card = page.texts("article")[0]
    assert card.startswith(f"1 peers say {row['consensus']}, mlp-10 says {row['said']} (")
    assert f"score {row['score']:.2f} · realism " in card
    assert "photos/0.png" in card
    assert len([a for tag, a, _ in page.elements if tag == "img"]) == 40, "one picture a card"


def test_a_gallery_shows_the_clearest(tmp_path: Path) -> None:
    page = Page(write_report(pool_run(tmp_path / "pool", pool_rows()), gallery=7))
    best = [row["id"] for row in sorted(pool_rows(), key=lambda row: -row["score"])[:7]]
    assert [text for text in page.texts("code") if text.startswith("mlp-")] == best
    assert any(text.startswith("The 7 clearest of 40 images") for text in page.texts("p", class_="note"))


def test_people_are_asked(tmp_path: Path) -> None:
    some = pool_rows(label_from=None, tags=["dissent", "to-label"])
    page = Page(write_report(pool_run(tmp_path / "pool", some, config={**CONFIG, "label": "people"})))
    assert page.texts("p", class_="warning")[0].startswith("No label is claimed.")


def test_labels_of_the_data_and_unsettled_images_are_told(tmp_path: Path) -> None:
    page = Page(write_report(pool_run(tmp_path / "pool", pool_rows(4, truth=7, outcome="unsettled", origin_file=None))))
    for card in page.texts("article"):
        assert "labelled 7" in card
        assert "only the original file shows it" in card
        assert "image " in card


@pytest.mark.parametrize("summary", [None, [], {"images": 0}, {"suspects": [3]}, "x"])
def test_an_unfinished_or_damaged_summary(tmp_path: Path, summary: Any) -> None:
    page = Page(write_report(pool_run(tmp_path / "pool", pool_rows(7), summary)))
    assert page.texts("h1") == ["mlp-10 dissents from its peers on 4 images of the pool."]
    assert len(page.texts("article")) == 7


def test_nothing_found_and_findings_in_memory(tmp_path: Path) -> None:
    page = Page(write_report(pool_run(tmp_path / "pool", [])))
    assert page.texts("h1") == ["mlp-10 dissents from its peers on 210 of 12,345 images of the pool."]
    empty = Page(write_report(Findings(table_of([], config=CONFIG)), tmp_path / "empty.html"))
    assert empty.texts("h1") == ["No dissent found in the pool."]
    memory = Page(write_report(Findings(table_of(pool_rows(3), config=CONFIG)), tmp_path / "memory.html"))
    assert len(memory.texts("article")) == 3


def test_hostile_names(tmp_path: Path) -> None:
    some = pool_rows(3, origin_file=HOSTILE, origin_data=HOSTILE)
    some = [row | {"id": f"{HOSTILE}{number}"} for number, row in enumerate(some)]
    file = write_report(pool_run(tmp_path / "pool", some))
    Page(file)
    assert "<img src=x" not in file.read_text("utf-8")
