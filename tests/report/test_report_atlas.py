"""The atlas in a report, cards with the smallest change, and the orders that cards can stand in."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_findings import CONFIG, HOSTILE, MLPS, found_row, realistic, rows, save_run, shrunk, table_of, written
from html_page import Page, says

from foible.cells import Cell, bin_labels, cell_of
from foible.findings import Findings
from foible.findings.tally import summarise
from foible.report import words, write_report
from foible.report.choose import fewer
from foible.report.figures import ENOUGH
from foible.report.page import LIMIT

ATLAS = {**CONFIG, "search": "map-elites?width=500", "atlas": True}


@pytest.fixture(scope="module")
def some() -> list[dict[str, Any]]:
    return shrunk(rows(60))


@pytest.fixture(scope="module")
def page(some: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Page:
    return written(table_of(some), tmp_path_factory.mktemp("atlas"))


def squares(page: Page) -> list[dict[str, str]]:
    return [a for tag, a, _ in page.elements if tag == "a" and "grid-area" in a.get("style", "")]


def cells_of(some: list[dict[str, Any]]) -> Counter[Cell]:
    return Counter(cell_of(row) for row in some)


def test_a_square_for_every_cell(page: Page, some: list[dict[str, Any]]) -> None:
    cells, labels = cells_of(some), bin_labels()
    best: dict[Cell, float] = {}
    for row in some:
        cell = cell_of(row)
        best[cell] = max(best.get(cell, -9.0), np.float32(row["score"]))
    titles = Counter(square["title"] for square in squares(page))
    assert titles == Counter(
        f"{right} taken for {said}: {kind}, size {labels[size]}, {cells[right, said, kind, size]} found, "
        f"best score {words.plus(best[Cell(right, said, kind, size)])}"
        for right, said, kind, size in cells
    )
    headings = page.inside(page.find("table", class_="legend")[0], "th")
    order = [says(kind) for kind in headings if kind[1].get("scope") == "col"]
    for square in squares(page):
        row, column = map(int, re.findall(r"grid-area:(\d+)/(\d+)", square["style"])[0])
        assert f": {order[column - 1]}, size {labels[row - 1]}, " in square["title"]


def test_a_square_leads_to_its_best_example(page: Page, some: list[dict[str, Any]]) -> None:
    cards = {a["id"]: says((tag, a, text)) for tag, a, text in page.elements if tag == "li" and "data-s" in a}
    assert len(cards) == 60
    for square in squares(page):
        card = cards[square["href"].removeprefix("#")]
        row = next(row for row in some if card.endswith(row["id"]))
        cell = cell_of(row)
        assert square["title"].startswith(f"{cell.right} taken for {cell.said}: {cell.kind}, size ")
        assert row["score"] == max(other["score"] for other in some if cell_of(other) == cell)


def test_coverage_is_that_of_the_summary(page: Page, some: list[dict[str, Any]]) -> None:
    (row,) = summarise(Findings(table_of(some)))
    caption = next(text for text in page.texts("figcaption") if "different mistakes" in text)
    assert caption.startswith(f"mlp-10 {row['cells']} different mistakes: {row['pairs']} of 90 pairs of classes")


def test_an_atlas_counts_ways_and_trials(tmp_path: Path) -> None:
    mine = shrunk([row | {"lane": number // 3, "id": f"mlp-10-{number}"} for number, row in enumerate(rows(30))])
    page = written(table_of(mine, config=ATLAS), tmp_path)
    cells = len({cell_of(row, own=True) for row in mine})
    assert cells == summarise(Findings(table_of(mine, config=ATLAS)))[0]["cells"]
    assert page.texts("h1")[0].startswith(f"mlp-10 can be made wrong in {cells} different ways by affine changes")
    assert "from 10 of 10 images" in page.texts("p", class_="lead")[0]
    assert page.cells("mlp-10")[:3] == ["10", "30", "100.0 % 72.2–100.0"]
    note = next(text for text in page.texts("p", class_="note") if text.startswith("Down: the right class. Across"))
    assert "clearer the mistake" in note
    assert len(page.texts("article")) == 30


def test_cards_show_the_smallest_change(page: Page, some: list[dict[str, Any]]) -> None:
    cards = page.texts("article")
    row = some[5]
    card = next(card for card in cards if card.endswith(row["id"]))
    assert f"found: {words.change_text(row['change'])}".replace("\u00a0", " ") in card
    assert "smallest: rotation +7.1°close" in card  # what rounds to nothing is left out
    assert f"{' '.join(row['kinds'])} realism {words.plus(np.float32(row['realism']))}" in card
    images = [a["alt"] for a in (a for tag, a, _ in page.elements if tag == "img") if "step" not in a["alt"]]
    assert images.count("smallest change") == 60


def test_nothing_is_shown_where_nothing_is_known(tmp_path: Path) -> None:
    page = written(realistic(60, MLPS[:2]).table, tmp_path)
    text = " ".join(page.texts("article"))
    assert "smallest" not in text
    assert "realism" not in text
    assert "found:" not in text
    assert not page.find("select", id="order")
    assert all(", size " not in a["title"] or ": size" in a["title"] for a in squares(page))  # no kind is named
    assert "in accepted moves" in page.texts("section", id="atlas")[0]


def test_a_smallest_change_that_is_the_find_itself_is_not_repeated(tmp_path: Path) -> None:
    mine = [row | {"least_image": row["image"], "least_change": row["change"]} for row in shrunk(rows(3))]
    assert "smallest" not in " ".join(written(table_of(mine), tmp_path).texts("article"))


def test_orders_rank_all_cards(page: Page, some: list[dict[str, Any]]) -> None:
    (select,) = page.find("select", id="order")
    assert [says(option) for option in page.inside(select, "option")] == [
        "by suspect and class", "most realistic first", "least realistic first", "clearest first",
        "smallest change first",
    ]  # fmt: skip
    ranks: dict[str, dict[str, int]] = {}
    for tag, a, text in page.elements:
        if tag == "li" and "style" in a:
            id = next(row["id"] for row in some if says((tag, a, text)).endswith(row["id"]))
            ranks[id] = {part.split(":")[0]: int(part.split(":")[1]) for part in a["style"].split(";")}
    by_realism = sorted(some, key=lambda row: -row["realism"])
    assert [row["id"] for row in by_realism] == sorted(ranks, key=lambda id: ranks[id]["--r"])
    assert [row["id"] for row in reversed(by_realism)] == sorted(ranks, key=lambda id: ranks[id]["--u"])
    by_score = sorted(some, key=lambda row: -row["score"])
    assert [row["id"] for row in by_score] == sorted(ranks, key=lambda id: ranks[id]["--c"])


def test_consensus_is_said_plainly(tmp_path: Path) -> None:
    mine = shrunk(rows(4), truth=None, label_from="consensus")
    page = written(table_of(mine), tmp_path)
    assert page.texts("h1")[0].endswith("while all four peers agree.")
    (warning,) = page.texts("p", class_="warning")
    assert warning.startswith("There are no labels: what counts as right there is the class that all networks gave")
    assert all("right by consensus, no label" in card for card in page.texts("article"))
    part = written(table_of([*mine[:1], *shrunk(rows(4))[1:]]), tmp_path)
    assert part.texts("p", class_="warning")[0].startswith("For 1 of 4 trials there are no labels")


@pytest.mark.parametrize("count", [12, 40, 1000])
def test_many_classes(tmp_path: Path, count: int) -> None:
    """Twenty classes that take part make a map; more make a list of pairs, which says what it leaves out."""
    classes = [f"class number {n}" for n in range(count)]
    some = shrunk(rows(70))
    for n, row in enumerate(some):
        row |= {"truth": n % count, "consensus": n % count, "said": (n + 1) % count}
    page = written(table_of(some, classes), tmp_path)
    if count == 12:
        assert len([a for tag, a, _ in page.elements if tag == "table" and "atlas" in a.get("class", "")]) == 1
        assert not page.find("ul", class_="tiles-of-pairs")
        return
    (tiles,) = page.find("ul", class_="tiles-of-pairs")
    shown = len([a for tag, a, _ in page.inside(tiles, "li")])
    pairs = len({(row["truth"], row["said"]) for row in some})
    assert shown == min(60, pairs)
    left = [text for text in page.texts("p", class_="note") if "further pairs are left out" in text]
    assert len(left) == (1 if pairs > 60 else 0)
    if left:
        assert left[0] == f"The 60 pairs with the most different mistakes; {pairs - 60} further pairs are left out."


def test_a_small_gallery_keeps_different_and_realistic_findings(tmp_path: Path) -> None:
    some = shrunk([row | {"id": f"x-{number}"} for number, row in enumerate(rows(300))])
    page = written(table_of(some), tmp_path, gallery=60)
    (gallery,) = page.find("ul", class_="cards three")
    ids = {says(code) for code in page.inside(gallery, "code")}
    assert len(ids) == 60
    assert max(some, key=lambda row: row["realism"])["id"] in ids
    pairs = {(row["truth"], row["said"]) for row in some}
    shown = {(row["truth"], row["said"]) for row in some if row["id"] in ids}
    assert len(shown) >= min(30, len(pairs))
    linked = [a["href"] for a in squares(page) if "href" in a]
    cards = {f"#{a['id']}" for tag, a, _ in page.elements if tag == "li" and "data-s" in a}
    assert set(linked) <= cards, "no square leads nowhere"
    assert len(linked) > 60


def test_fewer_keeps_the_best_ranks() -> None:
    assert fewer([3, 0, 3, 1, 3, 0], 3) == [1, 3, 5]
    assert fewer([3, 3, 3, 3], 2) == [0, 2]
    assert fewer([1, 0], 5) == [0, 1]
    assert fewer([0, 0], 0) == []


def test_three_pictures_a_card_stay_within_the_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    some = shrunk([found_row(rng, "mlp-10", MLPS, lane, 10, channels=3, side=96) for lane in range(20)])
    many = pa.concat_tables([table_of(some)] * 50)
    file = write_report(Findings(many), tmp_path / "report.html")
    assert file.stat().st_size <= LIMIT
    page = Page(file)
    assert 100 < len(page.texts("article")) < 1000
    cards = {f"#{a['id']}" for tag, a, _ in page.elements if tag == "li" and "data-s" in a}
    assert {a["href"] for a in squares(page)} <= cards


def test_names_of_kinds_are_text_only(tmp_path: Path) -> None:
    nasty = shrunk(rows(3), kinds=[HOSTILE, "<b>"], label_from=HOSTILE, least_change=[(HOSTILE, 3.0)])
    file = write_report(Findings(table_of(nasty, [HOSTILE] * 10)), tmp_path / "r.html")
    Page(file)
    assert "<img src=x" not in file.read_text("utf-8")


@pytest.mark.parametrize("version", [1, 2])
def test_old_runs_still_report(tmp_path: Path, version: int) -> None:
    new = {"label_from", "score", "size", "kinds", "least_path", "least_image", "least_change", "least_forwards"}
    new |= {"realism"} | ({"tags", "origin_file"} if version == 1 else set())
    run = save_run(realistic(20, MLPS[:2]), tmp_path / "run", shards=1)
    (shard,) = (run / "shards").iterdir()
    table = pq.read_table(shard)
    old = table.drop([name for name in table.column_names if name in new])
    metadata = {**(table.schema.metadata or {}), b"foible.schema_version": str(version).encode()}
    pq.write_table(old.replace_schema_metadata(metadata), shard)
    page = Page(write_report(run))
    assert page.texts("h1")[0].startswith("mlp-10 can be made wrong on 14 of 20 images")
    assert len(page.texts("article")) == 19
    assert not squares(page)  # too few for a map


def test_maps_of_classes_are_drawn_where_there_is_enough_to_show(tmp_path: Path) -> None:
    for count, shown in ((ENOUGH - 1, False), (ENOUGH, True)):
        page = written(table_of(rows(count)), tmp_path)
        assert bool(squares(page)) == shown
        assert bool(page.find("section", id="confusion")) == shown
    assert squares(written(table_of(shrunk(rows(5)), config=ATLAS), tmp_path)), "an atlas that was asked for is shown"


def test_gradients_have_a_column_where_there_are_any(tmp_path: Path) -> None:
    page = written(table_of(rows(2, forwards=100, backwards=50)), tmp_path)
    assert page.cells("mlp-10")[5:7] == ["100", "200"]
    assert "with gradients" in page.texts("thead")[0]
    assert "with gradients" not in written(table_of(rows(2)), tmp_path).texts("thead")[0]


def test_chained_spaces_in_words() -> None:
    def said(spec: str) -> str:
        return words.space_words({"c": {"space": spec}})

    assert said("photometric?hue=0+crop+affine?degrees=10") == "changes of light, crops and affine changes"
    assert said("crop+affine") == "crops and affine changes"
    bounded = "crop+affine?border=reflect&most_degrees=15&most_percent=12.5&most_pixels=22.4"
    assert said(bounded).replace("\u00a0", " ") == "crops and affine changes of at most 15°, 12.5 % and 22.4 px"
    assert said("affine?most_degrees=15") == "affine changes of at most 15°"
    assert said("affine+my.py:Swirl") == "changes of the spaces affine and Swirl"
    assert said("my.py:Swirl?a=1") == "changes of the space Swirl"
