"""Maps of what speaks for an answer: made with the run, kept with it, and shown without its networks."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from html_page import Page

import foible
from foible.data import Dataset
from foible.findings import Findings
from foible.report import write_report
from foible.report.counts import Counts, count
from foible.report.run import OpenRun
from foible.report.why import WHY
from foible.testing import linear_basket, linear_trials
from foible.testing.linear import CLASSES


def hunted(folder: Path) -> Findings:
    basket = linear_basket()
    trials = linear_trials(basket, 30)
    data = Dataset("blobs", "train", trials.seeds, trials.aims, tuple(map(str, range(CLASSES))), ())
    return foible.hunt(basket, data, suspect="A", trials=30, out=folder, realism="none", quiet=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("why") / "run"
    hunted(folder)
    return folder


def test_maps_are_kept_with_the_run_and_stay_as_they_are(run: Path) -> None:
    kept = json.loads((run / WHY).read_text())["maps"]
    found = Findings.open(run).filter(outcome="found")
    assert {one["id"] for one in kept} <= {row["id"] for row in found}
    assert len(kept) == min(24, len(found))
    assert all(one["peer"] in ("B", "C") and one["how"] == ["gradient × input"] * 2 for one in kept)
    before = (run / WHY).stat().st_mtime_ns
    hunted(run)
    assert (run / WHY).stat().st_mtime_ns == before, "the same command makes no map again"


def test_a_copied_run_shows_them_in_sessions_and_in_enlarged_cards(run: Path, tmp_path: Path) -> None:
    page = Page(write_report(shutil.copytree(run, tmp_path / "copy")))
    kept = json.loads((run / WHY).read_text())["maps"]
    shown = sum(1 for _ in page.find("figure", class_="session"))
    assert shown
    assert len(page.find("div", class_="why")) == shown + len(kept)
    place = page.find("div", class_="why")[0]
    said = [text for _, _, text in page.inside(place, "figcaption")]
    assert "A: for" in "".join(said[0])
    assert "".join(said[1])[0] in "BC"
    assert len(page.inside(place, "img")) == 2
    cards = [attributes["id"] for tag, attributes, _ in page.elements if tag == "li" and "data-s" in attributes]
    assert [a["href"] for a in (a for tag, a, _ in page.elements if tag == "a") if a.get("class") == "open"] == [
        f"#{card}" for card in cards
    ]


@pytest.mark.parametrize("text", ["", "{}", '{"maps": [{"id": "x"}]}', '{"maps": 3}'])
def test_a_file_that_is_not_ours_is_left_out(run: Path, tmp_path: Path, text: str) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / WHY).write_text(text)
    assert not Page(write_report(copy)).find("div", class_="why")


def test_pictures_that_are_none_are_left_out(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    kept = json.loads((copy / WHY).read_text())
    for one in kept["maps"]:
        one["pictures"] = ["*", "aGk="]
    (copy / WHY).write_text(json.dumps(kept))
    assert not Page(write_report(copy)).find("div", class_="why")


def test_a_hunt_in_memory_has_no_maps(tmp_path: Path) -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 10)
    data = Dataset("blobs", "train", trials.seeds, trials.aims, tuple(map(str, range(CLASSES))), ())
    found = foible.hunt(basket, data, suspect="A", trials=5, realism="none", quiet=True)
    assert not Page(write_report(found, tmp_path / "report.html")).find("div", class_="why")


def test_rows_are_counted_once_for_maps_and_report(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[OpenRun] = []
    monkeypatch.setattr("foible.report.counts._LAST", {})
    monkeypatch.setattr("foible.report.counts._counted", lambda source: asked.append(source) or Counts())
    first = count(OpenRun.open(run))
    assert count(OpenRun.open(run)) is first
    shard = next((run / "shards").iterdir())
    os.utime(shard, ns=(shard.stat().st_atime_ns, shard.stat().st_mtime_ns + 1))
    before = len(asked)
    count(OpenRun.open(run))
    assert len(asked) == before + 1, "a shard that was written again is counted again"
