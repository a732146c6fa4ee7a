"""The paper's own form of the study, on a small run: before and after simulated people have labelled it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foible import cli
from foible.data import load
from foible.errors import UserError
from foible.findings import Findings
from foible.recipes.boundary.pairs import read_pairs
from foible.recipes.boundary.reading import interpolations
from foible.recipes.boundary.recipe import boundary
from foible.recipes.boundary.samples import NotShown
from foible.recipes.train.train import train
from foible.studies import run_study
from foible.studies.boundary import between, ends, stage
from foible.studies.boundary.networks import Crowd
from foible.studies.boundary.stage import people_of
from foible.studies.boundary.types import opinion
from foible.studies.common import Result
from foible.testing import write_linear_task

IMAGES = 15


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Three small networks, and images that fade from one real digit into another."""
    place = tmp_path_factory.mktemp("between")
    train("mlp:12", "digits", out=place / "basket", seeds=3, epochs=12, quiet=True)
    boundary(str(place / "basket"), "digits", out=place / "run", generator="pixels", pairs="0-1,2-3,4-7", steps=5,
             quiet=True, device="cpu", workers=1)  # fmt: skip
    return str(place / "basket"), place / "run"


def study(made: tuple[str, Path], out: Path) -> Result:
    basket, run = made
    return run_study("boundary", data="digits", basket=basket, out=out, quiet=True, device="cpu",
                     options={"images": str(run), "trials": "3"})  # fmt: skip


def label(run: Path, people: np.ndarray) -> None:
    """Simulated people, as if Studio had taken them in. people: (people, images) classes."""
    findings = Findings.open(run)
    names = findings.classes
    rows = {row["id"]: row["image"] for row in findings}
    ids = interpolations(run).ids
    about = {
        "labels": {}, "holds": [], "fails": [], "dropped": [],
        "people": {str(number): {id: names[one] for id, one in zip(ids, said, strict=True)}
                   for number, said in enumerate(people.tolist(), 1)},
        "images": {id: hashlib.sha256(rows[id]).hexdigest() for id in ids},
    }  # fmt: skip
    (run / "labels.json").write_text(json.dumps(about), "utf-8")


def test_before_and_after_people_have_labelled(made: tuple[str, Path], tmp_path: Path) -> None:
    run = made[1]
    result = study(made, tmp_path / "out")
    [told] = [note for note in result.notes if note.startswith("Not labelled yet")]
    assert told.startswith(f"Not labelled yet: {IMAGES} of {IMAGES}.")
    assert f"foible label {run}" in told
    tables = {row.table.partition(":")[0] for row in result.rows}
    assert {"Table 2", "Table 4", "Along α"} <= tables
    assert "Table 3" not in tables
    assert not any("people agree" in row.quantity for row in result.rows)
    rate = [row for row in result.rows if row.quantity.endswith("that find a mistake, %")]
    assert [row.n for row in rate] == [3, 3, 3]

    # Simulated: five people agree with the first network on all images but the third of each walk, where one does not.
    said = interpolations(run).said
    people = np.repeat(said[:1], 5, 0)
    people[0, 2::5] = (people[0, 2::5] + 1) % 10
    label(run, people)
    after = study(made, tmp_path / "out")
    split = (said != said[0]).any(0)
    disputed = np.arange(IMAGES) % 5 == 2
    rows = {row.quantity.partition(": ")[2]: row.measured for row in after.rows if row.table.startswith("Table 3")}
    assert rows["A: networks disagree, people agree"] == pytest.approx(100 * (split & ~disputed).mean())
    assert rows["C: networks agree, people disagree"] == pytest.approx(100 * (~split & disputed).mean())
    assert rows["B: both disagree"] == pytest.approx(100 * (split & disputed).mean())
    pairs = next(row for row in after.rows if row.quantity == "two people disagree, % of the images")
    assert pairs.measured == pytest.approx(100 * 4 / 10 * 3 / IMAGES)
    assert any(note == "5 people labelled all images; the paper had ten." for note in after.notes)
    assert {"figure-1", "figure-3", "flips"} == set(after.figures)  # without fleets there are no Figs. 2 and 4


def test_one_person_is_not_enough(made: tuple[str, Path]) -> None:
    run = made[1]
    images = interpolations(run)
    label(run, images.said[:1])
    assert len(people_of(run, images).one_by_one) == 0
    label(run, images.said[:2])
    assert people_of(run, images).counts.sum(1).tolist() == [2] * IMAGES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"targets": "0.9,two"}, "expected test accuracies"),
        ({"architectures": "mlp9"}, "no architecture of this study"),
    ],
)
def test_wrong_options(options: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        run_study("boundary", data="digits", out=tmp_path / "out", quiet=True, options=options)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--humans", "nobody.npy"], "nobody.npy"),
        (["--humans=nobody.npy"], "nobody.npy"),
        (["--humans"], "is given no value"),
        (["--human", "cifar10h"], "did you mean 'humans'"),
    ],
)
def test_options_of_the_study_are_flags(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["study", "boundary", "--data", "digits", "--out", str(tmp_path / "out"), *words]) == 2
    assert said in capsys.readouterr().err


def test_digits_have_the_papers_first_figure_and_every_digit_in_three_pairs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Other data have the usual pairs. A folder here that is called like the plan's generator is not taken for it."""
    asked: list[Any] = []
    monkeypatch.setattr(stage, "boundary", lambda *_, **how: asked.append((how["generator"], how["pairs"])))
    learnt: list[int | None] = []
    monkeypatch.setattr(
        stage, "train_generator", lambda spec, *_, out, epochs, **__: (asked.append((spec, out)), learnt.append(epochs))
    )
    monkeypatch.chdir(tmp_path)
    Path("dcgan").mkdir()
    plan, own = stage.SCALES["paper"], tmp_path / "out" / "generator"
    assert stage.generator_of(plan, "digits", tmp_path / "out", "", {}) == str(own)
    assert asked == [("dcgan", own)]
    assert stage.generator_of(plan, "digits", tmp_path / "out", "dcgan", {}) == "dcgan"  # a folder that is given
    stage.made_between(plan, "digits", tmp_path / "out", "G", "basket", {})
    pairs = read_pairs(asked[1][1], tuple("0123456789"))
    assert (1, 3) in pairs
    assert [sum(digit in pair for pair in pairs) for digit in range(10)] == [3] * 10
    stage.made_between(plan, f"{write_linear_task(tmp_path)[1]}?test=0.5", tmp_path / "out", "G", "basket", {})
    assert asked[2:] == [("G", "")]  # three classes
    stage.generator_of(stage.SCALES["quick"], "digits", tmp_path / "out", "", {})
    assert learnt == [None, 32]  # so many epochs of digits' few images have as many steps as 15 of 3,000


def test_other_ends_are_those_of_other_seeds(
    made: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean over sets, beside the paper's; a set without an end is said and left out."""
    basket, run = made
    plan = stage.SCALES["quick"] | {"sets": 2}
    how = {"seed": 4, "device": "cpu", "quiet": True}
    found_sets, missed = ends.other_ends(plan, "digits", tmp_path, "pixels", basket, how)
    assert list(found_sets) == ["images"]  # no samples are drawn, so the first of them are not looked at
    sets = found_sets["images"]
    runs = [Findings.open(tmp_path / "ends" / name) for name in ("images-1", "images-2")]
    assert [one.configs.popitem()[1]["seed"] for one in runs] == [5, 6]
    assert [len(one.ids) for one in sets] == [165, 165]
    assert missed == []
    group = stage.judged(basket, 98.0, interpolations(run), load("digits", "test", quiet=True), "cpu")
    found = {row.quantity: row for row in ends.rows_of(ends.apart([group], found_sets, "cpu"))}
    each = [100 * (one.said != one.said[0]).any(0).mean() for one in sets]  # as the runs themselves tell it
    row = found["98 %, real images: not all 3 networks agree"]
    assert row.measured == pytest.approx(np.mean(each))
    assert (row.paper, row.n) == (21.8, 2)
    spread = found["98 %, real images: not all 3 networks agree: standard deviation"]
    assert (spread.paper, spread.measured) == (None, pytest.approx(np.std(each, ddof=1)))
    assert found["98 %, real images: two networks disagree"].paper == 8.5
    assert ends.apart([group], {}, "cpu") == []
    [one] = ends.apart([group], found_sets, "cpu")
    halved = one._replace(target=99.0, two=one.two / 2)
    told = {row.quantity: row.measured for row in ends.rows_of([one, halved])}
    claim = "two networks disagree less with accuracy, real images, over sets of ends"
    assert told[f"{claim}: % of the images for each % of accuracy"] == pytest.approx(-one.two.mean() / 2)
    assert told[f"{claim}: p (not decided)"] == 0.25  # of two sets no more can be said
    assert ends.drawn(ends.apart([group], found_sets, "cpu"), [group], tmp_path) == "ends"
    assert (tmp_path / "ends.png").stat().st_size > 2000
    with pytest.raises(UserError, match="draws no samples"):  # what is wrong altogether is no set that is missing
        ends.other_ends(plan | {"ends": "samples"}, "digits", tmp_path / "b", "pixels", basket, how)

    def never(*_: Any) -> Path:
        raise NotShown("no sample shows 3")

    monkeypatch.setattr(ends, "made_between", never)
    none, missed = ends.other_ends(plan | {"ends": "samples"}, "digits", tmp_path / "b", "G", basket, how)
    assert none == {}
    assert [one.partition(":")[0] for one in missed] == [
        f"Other ends, {rule}, set {number}" for rule in ("samples", "first") for number in (1, 2)
    ]


def test_fleets_are_packed_into_repeats(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Six networks that arrived are two repeats of three. Classes are numbered as the images'."""
    asked: list[tuple[str, tuple[float, ...], list[int]]] = []

    def crowds(
        spec: str, _data: str, images: torch.Tensor, targets: Sequence[float], seeds: range, **_: Any
    ) -> list[Any]:
        asked.append((spec, tuple(targets), list(seeds)))
        logits = np.zeros((6, len(images), 10), np.float16)
        logits[np.arange(6), :, np.arange(6)] = 1  # network k says class k
        return [Crowd(spec, one, list(range(6)), logits, np.full(6, one), {6: "never"}) for one in targets]

    monkeypatch.setattr(stage, "crowds", crowds)
    plan = stage.SCALES["quick"] | {"fleets": [], "targets": (0.9,), "higher": (0.95,), "seeds": 3, "repeats": 2}
    classes = tuple("1023456789")  # the images' order; the data's is 0, 1, 2, …
    fleets, missed = stage.fleets_of(plan, "digits", torch.zeros(4, 1, 28, 28), classes, tmp_path,
                                     {"seed": 1, "device": "cpu", "quiet": True})  # fmt: skip
    assert [(spec, targets) for spec, targets, _ in asked] == [
        ("mlp:64", (0.9,)), ("lenet", (0.9, 0.95)), ("vit4:patch=14", (0.9,))
    ]  # fmt: skip
    assert asked[0][2] == [6, 7, 8, 9, 10, 11]  # of another seed of the study, other networks
    assert [(one.architecture, one.target) for one in fleets] == [("MLP", 90), ("CNN", 90), ("CNN", 95), ("ViT", 90)]
    assert fleets[0].said[:, :, 0].tolist() == [[1, 0, 2], [3, 4, 5]]
    assert missed[0] == "MLP, 90 %: 1 of 6 seeds did not stand there, nor any in its place."
    none, _ = stage.fleets_of(plan | {"fleets": ["none"]}, "digits", torch.zeros(4, 1, 28, 28), classes, tmp_path,
                              {"seed": 1, "device": "cpu", "quiet": True})  # fmt: skip
    assert none == []


def test_every_recipe_has_seeds_of_its_own_in_the_two_way_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who does not stand at all accuracies is left out of each, and it is said."""
    asked: list[tuple[str, list[int], Any]] = []

    def crowds(
        spec: str, _data: str, images: torch.Tensor, targets: Sequence[float], seeds: range, *, recipe: Any, **_: Any
    ) -> list[Any]:
        asked.append((spec, list(seeds), recipe))
        found = []
        for number, target in enumerate(targets):
            stood = list(seeds)[number:] if recipe.augment else list(seeds)  # CNN3: the first misses the second target
            logits = np.zeros((len(stood), len(images), 10), np.float16)
            for row, seed in enumerate(stood):
                logits[row, :, (seed + number) % 10] = 1
            found.append(Crowd(spec, target, stood, logits, np.full(len(stood), target), {}))
        return found

    monkeypatch.setattr(stage, "crowds", crowds)
    plan = stage.SCALES["quick"] | {"architectures": ["mlp4", "cnn4"], "targets": (0.9, 0.95), "crossed": 3}
    classes = tuple("1023456789")  # the images' order; the data's is 0, 1, 2, …
    pools, missed = stage.crossed_of(plan, "digits", torch.zeros(4, 1, 28, 28), classes, tmp_path,
                                     {"seed": 0, "device": "cpu", "quiet": True})  # fmt: skip
    assert [seeds for _, seeds, _ in asked] == [[3 * one, 3 * one + 1, 3 * one + 2] for one in range(6)]
    assert {spec for spec, *_ in asked} == {"mlp:64", "lenet"}
    assert list(pools[0]) == ["MLP1", "MLP2", "MLP3", "CNN1", "CNN2", "CNN3"]
    assert pools[0]["MLP1"][:, 0].tolist() == [1, 0, 2]  # networks say 0, 1, 2, which are numbered 1, 0, 2 here
    assert pools[1]["MLP1"][:, 0].tolist() == [0, 2, 3]
    assert len(pools[0]["CNN3"]) == len(pools[1]["CNN3"]) == 2
    assert len(missed) == 1
    assert missed[0].startswith("CNN3: 1 of 3 seeds")


def test_the_two_way_table_counts_who_disagrees_or_errs() -> None:
    """Of four networks one says something else on half of the images, at one of two accuracies."""
    same, other = np.zeros((1, 4), int), np.array([[0, 0, 1, 1]])
    pools = [{"MLP1": same, "MLP2": same, "CNN1": same, "CNN2": same}]
    pools.append(pools[0] | {"CNN2": other})
    found = {row.quantity: row.measured for row in between._factorial(pools, None)}
    what = "disagrees with another network, %"
    assert found[f"CNN, recipe 2: {what}"] == pytest.approx(25.0)  # with all others, on half: mean of 0 and 50
    assert found[f"MLP, recipe 1: {what}"] == pytest.approx(25 / 3)
    people = opinion(np.array([[10, 0], [10, 0], [10, 0], [5, 5]]))
    wrong = {row.quantity: row.measured for row in between._factorial(pools, people)}
    what = "people agree and it says something else, %"
    assert wrong[f"CNN, recipe 2: {what}"] == pytest.approx(12.5)  # one of four, at one of two accuracies
    assert wrong[f"MLP, mean: {what}"] == 0
