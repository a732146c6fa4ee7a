"""The images on the page of a comparison: which, what is said of each, and how they are drawn."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fake_compare import FOUR, TEN, cards, field, save_comparison
from html_page import Page
from PIL import Image

from foible.findings import Findings, read_shard
from foible.report import words, write_report
from foible.report.page import LIMIT
from foible.report.pages.compare_examples import surest


def test_galleries_hold_the_findings(page: Page, run: Path, summary: dict[str, Any]) -> None:
    rows = list(Findings.open(run))
    flips = summary["flips"]
    assert len(cards(page, "broken")) == flips["broken"] == sum("broken" in row["tags"] for row in rows)
    assert len(cards(page, "fixed")) == flips["fixed"]
    assert len(cards(page, "dissent")) == sum(summary["dissent"].values())
    assert len(cards(page, "against-label")) == summary["doubtful"]
    headings = [heading.split()[0] for heading in page.texts("h3")]
    assert headings == [name for name in FOUR if summary["dissent"][name]]


def test_a_card_says_who_said_what_of_the_file(page: Page, run: Path) -> None:
    rows = [row for row in Findings.open(run) if "broken" in row["tags"]]
    surest_row = max(rows, key=lambda row: max(row["before"][0]))
    said = dict(zip(surest_row["networks"], surest_row["before"], strict=True))
    answers = [f"{name}{TEN[np.argmax(said[name])]}{words.probability(max(said[name]))}" for name in FOUR]
    first = cards(page, "broken")[0].replace("unsettled not on the copy kept here ", "")
    truth = TEN[surest_row["truth"]]
    taken = f"{truth} taken for {TEN[np.argmax(said['june'])]}"
    assert first == f"{taken} {''.join(answers)} val/{surest_row['origin_index']:05d}.png"


def test_what_the_canvas_says_is_not_what_the_card_says(tmp_path: Path) -> None:
    """`before` is what the networks say of the file; `after` and `said` are of the kept copy, and may differ."""

    def turned(row: dict[str, Any]) -> bool:
        row["after"], row["said"] = np.roll(row["after"], 1, 1).tolist(), (row["said"] + 1) % 10
        return True

    one, two = (save_comparison(tmp_path / str(n), keep=keep) for n, keep in enumerate((turned, lambda _: True)))
    assert cards(Page(write_report(one)), "broken") == cards(Page(write_report(two)), "broken")


def test_cards_against_the_label_name_it_and_the_answer(page: Page, run: Path) -> None:
    rows = [row for row in Findings.open(run) if row["outcome"] == "doubtful"]
    surest_row = max(rows, key=lambda row: min(map(max, row["before"])))
    wanted = f"labelled {TEN[surest_row['truth']]}, all say {TEN[surest_row['consensus']]}"
    assert cards(page, "against-label")[0].startswith(wanted)


def test_galleries_share_the_limit_and_keep_the_surest(run: Path, tmp_path: Path) -> None:
    page = Page(write_report(run, tmp_path / "r.html", gallery=28))
    assert len(page.texts("article")) == 28
    shown = cards(page, "broken")
    assert len(shown) == 5  # of six kinds, one has fewer images than its share
    rows = [row for row in Findings.open(run) if "broken" in row["tags"]]
    best = sorted(rows, key=lambda row: -max(row["before"][0]))[:5]
    assert [card[-9:-4] for card in shown] == [f"{row['origin_index']:05d}" for row in best]
    assert f"5 of {len(rows)} images, those where june is surest." in page.texts("section", id="broken")[0]


def test_images_are_read_only_where_they_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = save_comparison(tmp_path / "run", units=20), []

    def recorded(file: Path, columns: tuple[str, ...]) -> pa.Table:
        asked.append(tuple(columns))
        return read_shard(file, columns)

    monkeypatch.setattr("foible.report.run.read_shard", recorded)
    write_report(run, gallery=6)
    assert sum("image" in columns for columns in asked) <= 6
    assert len(asked) <= 20 + 6


def test_photographs_are_reduced_smooth_and_within_the_limit(tmp_path: Path) -> None:
    run = save_comparison(tmp_path / "run", images=300, paint=field(300), side=300)
    page = Page(write_report(run))
    images = [a for tag, a, _ in page.elements if tag == "img"]
    assert {(a["width"], a["height"]) for a in images} == {("208", "208")}
    assert not any(a.get("class") == "px" for a in images)
    shown = Image.open(io.BytesIO(base64.b64decode(images[0]["src"].partition(",")[2])))
    assert (shown.format, shown.size) == ("JPEG", (208, 208))
    assert "reduced copies" in page.texts("section", id="broken")[0]


def test_many_large_images_stay_within_the_limit(tmp_path: Path) -> None:
    noise = {n: np.random.default_rng(n).integers(0, 255, (208, 208, 3), np.uint8) for n in range(3)}

    def grain(position: int, _: int) -> bytes:
        out = io.BytesIO()
        Image.fromarray(noise[position % 3]).save(out, "PNG")
        return out.getvalue()

    run = save_comparison(tmp_path / "run", images=1500, paint=grain, side=208)
    file = write_report(run)
    page = Page(file)
    assert 0.8 * LIMIT < file.stat().st_size <= LIMIT
    assert re.search(r"\d+ of \d+ images, those where new is surest", page.texts("section", id="broken")[0])
    assert min(len(cards(page, tag)) for tag in ("broken", "fixed", "against-label")) > 10


def test_small_images_show_their_pixels(page: Page) -> None:
    images = [a for tag, a, _ in page.elements if tag == "img"]
    assert {(a["width"], a["height"], a["class"]) for a in images} == {("28", "28", "px")}


def test_no_answer_and_rows_of_other_shapes(tmp_path: Path) -> None:
    def odd(row: dict[str, Any]) -> bool:
        if row["lane"] % 3 == 0:
            row |= {"before": [[float("nan")] * 10] * 2, "said": None, "image": None}
        elif row["lane"] % 3 == 1:
            row |= {"origin_file": None, "versions": None}
        return True

    page = Page(write_report(save_comparison(tmp_path / "run", keep=odd)))
    assert any("oldno answer–newno answer–" in card for card in cards(page, "broken"))
    assert page.texts("span", class_="none").count("no image") > 3


def test_surest() -> None:
    nan = float("nan")
    rows = [[[0.1, 0.9], [0.6, 0.4]], None, [], [[nan, 0.3], [nan, nan]], [[], [0.7]], [[0.2, 0.5], [1.0, 0.0]]]
    own, least = surest(pa.chunked_array([pa.array(rows, pa.list_(pa.list_(pa.float64())))]))
    assert own.tolist() == [0.9, 0, 0, 0.3, 0, 0.5]
    assert least.tolist() == [0.6, 0, 0, 0, 0, 0.5]
