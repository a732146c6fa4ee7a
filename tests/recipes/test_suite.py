"""Suites: what is taken from runs, that the same runs give the same file, and that rows are never lost."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gate_cases import CLASSES, LABELS, NEW, OLD, PEER, compared, tables, write_data, wrong
from PIL import Image
from torch import nn

from foible import Basket, Findings, Preprocess, UserError
from foible.data import Dataset, open_data, read
from foible.findings import SCHEMA
from foible.images import decode_png
from foible.recipes.compare.recipe import compare
from foible.recipes.distort.recipe import distort
from foible.recipes.gate.suite_gate import gate
from foible.recipes.hunt.recipe import hunt
from foible.recipes.rank.recipe import rank
from foible.recipes.suite import suite as suites
from foible.recipes.suite.suite import make_suite, open_suite
from foible.testing import linear_network

SPACE = "affine?degrees=8&percent=8&pixels=0.7"


def _hunted(basket: Basket, data: Dataset, out: Path) -> Path:
    hunt(basket, data, space=SPACE, trials=40, suspect=["A", "B"], peer_confidence=0, out=out, quiet=True)
    return out


def _ranked(folder: Path, **options: Any) -> Path:
    """A ranking of pictures without labels: `new` dissents on 21 of them."""
    folder.mkdir(exist_ok=True)
    for number in range(len(LABELS)):
        Image.fromarray(np.array([[number % 256, number // 256]], np.uint8)).save(folder / f"{number:03d}.png")
    networks = tables(old=LABELS, peer=LABELS, new=NEW)
    rank(networks, f"folder:{folder}", suspect=["new"], canvas="2x1", out=folder.parent / "run", quiet=True, **options)
    return folder.parent / "run"


def _number(image: bytes) -> int:
    pixels = decode_png(image)
    return int(pixels[0, 0, 0]) + 256 * int(pixels[0, 0, 1])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compared(tmp_path_factory.mktemp("compare"))


def test_what_a_compare_gives(run: Path, tmp_path: Path) -> None:
    record = make_suite([run], tmp_path / "suite", per_class=20)
    assert record["tags"] == {"broken": 15, "dissent": 44, "drawn": 60, "fixed": 20}
    assert record["rows"] == record["added"] == 104
    findings = Findings.open(tmp_path / "suite" / "suite.parquet")
    assert findings.table.schema.remove_metadata() == SCHEMA
    numbers = [_number(image) for image in findings.column("image")]
    mistakes = {
        number for number, outcome in zip(numbers, findings.column("outcome"), strict=True) if outcome == "found"
    }
    assert mistakes == {*range(30, 50), *range(60, 75), *range(100, 109)}, "not 200–205, whose labels are in doubt"
    drawn = []
    for number, row in zip(numbers, findings, strict=True):
        assert row["truth"] == LABELS[number]
        assert row["origin_index"] == number
        if row["outcome"] == "held":
            assert row["tags"] == ["drawn"]
            drawn.append(number)
            assert row["said"] == NEW[number]
            for name, chances, traced in zip(row["networks"], row["after"], row["trace"][0], strict=True):
                assert max(range(3), key=chances.__getitem__) == {"old": OLD, "peer": PEER, "new": NEW}[name][number]
                assert sum(chances) == pytest.approx(1, abs=1e-6)
                assert traced == pytest.approx(chances[row["truth"]])
    assert len(set(findings.column("id"))) == 104
    assert {*drawn} & mistakes, "a drawn image is there whether or not it is a mistake, once more"
    assert Counter(LABELS[number] for number in drawn) == {0: 20, 1: 20, 2: 20}


def test_what_is_drawn_does_not_depend_on_any_answer(run: Path, tmp_path: Path) -> None:
    """Other networks, other mistakes: the same images are drawn of the same data; fewer are the first of more."""
    shutil.copytree(run.parent, tmp_path / "other")
    shutil.rmtree(tmp_path / "other" / "run")
    data = f"npz:{tmp_path / 'other' / 'data.npz'}"
    compare(
        tables(a=wrong(LABELS, range(250)), b=LABELS), data, out=tmp_path / "other" / "run", split="train", quiet=True
    )
    places = []
    for name, source, each in (("a", run, 20), ("b", tmp_path / "other" / "run", 20), ("c", run, 7)):
        make_suite([source], tmp_path / name, per_class=each)
        places.append({*open_suite(tmp_path / name).findings.filter(outcome="held").column("origin_index")})
    assert places[0] == places[1]
    assert len(places[2]) == 21
    assert places[2] < places[0]


def test_the_record_says_what_is_there_and_who_chose_it(run: Path, tmp_path: Path) -> None:
    make_suite([run], tmp_path / "suite")
    record = json.loads((tmp_path / "suite" / "suite.json").read_text("utf-8"))
    findings = Findings.open(tmp_path / "suite" / "suite.parquet")
    assert record["sha256"] == hashlib.sha256((tmp_path / "suite" / "suite.parquet").read_bytes()).hexdigest()
    assert record["classes"] == list(CLASSES)
    assert record["per_class"] == dict(Counter(CLASSES[label] for label in findings.column("truth")))
    assert record["chosen_by"] == ["new", "old", "peer"]
    (source,) = record["sources"]
    assert source["hash"] in findings.configs
    assert (source["recipe"], source["old"], source["new"]) == ("compare", "old", "new")
    assert source["networks"] == dict(
        tables(old=OLD, new=NEW, peer=wrong(LABELS, range(100, 109), range(200, 206))).fingerprints
    )


def test_what_a_hunt_gives(basket: Basket, data: Dataset, tmp_path: Path) -> None:
    hunted = _hunted(basket, data, tmp_path / "run")
    record = make_suite([hunted], tmp_path / "suite", per_class=4)
    there, frozen = Findings.open(hunted), open_suite(tmp_path / "suite").findings
    images = set(there.filter(outcome="found").column("image"))
    assert record["tags"] == {"anchor": 12, "hunt": len(images)}
    assert set(frozen.filter(outcome="found").column("image")) == images
    origins = set(there.column("origin"))
    for row, image in zip(frozen, frozen.images(), strict=True):
        if row["outcome"] == "held":
            assert row["image"] in origins
            assert torch.equal(image, data.images[row["origin_index"]])
            assert set(basket.predict(image[None]).argmax(2).flatten().tolist()) == {row["truth"]} == {row["said"]}
            assert row["after"] == row["before"]
            assert (row["moves"], row["path"], row["change"], row["film"], len(row["trace"])) == (0, [], [], None, 1)
        else:
            assert row["tags"] == ["hunt"]
            assert row["said"] != row["truth"]


def test_what_a_distortion_gives(basket: Basket, data: Dataset, tmp_path: Path) -> None:
    distort(basket, data, source="A", target="each", images=20, out=tmp_path / "run", quiet=True)
    make_suite([tmp_path / "run"], tmp_path / "suite", per_class=100)
    there, frozen = Findings.open(tmp_path / "run"), open_suite(tmp_path / "suite").findings
    found = frozen.filter(outcome="found")
    assert set(found.column("image")) == set(there.filter(outcome="found").column("image"))
    assert {tuple(tags) for tags in found.column("tags")} == {("distort",)}
    assert all(row["target"] == row["said"] != row["truth"] and row["distance"] > 0 for row in found)
    held = frozen.filter(outcome="held")
    agreed = {
        row["origin_index"] for row in there
        if all(max(range(3), key=chances.__getitem__) == row["truth"] for chances in row["before"])
    }  # fmt: skip
    assert sorted(held.column("origin_index")) == sorted(agreed)
    for row in held:
        assert (row["target"], row["distance"], row["distance_exact"], row["tags"]) == (None, None, None, ["anchor"])


def test_a_distortion_is_no_mistake_where_it_asks_for_the_right_class(
    basket: Basket, data: Dataset, tmp_path: Path
) -> None:
    """Towards class 0, images of class 0 are found at distance 0: nobody errs on them."""
    distort(basket, data, source="A", target="0", images=20, wrong=True, out=tmp_path / "run", quiet=True)
    make_suite([tmp_path / "run"], tmp_path / "suite")
    there = Findings.open(tmp_path / "run").filter(outcome="found")
    assert 0 in there.column("truth")
    assert 0 not in open_suite(tmp_path / "suite").findings.filter(outcome="found").column("truth")


def test_anchors_are_right_under_all_networks_not_the_source_alone(data: Dataset, tmp_path: Path) -> None:
    """The judge says class 0 of everything."""
    last = nn.Linear(data.images[0].numel(), 3)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.tensor([1.0, 0, 0]))
    judge = nn.Sequential(nn.Flatten(), last)
    both = Basket({"A": linear_network(0), "judge": judge}, classes=data.classes, preprocess="inside")
    distort(both, data, source="A", target="any", images=30, out=tmp_path / "run", quiet=True)
    assert {*Findings.open(tmp_path / "run").column("truth")} == {0, 1, 2}
    make_suite([tmp_path / "run"], tmp_path / "suite")
    held = open_suite(tmp_path / "suite").findings.filter(outcome="held")
    assert len(held) > 0
    assert {*held.column("truth")} == {0}


def test_a_layers_distortions_are_refused(basket: Basket, data: Dataset, tmp_path: Path) -> None:
    distort(basket, data, source="A", layer="0", target="any", images=3, out=tmp_path / "run", quiet=True)
    with pytest.raises(UserError, match="distorts a layer, and its images are as they were"):
        make_suite([tmp_path / "run"], tmp_path / "suite")


def test_what_a_ranking_gives(tmp_path: Path) -> None:
    record = make_suite([_ranked(tmp_path / "pool")], tmp_path / "suite")
    assert record["tags"] == {"dissent": 21}
    assert record["notes"] == []
    for row in open_suite(tmp_path / "suite").findings:
        assert (row["truth"], row["label_from"]) == (None, "consensus")
        assert row["consensus"] == LABELS[_number(row["image"])]


def test_what_people_are_to_label_is_passed_over_with_a_note(run: Path, tmp_path: Path) -> None:
    ranked = _ranked(tmp_path / "pool", label="people")
    with pytest.raises(UserError, match="nothing to freeze"):
        make_suite([ranked], tmp_path / "none")
    record = make_suite([run, ranked], tmp_path / "suite")
    assert record["notes"] == ["21 findings of run are passed over: nobody has said what they are"]
    assert len(open_suite(tmp_path / "suite").sources) == 1


def test_runs_of_every_recipe_in_one_suite(basket: Basket, data: Dataset, tmp_path: Path) -> None:
    hunted = _hunted(basket, data, tmp_path / "hunt")
    distort(basket, data, source="A", images=20, out=tmp_path / "distort", quiet=True)
    record = make_suite([hunted, tmp_path / "distort"], tmp_path / "suite", per_class=100)
    assert {"hunt", "distort", "anchor"} == record["tags"].keys()
    frozen = open_suite(tmp_path / "suite").findings
    assert len(set(frozen.column("image"))) == len(frozen)
    both = Basket({name: linear_network(9) for name in ("new", "old")}, classes=basket.classes, preprocess="inside")
    gated = gate(tmp_path / "suite", both, quiet=True)
    assert gated.verdict == "pass"
    assert any("chosen by other networks' answers" in note for note in gated.notes)


def test_no_path_of_this_machine_is_frozen(run: Path, tmp_path: Path) -> None:
    """A run may name its data by a path of its own; its rows say what its settings say."""
    make_suite([run], tmp_path / "suite")
    frozen = open_suite(tmp_path / "suite").findings
    (settings,) = frozen.configs.values()
    assert {*frozen.filter(outcome="held").column("origin_data")} == {settings["data"]}


def test_the_same_runs_give_the_same_bytes(run: Path, tmp_path: Path) -> None:
    other = compared(tmp_path / "other", wrong(LABELS, range(10)), old=OLD, new=NEW)
    for name, runs in (("a", [run, other]), ("b", [other, run])):
        make_suite(runs, tmp_path / name, per_class=3, most=50)
    assert (tmp_path / "a" / "suite.parquet").read_bytes() == (tmp_path / "b" / "suite.parquet").read_bytes()


def test_every_image_once(run: Path, tmp_path: Path) -> None:
    other = compared(tmp_path / "other", old=OLD, new=NEW)  # the same images, chosen by other networks
    make_suite([run, other], tmp_path / "suite", per_class=100)
    frozen = Findings.open(tmp_path / "suite" / "suite.parquet")
    for outcome, count in (("held", 300), ("found", 44)):
        images = frozen.filter(outcome=outcome).column("image")
        assert len(set(images)) == len(images) == count


def test_most_is_spread_over_kinds_and_classes(run: Path, tmp_path: Path) -> None:
    record = make_suite([run], tmp_path / "suite", most=36)  # 18 drawn, 18 mistakes
    assert record["rows"] == 36
    assert record["tags"] == {"broken": 6, "dissent": 18, "drawn": 18, "fixed": 6}
    assert set(record["per_class"].values()) == {12}


def test_adding_never_drops_and_twice_is_once(run: Path, tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    first = make_suite([run], suite, per_class=5)
    before = open_suite(suite).findings.table
    again = make_suite([run], suite, per_class=5, add=True)
    assert again["added"] == 0
    assert any("nothing was added" in note for note in again["notes"])
    assert again["sha256"] == first["sha256"]
    later = compared(tmp_path / "later", wrong(LABELS, range(80, 90)), old=NEW, new=wrong(LABELS, range(120, 140)))
    grown = make_suite([later], suite, per_class=5, add=True)
    after = open_suite(suite)
    assert after.findings.table.slice(0, len(before)).equals(before)
    assert grown["rows"] == len(before) + grown["added"] > len(before)
    assert [source["run"] for source in after.sources] == ["run", "run"]
    assert grown["replaces"] == first["sha256"]
    assert grown["tags"]["drawn"] == 15, "as many of each class as asked for, over all runs"


def test_an_update_that_was_cut_short_is_named_and_mended(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = tmp_path / "suite"
    make_suite([run], suite, per_class=2)
    later = compared(tmp_path / "later", old=NEW, new=wrong(LABELS, range(120, 140)))
    write = suites.write_atomically

    def cut(file: Path, data: bytes) -> None:
        if file.name == "suite.parquet":
            raise KeyboardInterrupt
        write(file, data)

    monkeypatch.setattr(suites, "write_atomically", cut)
    with pytest.raises(KeyboardInterrupt):
        make_suite([later], suite, per_class=2, add=True)
    monkeypatch.setattr(suites, "write_atomically", write)
    with pytest.raises(UserError, match="was cut short: run the same"):
        open_suite(suite)
    make_suite([later], suite, per_class=2, add=True)
    whole = open_suite(suite)
    assert len(whole.sources) == 2
    straight = tmp_path / "straight"
    make_suite([run], straight, per_class=2)
    make_suite([later], straight, per_class=2, add=True)
    assert (straight / "suite.parquet").read_bytes() == (suite / "suite.parquet").read_bytes()


@pytest.mark.parametrize("change", ["gone", "changed"])
def test_without_the_data_nothing_is_drawn_and_a_note_says_so(tmp_path: Path, change: str) -> None:
    run = compared(tmp_path)
    (tmp_path / "data.npz").unlink()
    if change == "changed":
        write_data(tmp_path / "data.npz", wrong(LABELS, range(3)))
    record = make_suite([run], tmp_path / "suite")
    assert record["rows"] == 44
    assert "drawn" not in record["tags"]
    (note,) = record["notes"]
    assert note.startswith("no drawn images from run, and only these decide: ")
    gated = gate(tmp_path / "suite", tables(old=OLD, new=NEW), quiet=True)
    assert (gated.verdict, gated.of("overall"), gated.of("class")) == ("inconclusive", [], [])
    assert any("nothing can be decided by them; add some with `foible suite RUN --add`" in said for said in gated.notes)
    strangers = gate(tmp_path / "suite", tables(old=wrong(LABELS, range(9)), new=LABELS), tolerance=20, quiet=True)
    assert [(check.name, check.n) for check in strangers.of("overall")] == [("all images", 44)]


def test_classes_in_another_order_meet_by_name(run: Path, tmp_path: Path) -> None:
    turned = ("cow", "ant", "bee")
    place = [turned.index(name) for name in CLASSES]
    labels = [place[label] for label in LABELS]
    said = {
        name: [place[k] for k in wrong(LABELS, where)] for name, where in {"x": range(150, 155), "y": range(0)}.items()
    }
    data = write_data(tmp_path / "turned.npz", labels, turned)
    compare(tables(turned, **said), data, out=tmp_path / "turned", split="train", quiet=True)
    make_suite([run], tmp_path / "suite", per_class=20)
    make_suite([tmp_path / "turned"], tmp_path / "suite", per_class=30, add=True)
    findings = open_suite(tmp_path / "suite").findings
    assert findings.classes == CLASSES
    added = [row for row in findings if "x" in row["networks"]]
    assert {row["outcome"] for row in added} == {"found", "held"}
    for row in added:
        number = _number(row["image"])
        assert row["truth"] == LABELS[number]
        mistaken = (LABELS[number] + 1) % 3 if number in range(150, 155) else LABELS[number]
        assert row["said"] == (mistaken if row["suspect"] == "x" else LABELS[number])
        for name, chances in zip(row["networks"], row["after"], strict=True):
            assert max(range(3), key=chances.__getitem__) == (mistaken if name == "x" else LABELS[number])


def test_pools_without_labels_give_what_the_others_agree_on(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data.npz", LABELS)
    networks = tables(old=LABELS, peer=LABELS, new=NEW)
    compare(networks, data, out=tmp_path / "run", split="train", unlabelled=True, quiet=True)
    record = make_suite([tmp_path / "run"], tmp_path / "suite")
    assert record["tags"] == {"dissent": 21}
    for row in open_suite(tmp_path / "suite").findings:
        assert row["truth"] is None
        assert row["consensus"] == LABELS[_number(row["image"])]


def test_wrong_input_is_named(run: Path, basket: Basket, data: Dataset, tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    with pytest.raises(UserError, match="is not a run"):
        make_suite([tmp_path / "nowhere"], suite)
    with pytest.raises(UserError, match="no run is given"):
        make_suite([], suite)
    with pytest.raises(UserError, match=r"no suite at .* to add to"):
        make_suite([run], suite, add=True)
    with pytest.raises(UserError, match="per-class is -1"):
        make_suite([run], suite, per_class=-1)
    make_suite([run], suite)
    with pytest.raises(UserError, match="holds a suite already"):
        make_suite([run], suite)
    hunted = _hunted(basket, data, tmp_path / "hunt")
    with pytest.raises(UserError, match="other classes than the suite; only one of them knows 0, 1, 2, ant"):
        make_suite([hunted], suite, add=True)
    next((hunted / "shards").iterdir()).unlink()
    with pytest.raises(UserError, match="lacks 40 of 80 trials"):
        make_suite([hunted], tmp_path / "other")
    alike = compared(tmp_path / "alike", old=LABELS, new=LABELS)
    with pytest.raises(UserError, match="nothing to freeze"):
        make_suite([alike], tmp_path / "none", per_class=0)


def test_a_damaged_suite_is_refused(run: Path, tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    make_suite([run], suite, per_class=2)
    for name in ("suite.parquet", "suite.json"):
        broken = tmp_path / f"no-{name}"
        shutil.copytree(suite, broken)
        (broken / name).unlink()
        with pytest.raises(UserError, match=f"is not a suite: it has no {name}"):
            open_suite(broken)
    data = bytearray((suite / "suite.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (suite / "suite.parquet").write_bytes(data)
    with pytest.raises(UserError, match="is not the file that was frozen"):
        open_suite(suite)
    for text in ("{", "[]", '{"version": 1}', "\xff"):
        (suite / "suite.json").write_text(text, encoding="latin-1")
        with pytest.raises(UserError, match=r"cannot be read|is damaged"):
            open_suite(suite)
    (suite / "suite.json").write_text('{"version": 9, "sha256": "", "sources": [], "classes": []}')
    with pytest.raises(UserError, match="newer Foible"):
        open_suite(suite)


def test_photographs_of_any_size_are_frozen_on_the_canvas(tmp_path: Path) -> None:
    """Dark and bright pictures: what is drawn is read again from the files, through the view that the compare had."""
    for number in range(24):
        home = tmp_path / "photos" / ("bright" if number % 2 else "dark")
        home.mkdir(parents=True, exist_ok=True)
        size = (9 + number, 30 - number)
        Image.new("RGB", size, (5 * number + 120 * (number % 2),) * 3).save(home / f"{number:02d}.png")

    class Threshold(nn.Module):
        def __init__(self, level: float) -> None:
            super().__init__()
            self.level = nn.Parameter(torch.tensor(level))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            over = images.mean((1, 2, 3)) - self.level
            return torch.stack([-over, over], 1)

    networks = Basket(
        {"old": Threshold(0.46), "new": Threshold(0.35)},
        classes=("dark", "bright"),
        preprocess=Preprocess((0.0,) * 3, (1.0,) * 3, size=(6, 8), resize=9, interpolation="bicubic"),
    )
    data = f"folder:{tmp_path / 'photos'}"
    summary = compare(networks, data, out=tmp_path / "run", split="train", quiet=True)
    assert summary["flips"]["broken"] > 0
    record = make_suite([tmp_path / "run"], tmp_path / "suite", per_class=4)
    assert not any("drawn" in note for note in record["notes"])
    frozen = open_suite(tmp_path / "suite").findings
    held = frozen.filter(outcome="held")
    assert len(held) == 8
    photographs = open_data(data, "train", quiet=True)
    view = networks.canvas
    assert view is not None
    for row, image in zip(held, held.images(), strict=True):
        assert tuple(image.shape) == (3, 6, 8)
        seen = read(photographs, torch.tensor([row["origin_index"]]), [view])
        assert torch.equal(image, seen.images[0][0])
        assert row["origin_file"] == photographs.files[row["origin_index"]]
