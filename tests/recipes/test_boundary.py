"""Boundary: lines between classes through the harness, read back, resumed, replayed, and refused with a clear word."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from linear_generator import Linear
from torch import nn

import foible
from foible import cli
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import Findings
from foible.findings.rows import replaced
from foible.findings.tags import tag
from foible.images import decode_png, encode_png, to_bytes, to_floats
from foible.randomness import normals
from foible.recipes.boundary.pairs import read_pairs, usual_pairs
from foible.recipes.boundary.reading import _most, interpolations, people_on, people_one_by_one
from foible.recipes.boundary.summary import flips, summarise
from foible.recipes.export import export
from foible.recipes.replay import replay
from foible.report import write_report
from foible.testing import SHAPE, linear_basket, linear_trials, write_linear_task

WIDE = Linear(60)
OWN = """
import torch

class Blobs:
    shape, latent = (1, 12, 12), 6

    def __init__(self):
        from foible.testing.linear import blobs
        self.axes = torch.linalg.qr(torch.cat([blobs().flatten(1), torch.rand(3, 144, generator=torch.Generator()
            .manual_seed(0))]).t())[0]

    def encode(self, images):
        return images.flatten(1) @ self.axes

    def decode(self, codes):
        return (0.3 + codes @ self.axes.t()).clamp(0, 1).view(-1, 1, 12, 12)
"""


def data(basket: Basket) -> Dataset:
    trials = linear_trials(basket, 60)
    return Dataset("blobs", "test", trials.seeds, trials.aims, tuple(basket.classes))


def drawn(**options: Any) -> Findings:
    basket = linear_basket(3)
    given = {"generator": WIDE, "samples": 400, "sure": 0.4, "quiet": True} | options
    return foible.boundary(basket, data(basket), **given)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The linear networks, their images and a generator of one's own, on disk."""
    folder = tmp_path_factory.mktemp("task")
    basket, images = write_linear_task(folder)
    (folder / "own.py").write_text(OWN)
    return {"basket": basket, "data": images, "split": "train", "generator": f"{folder / 'own.py'}:Blobs", "sure": 0.3}


@pytest.fixture(scope="module")
def run(task: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "between"
    foible.boundary(**task, out=out, steps=5, unit=1, workers=1, quiet=True)
    return out


# Which classes


def test_ten_classes_give_the_papers_fifteen_pairs() -> None:
    pairs = usual_pairs(10)
    assert len(pairs) == len(set(pairs)) == 15
    assert all(one < other for one, other in pairs)
    assert Counter(number for pair in pairs for number in pair) == dict.fromkeys(range(10), 3)


@pytest.mark.parametrize(("count", "each"), [(2, 1), (3, 2), (4, 3), (5, 4), (6, 3), (7, 4), (50, 3)])
def test_every_class_comes_as_often_as_the_others(count: int, each: int) -> None:
    assert Counter(number for pair in usual_pairs(count) for number in pair) == dict.fromkeys(range(count), each)


def test_pairs_by_name_whatever_is_in_a_name() -> None:
    classes = ["t-shirt", "ankle-boot", "bag, large", "3"]
    assert read_pairs("ankle-boot-t-shirt, 3-bag, large", classes) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("text", "words"),
    [("1-1", "'1' with itself"), ("0-7", "'7' is no class.*out of 0, 1, 2"), ("0-1,1-0", "come twice"),
     ("zwei-1", "'zwei' is no class"), ("0", "no class"), (",", "no class")],
)  # fmt: skip
def test_pairs_that_are_none(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        drawn(pairs=text)


# Rows


def test_a_cross_fade_of_linear_networks_has_a_known_answer() -> None:
    """Logits are linear along it, so that those of the ends say what comes between."""
    findings = drawn(generator="pixels", steps=21)
    made, basket = interpolations(findings), linear_basket(3)
    assert len(findings) == 3 * 21
    assert made.networks == ("A", "B", "C")
    alpha = made.alpha[:21]
    np.testing.assert_allclose(alpha, np.arange(21) / 20, atol=1e-6)
    sure = 0
    for walk in range(3):
        ends = torch.stack([made.images[21 * walk], made.images[21 * walk + 20]])
        first, last = basket.judge(to_floats(ends)).double().unbind(1)
        along = (1 - alpha)[:, None, None] * first.numpy() + alpha[:, None, None] * last.numpy()
        top = np.sort(along, 2)
        clear = (top[..., -1] - top[..., -2] > 0.05).T  # else rounding to 8 bits may decide
        sure += int(clear.sum())
        said = made.said[:, 21 * walk : 21 * walk + 21]
        np.testing.assert_array_equal(said[clear], along.argmax(2).T[clear])
        assert (said[:, 0] == made.ends[21 * walk, 0]).all()
        assert (said[:, -1] == made.ends[21 * walk, 1]).all()
    assert sure > 150


def test_a_row_says_where_it_is_and_what_everybody_says() -> None:
    findings = drawn(steps=4)
    rows, classes = list(findings), findings.classes
    assert [row["lane"] for row in rows] == [0] * 4 + [1] * 4 + [2] * 4
    assert len({row["id"] for row in rows}) == 12
    basket = linear_basket(3)
    for row, (one, other) in zip(rows, np.repeat([(0, 1), (0, 2), (1, 2)], 4, 0), strict=True):
        assert row["outcome"] == "between"
        assert row["target"] == other
        assert row["truth"] is None
        assert row["tags"] == ["to-label", f"{classes[one]} → {classes[other]}"]
        assert len(row["point"]) == WIDE.latent
        for name, image in (("after", row["image"]), ("before", row["origin"])):
            again = basket.judge(to_floats(decode_png(image))[None]).softmax(2)[:, 0]
            np.testing.assert_allclose(row[name], again, atol=1e-5)
    for lane in range(3):
        assert rows[4 * lane]["image"] == rows[4 * lane]["origin"]  # the first of a line is its end
    for place, same in ((0, 4), (3, 8), (7, 11)):  # a class has one end, whichever line it is on
        assert rows[place]["point"] == rows[same]["point"]


def test_how_many_lines_share_a_unit_changes_no_row() -> None:
    assert drawn(unit=1).table.equals(drawn(unit=2).table)


def test_the_basket_chooses_clean_and_realistic_ends() -> None:
    made = interpolations(drawn(steps=2))
    assert (made.said == made.ends[np.arange(6), np.arange(6) % 2]).all()
    assert made.sure.mean(0).min() >= 0.4


def test_the_first_samples_need_not_be_clear() -> None:
    first = drawn(steps=2, ends="first")
    codes = normals(0, torch.arange(400), stream="boundary.samples", count=WIDE.latent)
    images = to_floats(to_bytes(WIDE.decode(codes)))
    taken = linear_basket(3).judge(images).softmax(2).mean(0).argmax(1)
    for row, (one, other) in zip(list(first)[::2], ((0, 1), (0, 2), (1, 2)), strict=True):
        assert (row["point"], row["target"]) == (codes[(taken == one).nonzero()[0, 0]].tolist(), other)
    assert drawn(steps=2, ends="first", sure=0.999).column("image") == first.column("image")  # how sure is not asked
    with pytest.raises(UserError, match=r"of 1 none is what the networks together take for it .* Draw more with"):
        drawn(ends="first", samples=1)


def test_an_answer_that_is_no_number_is_invalid(tmp_path: Path) -> None:
    class Broken(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            said = images.flatten(1)[:, :3].clone()
            return torch.where(images.flatten(1).mean(1, keepdim=True) > 0.2, torch.nan, said)

    good = linear_basket(1)
    basket = Basket({"A": good.network("A"), "X": Broken()}, classes=good.classes, preprocess="inside", shape=SHAPE)
    findings = foible.boundary(basket, data(good), generator="pixels", quiet=True, **_photographs(tmp_path))
    rows = list(findings)
    assert {row["outcome"] for row in rows} == {"between", "invalid"}
    made = interpolations(findings)
    assert (made.said[1] < 0).tolist() == [row["outcome"] == "invalid" for row in rows]
    assert summarise(findings)["invalid"] == sum(row["outcome"] == "invalid" for row in rows)


def _photographs(folder: Path) -> dict[str, Any]:
    for name, value in (("a", 10), ("b", 240)):
        (folder / f"{name}.png").write_bytes(encode_png(np.full((3, 20, 20), value, np.uint8)))
    return {"first": str(folder / "a.png"), "second": str(folder / "b.png")}


@pytest.mark.parametrize(("column", "value"), [("change", []), ("lane", 7), ("image", None), ("change", None)])
def test_rows_of_anybody_are_refused_in_words(column: str, value: Any) -> None:
    findings = drawn(steps=2)
    table = replaced(findings.table, {column: [value, *findings.column(column)[1:]]})
    with pytest.raises(UserError, match=r"damaged or not ours|no image|PNG"):
        interpolations(Findings(table))


def test_flips() -> None:
    alpha = np.array([0, 0.25, 0.5, 0.75, 1.0])
    assert flips(np.array([1, 1, 1, 1, 1]), alpha) == []
    assert flips(np.array([1, 1, 4, 2, 2]), alpha) == [0.375, 0.625]
    assert flips(np.array([1, -1, 2, 2, 2]), alpha) == [0.25]


# On disk


def test_a_run_goes_on_with_the_same_ends_and_replays(run: Path, task: dict[str, Any]) -> None:
    before, ends = Findings.open(run).table, (run / "ends.json").read_bytes()
    shard = sorted((run / "shards").glob("*.parquet"))[1]
    bytes_before = shard.read_bytes()
    shard.unlink()
    foible.boundary(**task, out=run, steps=5, unit=1, workers=1, quiet=True)
    assert shard.read_bytes() == bytes_before
    assert Findings.open(run).table.equals(before)
    assert (run / "ends.json").read_bytes() == ends
    again = replay(run, trust=True)
    assert len(again) == 15
    assert all(one.holds for one in again)


def test_other_settings_are_not_mixed_in(run: Path, task: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="steps: 5 there, 7 here"):
        foible.boundary(**task, out=run, steps=7, unit=1, workers=1, quiet=True)


def test_show_report_export_and_cite(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["images"], told["walks"], told["labelled"]) == (15, 3, 0)
    assert [row["network"] for row in told["networks"]] == ["A", "B", "C"]
    page = write_report(run, tmp_path / "report.html").read_text("utf-8")
    assert "Not labelled yet: 15 of 15" in page
    assert page.count('class="walk"') == 3
    assert page.count('<tr class="band">') == 9
    assert export(run, "folder", tmp_path / "out") == 15
    assert {file.parent.name for file in (tmp_path / "out").rglob("*.png")} == {"unlabelled"}
    assert cli.run(["cite", str(run)]) == 0
    assert "vlaar2021examining" in capsys.readouterr().out
    assert people_on(run).tolist() == [[0, 0, 0]] * 15
    assert people_one_by_one(run).shape == (0, 15)


# Ends that people choose


def test_a_person_chooses_among_candidates(task: dict[str, Any], tmp_path: Path) -> None:
    sheet = tmp_path / "sheet"
    candidates = foible.boundary(**task, out=sheet, candidates=3, workers=1, quiet=True)
    rows = list(candidates)
    assert [row["target"] for row in rows] == [0] * 3 + [1] * 3 + [2] * 3
    assert "candidates for the ends" in write_report(sheet).read_text("utf-8")
    with pytest.raises(UserError, match="no images between classes"):
        interpolations(sheet)
    with pytest.raises(UserError, match="nobody has chosen anything"):
        foible.boundary(**task, out=tmp_path / "none", ends=str(sheet), quiet=True)
    chosen = [rows[1], rows[3], rows[8]]
    tag(sheet, [row["id"] for row in chosen], "end")
    by_tag = foible.boundary(**task, ends=str(sheet), steps=3, quiet=True)
    assert [by_tag[place]["image"] for place in (0, 6)] == [chosen[0]["image"], chosen[1]["image"]]
    assert by_tag[8]["image"] == chosen[2]["image"]
    ids = ",".join(row["id"] for row in chosen)
    by_id = foible.boundary(**task, ends=f"{sheet}:{ids}", steps=3, quiet=True)
    assert by_id.column("image") == by_tag.column("image")
    with pytest.raises(UserError, match="two ends are chosen for the class '0'"):
        foible.boundary(**task, ends=f"{sheet}:{rows[0]['id']},{rows[1]['id']}", quiet=True)
    with pytest.raises(UserError, match="has no end for 1, 2"):
        foible.boundary(**task, ends=f"{sheet}:{rows[0]['id']}", quiet=True)


def test_the_ends_of_one_run_serve_another(task: dict[str, Any], run: Path) -> None:
    again = foible.boundary(**task, ends=str(run / "ends.json"), steps=5, quiet=True)
    assert again.column("image") == Findings.open(run).column("image")
    with pytest.raises(UserError, match="of another generator"):
        foible.boundary(**task | {"generator": "pixels"}, ends=str(run / "ends.json"), quiet=True)


def test_two_photographs(task: dict[str, Any], tmp_path: Path) -> None:
    findings = foible.boundary(**task | {"generator": "pixels"}, steps=3, quiet=True, **_photographs(tmp_path))
    made = interpolations(findings)
    assert [int(image.float().mean()) for image in made.images] == [10, 125, 240]
    assert made.images.shape[1:] == SHAPE
    most = [Counter(made.said[:, place].tolist()).most_common(1)[0] for place in (0, 2)]
    assert made.ends[0].tolist() == [label if times > 1 else -1 for label, times in most]  # of three networks
    assert [_most(np.array(said)) for said in ([4, 7, 7], [4, 7, 2], [-1, 7], [-1, -1], [3])] == [7, -1, -1, -1, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 1}, "steps is 1: expected at least 2"),
        ({"generator": ""}, "boundary needs what draws the images"),
        ({"generator": Linear(6, (1, 8, 8))}, "draws images of"),
        ({"path": "round"}, "path is 'round'"),
        ({"ends": "nowhere.json"}, "'nowhere.json' is neither there"),
        ({"generator": "pixels", "ends": "samples"}, "pixels draws no samples"),
        ({"unlabelled": True, "ends": "images"}, "needs labels"),
        ({"first": "a.png"}, "one photograph alone"),
        ({"first": "a.png", "second": "b.png", "pairs": "0-1"}, "leave --ends, --pairs and --candidates out"),
        ({"first": "no.png", "second": "no.png"}, "'no.png' cannot be read"),
        ({"sure": 1.5}, "sure is 1.5"),
        ({"strange": 1}, "boundary has no option 'strange'"),
    ],
)
def test_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        drawn(**options)


def test_a_class_that_no_sample_shows_is_said_with_a_sheet_to_look_at(task: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no sample shows 0, 1, 2: of 30 none .* 0\.999.*run-samples\.png") as said:
        foible.boundary(**task | {"sure": 0.999}, out=tmp_path / "run", samples=30, quiet=True)
    assert "--candidates" in str(said.value)
    assert decode_png((tmp_path / "run-samples.png").read_bytes()).shape[0] == 1
    assert not (tmp_path / "run").exists()  # the next try may have the same --out


class Spoiling:
    """Keeps images as they are, but for those that are `spoilt`: of these it makes the image of another class."""

    shape, latent = SHAPE, 144

    def __init__(self, spoilt: torch.Tensor, other: torch.Tensor) -> None:
        self.spoilt, self.other = spoilt.flatten(1), other.flatten(1)

    def encode(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)

    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        same = (codes[:, None] == self.spoilt).all(2)
        return torch.where(same.any(1, keepdim=True), self.other[same.int().argmax(1)], codes).view(-1, *SHAPE)

    def to(self, _: torch.device) -> Spoiling:
        return self


def test_an_image_that_the_generator_spoils_is_no_end(capsys: pytest.CaptureFixture[str]) -> None:
    basket = linear_basket(3)
    blobs = data(basket)

    def ends(spoilt: torch.Tensor, other: torch.Tensor) -> tuple[Any, torch.Tensor]:
        generator = Spoiling(to_floats(spoilt), to_floats(other))
        found = foible.boundary(basket, blobs, generator=generator, ends="images", pairs="0-1,1-2,0-2", steps=2)
        made = interpolations(found)
        return made, torch.stack([decode_png(png) for png in found.column("origin")[::2]])[[0, 1, 2]]

    none = torch.zeros(1, *SHAPE, dtype=torch.uint8)
    _, first = ends(none, none)  # those of 0, of 1, and of 0 once more
    spoilt = first[:2]
    made, others = ends(spoilt, spoilt.flip(0))
    assert (made.said == made.ends[np.arange(6), np.arange(6) % 2]).all()
    assert not any(torch.equal(one, own) for one in others for own in spoilt)
    assert "called otherwise" not in capsys.readouterr().err
    every = blobs.images[blobs.labels == 1]
    made, others = ends(every, spoilt[:1].expand_as(every))
    assert torch.equal(others[1], spoilt[1])  # the first of them all the same
    assert (made.said[:, 1] == 0).all()  # and the line ends where it should not
    assert "what the generator makes of images of 1 is called otherwise" in capsys.readouterr().err


def test_a_class_that_no_image_shows() -> None:
    class Never(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.tensor([1.0, 0.0, 0.0]).repeat(len(images), 1)

    basket = Basket({"N": Never()}, classes=("0", "1", "2"), preprocess="inside", shape=SHAPE)
    with pytest.raises(UserError, match="shows 1, 2 is classified right by all networks"):
        foible.boundary(basket, data(linear_basket(3)), generator="pixels", quiet=True)
