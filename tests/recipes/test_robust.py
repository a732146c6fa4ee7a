"""Robust accuracy, counted by hand beside; and several methods under one judge."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from small_tasks import linear_task
from torch import Tensor

import foible
from foible import Basket, Findings, UserError, cli
from foible.data import Dataset
from foible.findings.rows import as_table
from foible.findings.schema import with_metadata
from foible.recipes.distort.methods import names_of, read_method
from foible.recipes.distort.robust import read_eps
from foible.recipes.distort.summary import robust_accuracy, summarise_distortions
from foible.search.nearest import Model, Nearest
from foible.search.nearest.closest import closest
from foible.search.nearest.fmn import fmn
from foible.statistics import wilson

NAMES = ("0", "1", "2")
HOW: dict[str, Any] = {"source": "A", "split": "train", "images": 12, "quiet": True, "lattice": False}


def rows(*given: dict[str, Any], **settings: Any) -> Findings:
    """Findings of a distortion: image k is of class 0, called so by A before, and 1 is asked for, unless said."""
    each = {"outcome": "found", "target": 1, "truth": 0, "said": 1, "right": True, "distance": None} | {"exact": 1.0}
    full = [each | {"lane": number} | one for number, one in enumerate(given)]
    sure = [[0.8, 0.1, 0.1]], [[0.1, 0.8, 0.1]]
    columns: dict[str, Any] = {
        name: [one[name] for one in full] for name in ("outcome", "target", "truth", "said", "lane", "distance")
    }
    columns |= {
        "id": [str(number) for number in range(len(full))], "config": "k", "suspect": "A",
        "networks": [["A"]] * len(full), "before": [sure[not one["right"]] for one in full],
        "after": [sure[1]] * len(full), "distance_exact": [one["exact"] for one in full], "moves": 0, "candidates": 1,
        "forwards": 1, "backwards": 1,
    }  # fmt: skip
    made = as_table(columns, count=len(full))
    known = {"recipe": "distort", "norm": "l2", "target": "best", "layer": None} | settings
    return Findings(with_metadata(made, NAMES, {"k": known}))


def shares(findings: Findings, *eps: str | float) -> list[tuple[int, int]]:
    told = [robust_accuracy(findings, one) for one in eps]
    return [(one["right"], one["n"]) for one in told]


def test_what_stands_is_counted() -> None:
    some = rows({"exact": 0.1}, {"exact": 0.5}, {"exact": 2.0}, {"outcome": "exhausted", "exact": 0.01})
    assert shares(some, 0, 0.1, 0.4999, 0.5, 3) == [(4, 4), (3, 4), (3, 4), (2, 4), (1, 4)], "at most ε is within ε"
    told = robust_accuracy(some, "1/2")
    assert (told["eps"], told["share"], told["norm"], told["of"]) == (0.5, 0.5, "l2", "images that it gets right")
    assert (told["low"], told["high"]) == wilson(2, 4)
    [row] = summarise_distortions(some)
    assert [line["text"] for line in row["robust"]["at"]] == ["0.25", "0.5", "1.0"]
    assert row["robust"]["curve"] == [[0.0, 1.0], [pytest.approx(0.1), 0.75], [0.5, 0.5], [2.0, 0.25]]


def test_only_what_makes_it_wrong_counts() -> None:
    assert shares(rows({"outcome": "unsettled"}), 1) == [(0, 1)], "floats that no 8 bits hold are a mistake too"
    assert shares(rows({"outcome": "invalid"}), 1) == [(1, 1)]
    assert shares(rows({"exact": None, "distance": 0.3}), 0.2, 0.3) == [(1, 1), (0, 1)], "what only rounding made"
    assert shares(rows({"target": 0, "said": 0, "exact": 0.0}, target="0"), 1) == [(1, 1)], "it was asked for its label"
    assert shares(rows({"target": None}, target="any"), 1) == [(0, 1)]
    assert shares(rows({"right": False, "exact": 9.0}, {}, wrong=True), 0) == [(1, 2)], "wrong to begin with"


def test_the_nearest_of_several_rows_of_an_image_counts() -> None:
    both = rows({"lane": 7, "exact": 0.9}, {"lane": 7, "exact": 0.2}, {"lane": 8, "outcome": "exhausted"})
    assert shares(both, 0.1, 0.5) == [(2, 2), (1, 2)]


def test_images_that_were_passed_over_count_as_wrong() -> None:
    some = rows({}, {}, {}, drawn=8, chosen=6)
    assert shares(some, 0.5) == [(3, 4)], "half of the run is done, and half of what was passed over counts"
    assert robust_accuracy(some, 1)["of"] == "images drawn"
    assert shares(rows({}, drawn="8", chosen=0), 0.5) == [(1, 1)], "settings may be anybody's"


def test_a_run_knows_how_many_it_drew(basket: Basket, data: Dataset) -> None:
    """Every third label is wrong: with 12 images that are right, those passed over until then are counted."""
    labels = torch.where(torch.arange(60) % 3 == 0, (data.labels + 1) % 3, data.labels)
    spoilt = Dataset("spoilt", "train", data.images, labels, NAMES)
    found = foible.distort(basket, spoilt, **HOW)
    [settings] = found.configs.values()
    assert settings["chosen"] == 12
    every = foible.distort(basket, spoilt, **HOW | {"images": 60}, wrong=True, target="any")
    [all_settings] = every.configs.values()
    assert (all_settings["drawn"], all_settings["chosen"]) == (60, 60)
    assert 12 < settings["drawn"] < 30
    assert shares(found, 0) == [(12, settings["drawn"])]
    assert shares(every, 0) == [(40, 60)], "the accuracy itself"
    few = foible.distort(basket, spoilt, **HOW | {"places": [1, 3, 4]})
    assert shares(few, 0) == [(2, 3)]
    far = sorted(every.filter(outcome=["found", "unsettled"]).column("distance_exact"))
    middle = (far[39] + far[40]) / 2
    assert shares(every, middle) == [(60 - 40, 60)]
    curve = summarise_distortions(every)[0]["robust"]["curve"]
    assert [share for _, share in curve] == sorted((share for _, share in curve), reverse=True)
    assert len(curve) <= 100


def test_a_curve_of_many_has_few_points() -> None:
    many = rows(*({"exact": 0.001 * number} for number in range(1, 701)))
    curve = summarise_distortions(many)[0]["robust"]["curve"]
    assert len(curve) == 100
    assert curve[-1] == [pytest.approx(0.7), 0.0]


@pytest.mark.parametrize("given", ["", "-1", "1/0", "nan", "inf", "a", float("nan")])
def test_eps_that_is_none(given: str | float) -> None:
    with pytest.raises(UserError, match=r"expected a distance such as 0\.5 or 8/255"):
        read_eps(given)


def test_eps() -> None:
    assert [read_eps(one) for one in ("8/255", " 8 / 255", "0.5", 0.25, 0)] == [8 / 255, 8 / 255, 0.5, 0.25, 0.0]


def test_a_layer_has_no_robust_accuracy() -> None:
    some = rows({}, layer="hidden1")
    assert summarise_distortions(some)[0]["robust"] is None
    with pytest.raises(UserError, match="a layer was distorted"):
        robust_accuracy(some, 1)


def test_further_eps_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task, run = linear_task(tmp_path), str(tmp_path / "run")
    command = ["distort", "--basket", str(task.basket), "--data", task.data, "--split", "train", "--images", "5"]
    command += ["--source", "A", "--workers", "1", "--out", run, "--no-lattice", "--method", "closest,fmn?steps=30"]
    assert cli.run([*command, "--eps", "12/255", "--eps", "3", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)["sources"]
    assert [line["text"] for line in row["robust"]["at"]] == ["12/255", "0.25", "0.5", "1.0", "3"]
    assert row["method"] == "closest+fmn?steps=30"
    assert set(row["nearest"]) <= {"closest", "fmn?steps=30"}
    assert cli.run([*command, "--eps", "0.125"]) == 0, "a run that is finished tells other distances"
    said = capsys.readouterr().out
    assert "Robust accuracy, l2" in said
    assert " 0.125 " in said
    assert "12/255" not in said
    assert "An upper bound" in said
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert 'data-eps="0.125"' in page
    assert cli.run([*command, "--eps", "8/"]) == 2
    assert "eps is '8/'" in capsys.readouterr().err
    config = tmp_path / "run" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text("utf-8")) | {"eps": ["x", 3]}), "utf-8")
    assert len(summarise_distortions(run)[0]["robust"]["at"]) == 3, "what stands there may be anybody's"
    assert cli.run(["replay", run]) == 0


def far_off(model: Model, images: Tensor, labels: Tensor, **more: Any) -> Nearest:
    """What `closest` finds, and twice as far."""
    made = closest(model, images, labels, **more)
    return Nearest((2 * made.images - images).clamp(0, 1), made.found, made.invalid, made.forwards, made.backwards)


def liar(_: Model, images: Tensor, labels: Tensor, **__: Any) -> Nearest:
    """Nothing was changed, and it is called a success."""
    yes = torch.ones_like(labels, dtype=torch.bool)
    return Nearest(images.clone(), yes, ~yes, torch.ones_like(labels), torch.zeros_like(labels))


def broken(_: Model, images: Tensor, labels: Tensor, **__: Any) -> Nearest:
    yes = torch.ones_like(labels, dtype=torch.bool)
    return Nearest(images * torch.nan, ~yes, yes, torch.ones_like(labels), torch.ones_like(labels))


def test_of_several_methods_the_nearest_is_kept(basket: Basket, data: Dataset) -> None:
    few = HOW | {"images": 5, "target": "any", "lattice": True}
    alone = foible.distort(basket, data, **few)
    for methods in ([far_off, closest], [liar, broken, "closest", far_off]):
        found = foible.distort(basket, data, **few, method=methods)
        assert found.column("outcome") == ["found"] * 5
        assert found.column("distance_exact") == pytest.approx(alone.column("distance_exact"), rel=1e-6)
        assert found.column("method") == ["closest"] * 5
        assert all(
            many > 1.2 * one for many, one in zip(found.column("forwards"), alone.column("forwards"), strict=True)
        )
    assert alone.column("method") == [None] * 5
    nothing = foible.distort(basket, data, **few, method=[liar, broken])
    assert nothing.column("method") == [None] * 5
    assert "found" not in nothing.column("outcome")


def test_each_row_says_which_was_nearest(basket: Basket, data: Dataset) -> None:
    ours, theirs = (
        foible.distort(basket, data, **HOW, method=one, target="any") for one in ("apgd?steps=4", "fmn?steps=9")
    )
    both = foible.distort(basket, data, **HOW, method="apgd?steps=4,fmn?steps=9", target="any")
    for row, one, other in zip(both, ours, theirs, strict=True):
        assert row["distance_exact"] == pytest.approx(min(one["distance_exact"], other["distance_exact"]), rel=1e-5)
        nearer = "fmn?steps=9" if other["distance_exact"] < one["distance_exact"] else "apgd?steps=4"
        assert row["method"] == nearer
    [told] = summarise_distortions(both)
    assert told["nearest"] == Counter(row["method"] for row in both if row["outcome"] == "found")


def test_names_of_methods(tmp_path: Path, basket: Basket, data: Dataset) -> None:
    assert read_method("closest,fmn?steps=200") == "closest+fmn?steps=200"
    assert read_method([closest, partial(fmn, steps=20), "lbfgs"]) == "closest+fmn?steps=20+lbfgs"
    assert read_method([closest, liar]) == "object:closest+liar"
    assert names_of("object:closest+liar") == ["closest", "liar"]
    odd = tmp_path / "a,b+c"
    odd.mkdir()
    (odd / "mine.py").write_text("from foible.search.nearest.fmn import fmn as mine\n")
    found = foible.distort(basket, data, **HOW | {"images": 2}, method=f"fmn,{odd / 'mine.py'}:mine?steps=9")
    assert set(found.column("method")) <= {"fmn", "mine.py:mine?steps=9"}
    for wrong, said in (("closest,", "empty part"), ("closest,fnm", "did you mean 'fmn'"), ([], "an empty list")):
        with pytest.raises(UserError, match=said):
            foible.distort(basket, data, **HOW, method=wrong)
    with pytest.raises(UserError, match="the method 'lbfgs' knows l2 alone"):
        foible.distort(basket, data, **HOW, method="fmn,lbfgs", norm="linf")
    with pytest.raises(UserError, match="norm is a setting of `foible distort`"):
        foible.distort(basket, data, **HOW, method="closest,fmn?norm=linf")
