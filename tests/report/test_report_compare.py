"""The page of a comparison: its numbers are those of compare.json, and what is odd about a run is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_compare import FOUR, TEN, cards, save_comparison
from fake_findings import HOSTILE
from html_page import Page, says

from foible.errors import UserError
from foible.findings import Findings
from foible.report import words, write_report
from foible.report.pages.compare_scales import Scale


def percent(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f} %"


def between(row: dict[str, float], digits: int = 2) -> str:
    return f"{100 * row['low']:.{digits}f}–{100 * row['high']:.{digits}f}"


def signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def classes_in(page: Page, tag: str) -> list[str]:
    return [a["data-class"] for name, a, _ in page.elements if name == tag and "data-class" in a]


def test_title_and_headline(page: Page, summary: dict[str, Any]) -> None:
    assert page.texts("h1") == page.texts("title") == ["What june gets wrong that march got right"]
    flips, difference = summary["flips"], summary["flips"]["difference"]
    (lead,) = page.texts("p", class_="lead")
    assert f"Of 600 images, june breaks {flips['broken']} that march got right, and fixes {flips['fixed']}." in lead
    assert f"It is {abs(difference['points']):.2f} points worse than march, beyond chance" in lead
    assert f"(95 % interval {signed(difference['low'])} to {signed(difference['high'])})" in lead


def test_accuracy_of_every_network(page: Page, summary: dict[str, Any]) -> None:
    for row in summary["accuracy"]:
        (place,) = page.find("div", class_="rail-row", data_network=row["network"])
        assert says(page.elements[place]).endswith(
            f"{percent(row['share'])} {between(row)} {row['right']} of {row['n']}"
        )
    dots = [a for tag, a, _ in page.elements if tag == "i" and a.get("class", "").startswith("dot ")]
    assert [dot["class"] for dot in dots[:4]] == ["dot old", "dot new", "dot other", "dot other"]
    assert len(page.find("i", class_="reach new")) == 1


def test_flips_are_those_of_the_summary(page: Page, summary: dict[str, Any]) -> None:
    flips = summary["flips"]
    tiles = page.texts("dl", class_="tiles")[0]
    rate, difference = flips["negative_flip_rate"], flips["difference"]
    assert f"negative-flip rate{percent(rate['share'])} {between(rate)}" in tiles
    shown = f"{signed(difference['points'])} points {signed(difference['low'])} to {signed(difference['high'])}"
    assert shown in tiles
    assert f"McNemar’s p{words.p_value(flips['mcnemar_p'])}".replace("\u00a0", " ") in tiles
    for kind in ("both_right", "fixed", "broken", "both_wrong"):
        (cell,) = page.texts("td", class_=kind.replace("_", "-"))
        assert cell == f"{flips[kind]} {kind.replace('_', ' ')}{percent(flips[kind] / flips['n'])}"
    sides = [float(a["style"].removeprefix("--side:")[:-1]) for t, a, _ in page.elements if a.get("class") == "square"]
    counts = [flips[kind] for kind in ("both_right", "broken", "fixed", "both_wrong")]
    np.testing.assert_allclose(np.square(sides) / sides[0] ** 2, np.array(counts) / counts[0], atol=1e-3)
    alone = ", ".join(f"{name} {count}" for name, count in summary["dissent"].items())
    assert f"{alone}. All disagree with the label: {summary['doubtful']}." in " ".join(page.texts("p", class_="note"))


def test_the_page_says_what_the_summary_says(run: Path, tmp_path: Path) -> None:
    """Nothing is recomputed from the rows: another summary, another page."""
    changed = json.loads((run / "compare.json").read_text("utf-8"))
    changed["flips"] |= {"broken": 4321, "mcnemar_p": 0.4242, "difference": {"points": 0.3, "low": -0.2, "high": 0.8}}
    save_comparison(tmp_path / "run", FOUR, flips=changed["flips"])
    text = Page(write_report(tmp_path / "run")).texts("body")[0]
    assert "june breaks 4,321 that march got right" in text
    assert "The difference in accuracy, +0.30 points, is within chance (95 % interval −0.20 to +0.80)." in text
    assert "McNemar’s p0.42" in text


def test_classes_are_listed_with_intervals_worst_first(page: Page, summary: dict[str, Any]) -> None:
    def change(row: dict[str, Any]) -> float:
        return float(row["networks"][1]["share"] - row["networks"][0]["share"])

    ordered = sorted(summary["per_class"], key=lambda row: (change(row), -row["broken"], row["class"]))
    assert classes_in(page, "tr") == classes_in(page, "div") == [row["class"] for row in ordered]
    assert ordered[0]["class"] == "cat"  # the class that the made-up network is weak in
    for row in ordered:
        cells = [says(cell) for cell in page.inside(page.find("tr", data_class=row["class"])[0], "td")]
        each = [f"{100 * one['share']:.1f} {between(one, 1)}" for one in row["networks"]]
        points = words.plus(100 * change(row))
        middle = [points, str(row["broken"]), str(row["fixed"])]
        assert cells == [str(row["n"]), *each[:2], *middle, *each[2:]]
        (line,) = page.find("div", class_="rail-row", data_class=row["class"])
        assert says(page.elements[line]) == f"{row['class']} {row['n']:,}{points}{row['broken']}{row['fixed']}"


def test_of_many_classes_the_two_ends(tmp_path: Path) -> None:
    classes = [f"class {n}" for n in range(60)]
    run = save_comparison(tmp_path / "run", ("a", "b"), classes)
    page = Page(write_report(run))
    rows = json.loads((run / "compare.json").read_text("utf-8"))["per_class"]
    change = {row["class"]: row["networks"][1]["share"] - row["networks"][0]["share"] for row in rows}
    shown = [change[name] for name in classes_in(page, "tr")]
    ordered = sorted(change.values())
    assert shown == ordered[:20] + ordered[-20:]
    assert any("20 classes with the worst change and the 20 with the best; all 60" in t for t in page.texts("p"))


def test_warnings(page: Page) -> None:
    warnings = " ".join(page.texts("p", class_="warning"))
    assert "3 files could not be read and were left out. The list, with reasons: run/unreadable.txt." in warnings
    assert "12 images were left out: class not known." in warnings
    assert "4 findings are unsettled" in warnings
    assert "the copy of 28×28 pixels" in warnings
    unsettled = {card[-16:] for card in page.texts("article") if "unsettled not on the copy kept here" in card}
    assert len(unsettled) == 4


def test_nothing_to_warn_of_nothing_said(tmp_path: Path) -> None:
    page = Page(write_report(save_comparison(tmp_path / "run")))
    assert page.texts("p", class_="warning") == []
    assert not page.find("span", class_="badge")
    assert not page.find("section", id="dissent")  # of two networks each dissents from the other
    assert "Both disagree with the label, and agree" in " ".join(page.texts("p", class_="note"))


def test_near_chance_is_said(tmp_path: Path) -> None:
    run = save_comparison(tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    row = {"right": 61, "n": 600, "share": 61 / 600, "low": 0.08, "high": 0.13, "chance": 0.1, "near_chance": True}
    (run / "config.json").write_text(json.dumps(config | {"clean": {"new": row}, "notes": ["<b>note</b>"]}))
    page = Page(write_report(run))
    assert "new is near chance: right on 10.2 % of 600 images, where chance is 10.0 %" in page.texts("p")[2]
    assert "<b>note</b>" in page.texts("p", class_="note")


def test_unlabelled_has_consensus_and_no_accuracy(tmp_path: Path) -> None:
    run = save_comparison(tmp_path / "run", FOUR[:3], labelled=False)
    page = Page(write_report(run))
    consensus = json.loads((run / "compare.json").read_text())["consensus"]
    assert page.texts("h1") == ["Where the networks differ"]
    lead = page.texts("p", class_="lead")[0]
    assert f"All three networks agree on {consensus['agree']} of 600 images" in lead
    alone = sum(consensus["dissent"].values())
    assert f"On {alone} exactly one dissents from all the others; on {consensus['split']} they split" in lead
    for name, count in consensus["dissent"].items():
        assert page.texts("div", class_="rail-row", data_network=name) == [f"{name}{count}"]
    assert len(cards(page, "dissent")) == alone
    row = next(row for row in Findings.open(run) if "dissent" in row["tags"])
    wanted = f"{row['suspect']} says {TEN[row['said']]}, the others {TEN[row['consensus']]} "
    assert any(card.startswith(wanted) for card in cards(page, "dissent"))
    for word in ("Accuracy", "McNemar", "taken for", "disagree with the label"):
        assert word not in page.texts("body")[0]


def test_settings_and_versions_are_there(page: Page) -> None:
    settings = page.texts("section", id="settings")[0]
    assert "foible 0.2.0, torch 2.13, python 3.11, device cpu" in settings
    assert '"recipe": "compare"' in settings
    facts = page.texts("dl", class_="facts")[0]
    assert "networksmarch (old), june (new), probe, vit" in facts
    assert "kept copies28×28 pixels" in facts


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"networks": 3}', "\x00", pytest.param('{"flips": {}}', id="flips")])
def test_damaged_summary_is_named(tmp_path: Path, text: str) -> None:
    run = save_comparison(tmp_path / "run")
    (run / "compare.json").write_text(text)
    with pytest.raises(UserError, match=r"compare\.json (cannot be read|has|lacks).*run the same comparison again"):
        write_report(run)


def test_nothing_broken_at_all(tmp_path: Path) -> None:
    run = save_comparison(tmp_path / "run", keep=lambda _: False)
    assert "There is nothing to show" in Page(write_report(run)).texts("main")[0]
    for shard in (run / "shards").iterdir():
        shard.unlink()
    page = Page(write_report(run))
    assert page.texts("h1") == ["What new gets wrong that old got right"]
    assert '"recipe": "compare"' in page.texts("section", id="settings")[0]


def test_before_the_run_is_finished_and_findings_alone(tmp_path: Path) -> None:
    run = save_comparison(tmp_path / "run", finished=False)
    page = Page(write_report(run))
    assert "The comparison is not finished: 2 of its 3 units are here" in page.texts("p", class_="lead")[0]
    some = Findings.open(run)
    broken = sum("broken" in row["tags"] for row in some)
    assert len(cards(page, "broken")) == broken
    page = Page(write_report(some, tmp_path / "alone.html"))
    assert page.texts("h1") == ["What new gets wrong that old got right"]
    assert "findings alone" in page.texts("p", class_="lead")[0]
    assert len(cards(page, "broken")) == broken


def test_a_title_of_the_users(run: Path, tmp_path: Path) -> None:
    page = Page(write_report(run, tmp_path / "t.html", title="<i>Friday</i>"))
    assert page.texts("h1") == page.texts("title") == ["<i>Friday</i>"]


@pytest.mark.parametrize(
    ("shares", "ends"),
    [
        ([0.912, 0.887, 0.93], (0.88, 0.93)), ([0.5], (0.499, 0.501)), ([1.0], (0.999, 1.0)), ([0.0, 1.0], (0.0, 1.0)),
        ([0.0], (0.0, 0.001)), ([], (0.0, 1.0)), ([float("nan"), 0.31, 0.99], (0.2, 1.0)), ([1.2, -0.3], (0.0, 1.0)),
    ],
)  # fmt: skip
def test_scale_has_round_ends_about_the_shares(shares: list[float], ends: tuple[float, float]) -> None:
    scale = Scale.over(shares)
    assert (scale.low, scale.high) == pytest.approx(ends)
    places = [place for place, _ in scale.ticks]
    assert (places[0], places[-1]) == (0, 100)
    assert 2 <= len(places) <= 6
    assert all(0 <= scale.at(share) <= 100 for share in shares if share == share)


def test_words_of_comparisons() -> None:
    ps = [words.p_value(p).replace("\u00a0", " ") for p in (1.0, 0.0996, 0.0314, 0.001, 0.00042, 3e-21, 0.0)]
    assert ps == ["1.00", "0.10", "0.031", "0.001", "4.2 × 10⁻⁴", "3.0 × 10⁻²¹", "< 10⁻³⁰⁰"]
    assert [words.plus(value) for value in (1.26, -0.44, 0.04, -0.04, float("nan"), 10.0)] == [
        "+1.3", "−0.4", "0.0", "0.0", "–", "+10.0",
    ]  # fmt: skip
    assert words.pixels([224, 320]) == "320×224"
    assert words.canvases({"a": {"canvas": None}, "b": {"canvas": {"size": [32, 32]}}}) == "32×32"


def test_hostile_names_are_text_only(tmp_path: Path) -> None:
    networks = (HOSTILE, "new \"'`&<>", "</style>")
    run = save_comparison(
        tmp_path / "run", networks, [HOSTILE, "</title>", "<!--", '"', *"abcdef"], files=HOSTILE + "{}.png",
        left_out={HOSTILE: 1}, notes=[HOSTILE], unsettled=1, unreadable=1,
    )  # fmt: skip
    file = write_report(run)
    page = Page(file)
    assert page.texts("h1")[0] == f"What {networks[1]} gets wrong that {HOSTILE} got right"
    assert {tag for tag, _, _ in page.elements} & {"script", "iframe", "object", "link", "base"} == set()
    assert all(a["src"].startswith("data:image/") for tag, a, _ in page.elements if tag == "img")
    assert not any(name.startswith("on") for _, a, _ in page.elements for name in a)
    assert [a for _, a, _ in page.elements if a.get("href", "#")[0] != "#"] == []
    assert "<img src=x" not in file.read_text("utf-8")
    (policy,) = [a["content"] for _, a, _ in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")


def test_settings_that_say_nothing_are_left_out() -> None:
    shown = words.settings({"a": {"lists": {"x": "20ff"}, "peers": [], "names": ["x"], "budget": None, "seed": 0}})
    assert shown == [("seed", "0")]
