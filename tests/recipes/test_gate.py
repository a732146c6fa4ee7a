"""Gates: counts that are known, verdicts from intervals, OLD by record, and reports that names cannot break out of."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as xml

import pytest
import torch
from gate_cases import CLASSES, LABELS, NAN, NEW, OLD, PEER, compared, tables, write_data, wrong
from torch import nn

from foible import Basket, Preprocess, UserError
from foible.data import Dataset
from foible.recipes.compare.recipe import compare
from foible.recipes.gate.checks import Check, Gated, decide, measure, measure_classes
from foible.recipes.gate.hunt_gate import BEFORE, HUNTED, gate_hunt
from foible.recipes.gate.suite_gate import gate
from foible.recipes.gate.verdicts import junit, markdown
from foible.recipes.suite.suite import make_suite
from foible.statistics import paired
from foible.testing import SHAPE, blobs, linear_network

SPACE = "affine?degrees=8&percent=8&pixels=0.7"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """44 mistakes (15 broken, 20 fixed, 9 of the peer alone), and all 300 images as drawn ones."""
    home = tmp_path_factory.mktemp("suite")
    make_suite([compared(home)], home / "suite", per_class=100)
    return home / "suite"


def _check(gated: Gated, name: str) -> Check:
    return next(check for check in gated.checks if check.name == name)


def _counts(check: Check) -> tuple[int, int, int]:
    return check.n, check.broken, check.fixed


def test_a_network_that_sees_the_images_enlarged_is_told(suite: Path) -> None:
    small, large = Preprocess(size=(4, 4)), Preprocess(size=(8, 8))
    for new, told in ((small, False), (large, True)):
        networks = {"old": tables(old=OLD).network("old"), "new": lambda images: images.flatten(1)[:, :3]}
        basket = Basket(networks, classes=CLASSES, preprocess={"old": small, "new": new})
        notes = gate(suite, basket, quiet=True).notes
        assert any("new takes images of 8×8, and the suite's are 4×4" in note for note in notes) == told


def test_every_count_of_a_gate(suite: Path) -> None:
    gated = gate(suite, tables(old=OLD, new=NEW), quiet=True)
    assert _counts(_check(gated, "drawn images")) == (300, 15, 20)
    assert _counts(_check(gated, "broken")) == (15, 15, 0)
    assert _counts(_check(gated, "fixed")) == (20, 0, 20)
    assert _counts(_check(gated, "dissent")) == (44, 15, 20)
    assert [_counts(_check(gated, name)) for name in CLASSES] == [(100, 5, 7), (100, 5, 7), (100, 5, 6)]
    overall = _check(gated, "drawn images")
    assert overall.points == pytest.approx(100 * (15 - 20) / 300)
    assert (overall.low, overall.high) == pytest.approx([100 * limit for limit in paired(15, 20, 300)])
    ant = _check(gated, "ant")
    assert (ant.low, ant.high) == pytest.approx([100 * limit for limit in paired(5, 7, 100, 1 - 0.05 / 3)])
    assert {(check.points, check.low, check.high, check.verdict) for check in gated.of("tag")} == {(None,) * 4}
    assert gated.verdict == "pass"
    assert len(gated.broken) == 30, "each as it was drawn, and as it was chosen"


def test_old_by_record_is_old_judged_again(suite: Path) -> None:
    judged = gate(suite, tables(old=OLD, new=LABELS), quiet=True)
    recorded = gate(suite, tables(new=LABELS), old="old", quiet=True)
    assert recorded.checks == judged.checks
    assert _counts(_check(recorded, "drawn images")) == (300, 0, 26)
    peer = gate(suite, tables(new=LABELS), old="peer", quiet=True)
    assert _counts(_check(peer, "drawn images")) == (300, 0, 15)


def test_without_a_word_old_is_the_new_of_the_last_compare(suite: Path) -> None:
    gated = gate(suite, tables(new=wrong(LABELS, range(100))), quiet=True)
    assert gated.old == "new"
    assert _counts(_check(gated, "drawn images")) == (300, 85, 6)  # NEW of then was wrong at 60–74 and at 200–205
    assert gated.verdict == "fail"


def test_a_network_is_known_by_its_weights_not_by_its_name(tmp_path: Path) -> None:
    """v2 is `new` in the first run and `old` in the second: it is the one that all rows know."""
    third = wrong(LABELS, range(90, 95))
    runs = [compared(tmp_path / "a", old=OLD, new=NEW), compared(tmp_path / "b", old=NEW, new=third)]
    make_suite(runs, tmp_path / "suite", per_class=100)
    gated = gate(tmp_path / "suite", tables(new=LABELS), quiet=True)
    assert gated.checks == gate(tmp_path / "suite", tables(old=NEW, new=LABELS), quiet=True).checks
    assert gated.old == "old"
    named = gate(tmp_path / "suite", tables(new=LABELS), old="new", quiet=True)
    assert _check(named, "fixed").fixed == 0, "`new` is the last run's"
    assert any("rows are left out: they do not record what new says" in note for note in named.notes)


def test_where_no_network_is_known_to_all_rows(tmp_path: Path) -> None:
    runs = [compared(tmp_path / "a", old=OLD, new=NEW), compared(tmp_path / "b", a=PEER, b=wrong(LABELS, range(9)))]
    make_suite(runs, tmp_path / "suite")
    with pytest.raises(UserError, match=r"no network is recorded by all rows.*--network old=SPEC.*\(a, b, new, old\)"):
        gate(tmp_path / "suite", tables(new=LABELS), quiet=True)
    assert gate(tmp_path / "suite", tables(new=LABELS, old=OLD), quiet=True).verdict == "pass"


def test_one_class_lost_fails_where_the_whole_would_not(tmp_path: Path) -> None:
    labels = [k % 10 for k in range(1000)]
    classes = tuple(f"class {k}" for k in range(10))
    # Half of class 3 is lost: 5 points of all images, within a tolerance of 10.
    lost = [4 if label == 3 and k < 500 else label for k, label in enumerate(labels)]
    data = write_data(tmp_path / "data.npz", labels, classes)
    old = wrong(labels, range(990, 1000))
    compare(tables(classes, old=old, new=labels), data, out=tmp_path / "run", split="train", quiet=True)
    make_suite([tmp_path / "run"], tmp_path / "suite", per_class=100)
    gated = gate(tmp_path / "suite", tables(classes, old=labels, new=lost), tolerance=10, quiet=True)
    assert _check(gated, "drawn images").verdict == "pass"
    assert [check.name for check in gated.checks if check.verdict == "fail"] == ["class 3"]
    assert gated.verdict == "fail"
    assert gated.worst()[0].name == "class 3"
    assert gate(tmp_path / "suite", tables(classes, old=labels, new=labels), quiet=True).verdict == "pass"


def test_few_images_are_inconclusive(tmp_path: Path) -> None:
    make_suite([compared(tmp_path, old=OLD, new=NEW)], tmp_path / "suite", per_class=2, most=10)
    gated = gate(tmp_path / "suite", tables(old=OLD, new=OLD), quiet=True)
    assert _check(gated, "drawn images").points == 0
    assert gated.verdict == "inconclusive"
    assert (gated.failed(), gated.failed(strict=True)) == (False, True)
    assert gate(tmp_path / "suite", tables(old=OLD, new=OLD), tolerance=100, quiet=True).verdict == "pass"


def test_classes_meet_by_name(suite: Path) -> None:
    turned = ("Cow", "ANT", "bee")
    said = [("cow", "ant", "bee").index(CLASSES[k]) for k in NEW]
    basket = tables({"old": CLASSES, "new": turned}, old=OLD, new=said)
    assert gate(suite, basket, quiet=True).checks == gate(suite, tables(old=OLD, new=NEW), quiet=True).checks


def test_a_class_that_the_network_does_not_know_cannot_pass(suite: Path) -> None:
    said = [("ant", "bee", "dog").index(CLASSES[k]) if k < 2 else 2 for k in NEW]
    gated = gate(suite, tables({"new": ("ant", "bee", "dog")}, new=said), old="new", quiet=True)
    assert _check(gated, "drawn images").n == 200
    assert _check(gated, "drawn images").verdict == "pass"
    assert gated.verdict == "inconclusive"
    assert any("114 of 344 images cannot be judged" in note and "cow" in note for note in gated.notes)
    failures = xml.fromstring(junit(gated, strict=True)).findall(".//failure")
    assert len(failures) == 1
    assert "cannot be judged" in str(failures[0].get("message"))


def test_no_number_is_wrong(suite: Path) -> None:
    gated = gate(suite, tables(old=LABELS, new=[NAN, *LABELS[1:]]), quiet=True)
    assert _counts(_check(gated, "drawn images")) == (300, 1, 0)
    assert "new answered 1 images with NaN or infinity: counted as wrong" in gated.notes


def test_images_of_several_sizes(tmp_path: Path) -> None:
    for side in (4, 6):
        data = write_data(tmp_path / f"{side}.npz", LABELS, side=side)
        compare(tables(old=OLD, new=NEW), data, out=tmp_path / f"run-{side}", split="train", quiet=True)
    make_suite([tmp_path / "run-4", tmp_path / "run-6"], tmp_path / "suite", per_class=20)
    gated = gate(tmp_path / "suite", tables(old=OLD, new=NEW), quiet=True)
    assert _check(gated, "drawn images").n == 60
    assert _counts(_check(gated, "fixed")) == (40, 0, 40)


def test_it_says_who_chose_the_images(suite: Path) -> None:
    def chosen(**said: list[int]) -> list[str]:
        return [note for note in gate(suite, tables(**said), quiet=True).notes if "took part" in note]

    assert chosen(old=OLD, new=LABELS)[0].startswith("OLD took part")
    assert chosen(new=NEW, old=OLD)[0].startswith("NEW and OLD took part")
    assert chosen(new=LABELS)[0].startswith("OLD took part")
    assert chosen(old=LABELS, new=wrong(LABELS, range(5))) == []


@pytest.mark.parametrize(
    ("networks", "options", "said"),
    [
        ({"old": OLD}, {}, "no network is called 'new' (given old): expected --network new=SPEC"),
        ({"new": NEW, "peer": PEER}, {}, "a suite needs no networks but new and old"),
        ({"new": NEW, "old": OLD}, {"old": "peer"}, "both say what OLD is"),
        ({"new": NEW}, {"old": "nobody"}, "no row of the suite records a network 'nobody'; they record new, old, peer"),
        ({"new": NEW}, {"tolerance": -1}, "tolerance is -1: expected percentage points, 0 to 100"),
        ({"new": NEW}, {"class_tolerance": 101}, "class-tolerance is 101"),
        ({"new": NEW}, {"tolerance": float("nan")}, "tolerance is nan"),
    ],
)
def test_wrong_input_is_named(suite: Path, networks: dict[str, list[int]], options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        gate(suite, tables(**networks), quiet=True, **options)


def test_a_suite_of_another_task(suite: Path) -> None:
    other = tables(("x", "y", "z"), new=NEW)
    with pytest.raises(UserError, match="no image of the suite .* has a class that the networks know"):  # noqa: RUF043
        gate(suite, other, quiet=True)


def test_a_network_that_takes_other_images(suite: Path) -> None:
    wide = Basket({"new": nn.Sequential(nn.Flatten(), nn.Linear(100, 3))}, classes=CLASSES, preprocess="inside")
    with pytest.raises(UserError, match="cannot take images of shape"):
        gate(suite, wide, quiet=True)


def test_the_rule_of_the_verdict() -> None:
    fine, bad = measure("overall", "a", 1000, 5, 5, 5), measure("overall", "b", 1000, 200, 0, 5)
    open_ = measure("overall", "c", 20, 1, 1, 5)
    classes = measure_classes({"x": (100, 60, 0), "y": (10, 1, 1), "z": (0, 0, 0)}, 20)
    assert [(check.name, check.verdict) for check in classes] == [("x", "fail"), ("y", "inconclusive")]
    assert decide([fine]) == "pass"
    assert decide([fine, bad]) == "fail"
    assert decide([fine, open_]) == "inconclusive"
    assert decide([fine, classes[1]]) == "pass", "an undecided class does not hold the whole up"
    assert decide([fine, classes[0]]) == "fail"
    assert decide([fine], whole=False) == "inconclusive"
    assert decide([measure("tag", "fixed", 50, 50, 0, None), fine]) == "pass", "tags are there to be read"


HOSTILE = "]]>|<b>`x`*_@team_* #1 [l](http://x.y) www.z.org\n## h\x1b[31m\ud800\u202e&amp;"


@pytest.fixture
def hostile() -> Gated:
    checks = (
        measure("overall", "all images", 400, 90, 10, 5),
        *measure_classes({HOSTILE: (100, 60, 0), "few": (4, 0, 0), "fine": (5000, 1, 1)}, 20),
        measure("tag", HOSTILE, 50, 50, 0, None),
    )
    return Gated("suite", "fail", HOSTILE, checks, (f"note {HOSTILE}",), tuple(f"{HOSTILE}-{k}" for k in range(30)))


def test_junit_as_parsers_read_it(hostile: Gated) -> None:
    root = xml.fromstring(junit(hostile))
    (found,) = root.findall("testsuite")
    assert (found.get("tests"), found.get("failures"), found.get("skipped"), found.get("errors")) == (
        "5",
        "2",
        "1",
        "0",
    )
    cases = {(case.get("classname"), case.get("name")): case for case in found.findall("testcase")}
    assert len(cases) == 5
    shown = next(name for kind, name in cases if kind == "foible.gate.tag")
    assert shown is not None
    assert "<b>`x`" in shown
    assert "\\n## h\\x1b[31m\\ud800\\u202e" in shown
    failure = cases["foible.gate.overall", "all images"].find("failure")
    assert failure is not None
    assert "+20.0 points" in str(failure.get("message"))
    assert "tolerance 5" in str(failure.text)
    assert cases["foible.gate.class", "few"].find("skipped") is not None
    assert list(cases["foible.gate.class", "fine"].iter("failure")) == []


def test_junit_of_an_undecided_gate() -> None:
    checks = (measure("overall", "all images", 20, 1, 1, 5), *measure_classes({"few": (4, 0, 0)}, 20))
    gated = Gated("suite", "inconclusive", "old", checks, (), ())
    kinds = [[child.tag for child in case] for case in xml.fromstring(junit(gated)).iter("testcase")]
    assert kinds == [["skipped"], ["skipped"]]
    kinds = [[child.tag for child in case] for case in xml.fromstring(junit(gated, strict=True)).iter("testcase")]
    assert kinds == [["failure"], ["skipped"]]


def test_markdown_that_names_cannot_break_out_of(hostile: Gated) -> None:
    text = markdown(hostile)
    assert text.startswith("## ❌ foible gate: fail\n")
    assert text.count("\n## ") == 0
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {9}, "no name makes a cell of its own"
    outside = re.sub(r"<code>.*?</code>", "", text)
    for sign in ("<", "`x`", "@", "[", "](", "http", "www", "\x1b", "_"):
        assert sign not in outside, sign
    inside = re.findall(r"<code>(.*?)</code>", text)
    assert all(re.fullmatch(r"[\w -]|(?:[^\W_]|[ -]|&#\d+;)*", name) for name in inside)

    class Reader(HTMLParser):
        text = ""

        def handle_data(self, data: str) -> None:
            self.text += data

    reader = Reader()
    reader.feed(inside[0])
    assert reader.text.startswith("]]>|<b>`x`*_@team_* #1 [l](http://x.y) www.z.org\\n## h\\x1b[31m")
    assert "and 20 more" in text


# --- the nightly tier -------------------------------------------------------------------------------------------------


def _images(count: int = 240) -> Dataset:
    labels = torch.arange(count) % 3
    mixed = torch.rand(count, 1, 1, 1, generator=torch.Generator().manual_seed(1)) * 0.3
    images = (1 - mixed) * blobs()[labels] + mixed * blobs()[(labels + 1) % 3]
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8)
    return Dataset("blobs", "test", pixels, labels, ("0", "1", "2"))


class Blind(nn.Module):
    """Takes class 2 for class 0, and is otherwise what it was."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.inner(images)
        return torch.cat([logits[:, :2], torch.full_like(logits[:, :1], -100.0)], 1)


def _networks(**networks: nn.Module) -> Basket:
    return Basket(networks, classes=["0", "1", "2"], preprocess="inside", shape=SHAPE)


def _hunted(out: Path, basket: Basket, **options: Any) -> Gated:
    settings: dict[str, Any] = {"trials": 60, "peer_confidence": 0.4, "space": SPACE, "patience": 60, "quiet": True}
    return gate_hunt(basket, _images(), out=out, **(settings | options))


def _trio(new: nn.Module, old: nn.Module | None = None) -> Basket:
    return _networks(old=old or linear_network(0), P1=linear_network(5), P2=linear_network(6), new=new)


def test_a_twin_that_is_the_same_passes_nothing_by_luck(tmp_path: Path) -> None:
    gated = _hunted(tmp_path / "run", _trio(linear_network(0)))
    hunted, before = gated.of("overall")
    assert (hunted.name, hunted.n, hunted.broken, hunted.fixed) == (HUNTED, 60, 0, 0)
    assert (before.name, before.broken, before.fixed) == (BEFORE, 0, 0)
    assert before.n > 200
    assert gated.verdict == "pass"
    strict = _hunted(tmp_path / "run", _trio(linear_network(0)), hunt_tolerance=5)
    assert strict.verdict == "inconclusive", "60 trials cannot show less than 5 points"


def test_lanes_are_paired(tmp_path: Path) -> None:
    from foible import Findings

    gated = _hunted(tmp_path / "run", _trio(linear_network(3)))
    rows = Findings.open(tmp_path / "run" / "hunt")
    by = {name: dict(zip(part.column("lane"), part.column("outcome"), strict=True)) for name in ("old", "new")
          for part in [rows.filter(suspect=name)]}  # fmt: skip
    broken = [lane for lane in range(60) if by["new"][lane] == "found" != by["old"][lane]]
    fixed = [lane for lane in range(60) if by["old"][lane] == "found" != by["new"][lane]]
    hunted = gated.of("overall")[0]
    assert (hunted.broken, hunted.fixed) == (len(broken), len(fixed))
    assert len(broken) + len(fixed) > 0
    assert list(gated.broken) == [f"new-{lane:06d}" for lane in broken]
    assert all(row["networks"] == [row["suspect"], "P1", "P2"] for row in rows)
    assert json.loads((tmp_path / "run" / "gate.json").read_text())["verdict"] == gated.verdict


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    first = _hunted(tmp_path / "run", _trio(linear_network(3)), unit=20)
    shards = sorted((tmp_path / "run" / "hunt" / "shards").iterdir())
    kept = shards[1].read_bytes()
    shards[1].unlink()
    assert _hunted(tmp_path / "run", _trio(linear_network(3)), unit=20) == first
    assert shards[1].read_bytes() == kept
    with pytest.raises(UserError, match="was made with other settings"):
        _hunted(tmp_path / "run", _trio(linear_network(4)), unit=20)


def test_a_class_that_new_lost_fails_though_it_cannot_be_hunted(tmp_path: Path) -> None:
    gated = _hunted(tmp_path / "run", _trio(Blind(linear_network(0))))
    (lost,) = [check for check in gated.of("class") if check.verdict == "fail"]
    assert lost.name == "2"
    assert lost.broken == lost.n
    assert gated.verdict == "fail"
    back = _hunted(tmp_path / "back", _trio(linear_network(0), old=Blind(linear_network(0))))
    assert [check.verdict for check in back.of("class")].count("fail") == 0
    assert next(check for check in back.of("class") if check.name == "2").points < -50


def test_a_network_that_is_always_wrong_fails_without_a_hunt(tmp_path: Path) -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = linear_network(0)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return -self.inner(images)

    gated = _hunted(tmp_path / "run", _trio(Wrong()))
    assert gated.verdict == "fail"
    assert any("no image is right under all networks" in note for note in gated.notes)
    assert not (tmp_path / "run" / "hunt").exists()


@pytest.mark.parametrize("names", [("old", "new"), ("new", "P"), ("old", "P")])
def test_a_hunt_needs_old_new_and_a_peer(tmp_path: Path, names: tuple[str, ...]) -> None:
    basket = _networks(**{name: linear_network(k) for k, name in enumerate(names)})
    with pytest.raises(UserError, match="at least one peer, --network PEER=SPEC"):
        _hunted(tmp_path / "run", basket)
