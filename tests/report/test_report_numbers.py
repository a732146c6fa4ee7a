"""The report's numbers, size and manners, without a browser."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fake_findings import (
    DIGITS,
    MLPS,
    found_row,
    realistic,
    rows,
    save_run,
    table_of,
    written,
)
from html_page import Page, says
from PIL import Image

from foible.findings import Findings, read_shard
from foible.findings.tally import summarise
from foible.report import words, write_report
from foible.report.page import LIMIT


@pytest.fixture(scope="module")
def findings() -> Findings:
    return realistic()


@pytest.fixture(scope="module")
def page(findings: Findings, tmp_path_factory: pytest.TempPathFactory) -> Page:
    run = save_run(findings, tmp_path_factory.mktemp("report") / "run")
    assert write_report(run) == run / "report.html"
    return Page(run / "report.html")


def test_table_of_results_agrees_with_the_rows(page: Page, findings: Findings) -> None:
    for expected in summarise(findings):
        cells = page.cells(expected["suspect"])
        assert cells[0] == str(expected["trials"])
        assert cells[1] == str(expected["found"])
        interval = f"{100 * expected['low']:.1f}–{100 * expected['high']:.1f}"
        assert cells[2] == f"{100 * expected['success']:.1f} % {interval}"
        assert cells[4:] == [
            f"{expected['moves']:.1f}",
            f"{expected['inferences_spent']:.0f}",
            str(expected["exhausted"]),
            str(expected["invalid"]),
        ]


def test_headline_names_the_weakest_suspect(page: Page) -> None:
    (headline,) = page.texts("h1")
    assert headline == (
        "mlp-10 can be made wrong on 41 of 60 images by affine changes, while all four peers stay right."
    )
    assert "The other four suspects: 18.3 % to 23.3 %." in page.texts("p")


def test_confusion_counts_are_those_of_the_table(page: Page, findings: Findings) -> None:
    found = findings.filter(outcome="found", suspect="mlp-10")
    pairs = list(zip(found.column("truth"), found.column("said"), strict=True))
    cells = page.inside(page.find("table", class_="heat")[0], "td")
    assert sum(int(says(cell) or 0) for cell in cells) == len(pairs)
    titles = {cell[1].get("title") for cell in cells} - {None}
    assert titles == {f"{a} taken for {b}: {pairs.count((a, b))}" for a, b in pairs}


def test_medians_of_the_changes_are_those_of_the_table(page: Page, findings: Findings) -> None:
    changes = [dict(row["change"]) for row in findings.filter(outcome="found", suspect="mlp-10")]
    titles = page.texts("title")
    median = np.median([change["stretch x %"] for change in changes])
    wanted = f"mlp-10: median −{abs(median):.1f} %, middle half"
    assert any(title.startswith(wanted) and title.endswith("41 findings") for title in titles)
    shrunk = sum(change["stretch x %"] < 0 for change in changes) / len(changes)
    line = next(text for text in page.texts("li") if text.startswith("mlp-10:"))
    assert f"{100 * shrunk:.0f} % have stretch x below zero" in line


def test_sessions_show_every_step_with_all_activations(page: Page, findings: Findings) -> None:
    sessions = [text for tag, a, text in page.elements if tag == "figure" and a.get("class") == "session"]
    ids = [text for text in page.texts("code") if re.fullmatch(r"mlp-\d+-\d+", text)][: len(sessions)]
    assert len(sessions) == 8
    assert {id.rpartition("-")[0] for id in ids} == set(MLPS)
    row = findings.get(ids[0])
    order = sorted(range(5), key=lambda k: row["networks"][k] != row["suspect"])
    labels = [a["aria-label"] for tag, a, _ in page.elements if tag == "svg" and a.get("class") == "bars"]
    for line, label in zip(row["trace"], labels[: row["moves"] + 1], strict=True):
        said = [f"{row['networks'][k]} {line[k]:.2f}" for k in order]
        assert label.replace(">0.99", "1.00") == f"Activations for {DIGITS[row['truth']]}: {', '.join(said)}"


def test_frames_of_a_session_are_those_of_its_film(tmp_path: Path) -> None:
    (row,) = rows(1, moves=3, trace=[[0.9] * 5] * 3 + [[0.1, 0.9, 0.9, 0.9, 0.9]])
    colours = np.repeat(np.array([0, 80, 160, 240], np.uint8), 28)
    film = io.BytesIO()
    Image.fromarray(np.tile(colours, (28, 1))).save(film, "PNG")
    page = written(table_of([row | {"film": film.getvalue()}]), tmp_path)
    sources = [a["src"] for tag, a, _ in page.elements if tag == "img" and a["alt"].startswith(("st",))]
    shown = [Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))) for source in sources]
    assert [image.size for image in shown] == [(28, 28)] * 4
    assert [image.getextrema() for image in shown] == [(0, 0), (80, 80), (160, 160), (240, 240)]


def test_gallery_cards_say_what_was_said(page: Page, findings: Findings) -> None:
    cards = page.texts("article")
    assert len(cards) == len(findings.filter(outcome="found"))
    row = findings.filter(outcome="found")[7]
    own = row["networks"].index(row["suspect"])
    least = min(row["after"][k][row["truth"]] for k in range(5) if k != own)
    card = next(card for card in cards if card.endswith(f" {row['id']}") or card.endswith(row["id"]))
    assert card.startswith(f"{row['truth']} taken for {row['said']} ({row['after'][own][row['said']]:.2f})")
    assert f"peers say {row['truth']} (≥ {least:.2f})" in card


def test_thousand_findings_fit_in_eight_megabytes(tmp_path: Path) -> None:
    table = realistic(1000, MLPS[:2]).table
    found = table.filter(pc.equal(table.column("outcome"), "found"))
    file = write_report(Findings(pa.concat_tables([found, found]).slice(0, 1000)), tmp_path / "report.html")
    assert len(Page(file).texts("article")) == 1000
    assert file.stat().st_size <= LIMIT


@pytest.mark.parametrize(("side", "least"), [(32, 600), (224, 80)])
def test_large_colour_images_stay_within_the_limit(tmp_path: Path, side: int, least: int) -> None:
    rng = np.random.default_rng(0)
    some = [found_row(rng, "mlp-10", MLPS, lane, 10, channels=3, side=side) for lane in range(20)]
    table = table_of(some)
    many = pa.concat_tables([table] * 60)
    file = write_report(Findings(many), tmp_path / "report.html")
    page = Page(file)
    shown = len(page.texts("article"))
    assert file.stat().st_size <= LIMIT
    assert least <= shown < 1200
    assert any(f"{shown:,} of 1,200 findings" in text and "foible export" in text for text in page.texts("p"))


def test_gallery_is_spread_over_the_suspects(tmp_path: Path, findings: Findings) -> None:
    page = written(findings.table, tmp_path, gallery=30)
    places = [a["data-s"] for tag, a, _ in page.elements if tag == "li" and "data-s" in a]
    assert {place: places.count(place) for place in places} == dict.fromkeys("01234", 6)


def test_shards_and_memory_give_the_same_report(page: Page, findings: Findings, tmp_path: Path) -> None:
    again = written(findings.table, tmp_path)
    assert again.texts("article") == page.texts("article")
    assert again.texts("main")[0].replace(" RUN ", " run ") == page.texts("main")[0]
    first = write_report(findings, tmp_path / "a.html").read_bytes()
    assert write_report(findings, tmp_path / "b.html").read_bytes() == first


def test_nothing_is_fetched(page: Page) -> None:
    links = [a for _, a, _ in page.elements if a.get("href", "#")[0] != "#"]
    assert links == []
    policies = [a["content"] for tag, a, _ in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")


def test_images_are_read_only_where_they_are_shown(
    findings: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory stays bounded because a part is read by columns, and its images only if one is on the page."""
    asked: list[tuple[str, ...]] = []

    def recorded(file: Path, columns: tuple[str, ...]) -> pa.Table:
        asked.append(tuple(columns))
        return read_shard(file, columns)

    run = save_run(findings, tmp_path / "run", shards=20)
    monkeypatch.setattr("foible.report.run.read_shard", recorded)
    write_report(run, gallery=3, sessions=2)
    assert sum("image" in columns for columns in asked) <= 3 + 2
    assert len(asked) <= 20 + 20 + 3 + 2


def test_words() -> None:
    assert [words.compact(n) for n in (0, 7, 999, 1234, 12_345, 999_499, 1_234_567)] == [
        "", "7", "999", "1.2k", "12k", "999k", "1.2M",
    ]  # fmt: skip
    assert [words.probability(p) for p in (None, float("nan"), 0.0, 0.001, 0.5, 0.999, 1.0)] == [
        "–", "–", "0.00", "<0.01", "0.50", ">0.99", "1.00",
    ]  # fmt: skip
    change = [("rotation °", 7.14), ("shift x px", -1.0), ("shift y px", 0.2), ("shear %", 0.01), ("swaps", None)]
    assert words.change_text(change).replace("\u00a0", " ") == "rotation +7.1°, shift −1.0/+0.2 px"
