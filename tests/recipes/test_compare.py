"""Compare on networks whose every answer is known: an image's first pixel is its number, a network a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from foible import Basket, Findings, UserError
from foible.data import Dataset
from foible.recipes.compare.answers import read_answers
from foible.recipes.compare.recipe import compare
from foible.statistics import mcnemar

CLASSES = ("ant", "bee", "cow")
NAN = -1


class Table(nn.Module):
    """Says `said[k]` of the image whose first pixel is k."""

    def __init__(self, said: list[int]) -> None:
        super().__init__()
        self.said: Tensor
        self.register_buffer("said", torch.tensor(said))

    def forward(self, images: Tensor) -> Tensor:
        said = self.said[(images[:, 0, 0, 0] * 255).round().long()]
        logits = nn.functional.one_hot(said.clamp_min(0), 3) * 4.0
        return torch.where((said < 0)[:, None], torch.nan, logits)


#         0  1  2  3  4  5  6    7
LABELS = [0, 0, 1, 1, 2, 2, 0, 1]
OLD = [0, 0, 1, 0, 1, 0, 0, 1]
NEW = [0, 1, 1, 1, 1, 0, NAN, 0]
PEER = [0, 0, 2, 1, 1, 1, 0, 1]


def data(labels: list[int] = LABELS, classes: tuple[str, ...] = CLASSES) -> Dataset:
    images = torch.arange(len(labels), dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 4).clone()
    return Dataset("numbers", "test", images, torch.tensor(labels), classes)


def basket(*names: str, **more: Any) -> Basket:
    tables = {"old": OLD, "new": NEW, "peer": PEER}
    options: dict[str, Any] = {"classes": CLASSES, "preprocess": "inside"} | more
    return Basket({name: Table(tables[name]) for name in names}, **options)


def test_every_figure_of_a_small_comparison(tmp_path: Path) -> None:
    summary = compare(basket("old", "new"), data(), out=tmp_path / "run", quiet=True)
    flips = summary["flips"]
    assert (flips["both_right"], flips["fixed"], flips["broken"], flips["both_wrong"]) == (2, 1, 3, 2)
    assert flips["negative_flip_rate"]["share"] == 3 / 8
    assert flips["difference"]["points"] == pytest.approx(100 * (1 - 3) / 8)
    assert flips["difference"]["low"] < flips["difference"]["points"] < flips["difference"]["high"]
    assert flips["mcnemar_p"] == mcnemar(3, 1)
    assert [(row["network"], row["right"], row["n"]) for row in summary["accuracy"]] == [("old", 5, 8), ("new", 3, 8)]
    assert summary["doubtful"] == 2  # images 4 and 5: both say the same, and the label says otherwise
    ant = summary["per_class"][0]
    assert (ant["class"], ant["n"], ant["broken"], ant["fixed"]) == ("ant", 3, 2, 0)
    assert json.loads((tmp_path / "run" / "compare.json").read_text("utf-8")) == summary


def test_findings_have_an_empty_path_and_the_right_tags(tmp_path: Path) -> None:
    compare(basket("old", "peer", "new"), data(), out=tmp_path / "run", quiet=True)
    found = Findings.open(tmp_path / "run")
    got = {(row["origin_index"], row["suspect"]): (row["outcome"], row["tags"]) for row in found}
    assert got == {
        (1, "new"): ("found", ["broken", "dissent"]),
        (2, "peer"): ("found", ["dissent"]),
        (3, "old"): ("found", ["fixed", "dissent"]),
        (4, "new"): ("doubtful", ["against-label"]),
        (6, "new"): ("invalid", ["broken", "dissent"]),
        (7, "new"): ("found", ["broken", "dissent"]),
    }
    row = found.get("new-000001")
    assert row["networks"] == ["new", "old", "peer"]
    assert (row["truth"], row["said"], row["consensus"]) == (0, 1, 0)
    assert (row["path"], row["moves"], row["origin"]) == ([], 0, row["image"])
    assert found.images()[0].flatten()[0] == found.column("origin_index")[0]
    assert row["before"][0][1] == pytest.approx(torch.tensor([0.0, 4.0, 0.0]).softmax(0)[1].item())


def test_every_answer_is_kept(tmp_path: Path) -> None:
    compare(basket("old", "new"), data(), out=tmp_path / "run", unit=3, quiet=True)
    parts = list(read_answers(tmp_path / "run"))
    assert len(parts) == 3
    assert torch.cat([said for said, _ in parts], 1).tolist() == [OLD, NEW]
    assert torch.cat([labels for _, labels in parts]).tolist() == LABELS


def test_units_and_resuming_change_nothing(tmp_path: Path) -> None:
    whole = compare(basket("old", "new"), data(), out=tmp_path / "a", quiet=True)
    compare(basket("old", "new"), data(), out=tmp_path / "b", unit=3, quiet=True)
    for file in (sorted((tmp_path / "b" / "shards").iterdir())[1], tmp_path / "b" / "compare.json"):
        file.unlink()
    again = compare(basket("old", "new"), data(), out=tmp_path / "b", unit=4, quiet=True)
    assert whole == again
    one, other = (Findings.open(tmp_path / name).table.to_pylist() for name in "ab")
    assert repr(one) == repr(other)  # in which NaN is itself
    with pytest.raises(UserError, match="other settings"):
        compare(basket("old", "new"), data(), out=tmp_path / "b", unlabelled=True, quiet=True)


def test_without_labels_the_consensus_stands_in(tmp_path: Path) -> None:
    summary = compare(basket("old", "peer", "new"), data(), out=tmp_path / "run", unlabelled=True, quiet=True)
    assert summary["accuracy"] is None
    assert summary["consensus"]["agree"] == 2  # images 0 and 4
    rows = {row["origin_index"]: row for row in Findings.open(tmp_path / "run")}
    assert set(rows) == {1, 2, 3, 5, 6, 7}
    assert (rows[5]["suspect"], rows[5]["truth"], rows[5]["consensus"], rows[5]["said"]) == ("peer", None, 0, 1)


def test_classes_meet_by_name(tmp_path: Path) -> None:
    """Data in another order, a network that knows one class more, and a class of the data that nobody knows."""
    turned = tuple(reversed(CLASSES))
    same = compare(
        basket("old", "new"), data([2 - label for label in LABELS], turned), out=tmp_path / "turned", quiet=True
    )
    straight = compare(basket("old", "new"), data(), out=tmp_path / "straight", quiet=True)
    assert same["flips"] == straight["flips"]
    more = data([*LABELS, 3], (*CLASSES, "dodo"))
    fewer = compare(basket("old", "new"), more, out=tmp_path / "more", quiet=True)
    assert fewer["flips"] == straight["flips"]
    assert fewer["left_out"] == 1
    assert "dodo" in fewer["notes"][0]


def test_networks_with_other_lists_run_on_the_shared_classes(tmp_path: Path) -> None:
    lists = {"old": CLASSES, "new": ("bee", "ant", "dodo")}  # new's 0 is a bee, its 1 an ant
    summary = compare(basket("old", "new", classes=lists), data(), out=tmp_path / "run", quiet=True)
    assert summary["classes"] == ["ant", "bee"]
    assert any("dodo" in note for note in summary["notes"])
    assert any("cow" in note for note in summary["notes"])
    assert summary["images"] == 6  # the two cows are left out
    said = torch.cat([said for said, _ in read_answers(tmp_path / "run")], 1)
    assert said[1].tolist() == [1, 0, 0, 0, NAN, 1]


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        (("old",), {}, "at least two"),
        (("old", "new"), {"new": "nwe"}, "did you mean 'new'"),
        (("old", "new"), {"old": "new"}, "both 'new'"),
        (("old", "new"), {"nwe": 1}, "no option 'nwe'"),
        (("old", "new"), {"canvas": "wide"}, "canvas is 'wide'"),
        (("old", "new"), {"unit": 0}, "unit is 0"),
    ],
)
def test_wrong_input(names: tuple[str, ...], options: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        compare(basket(*names), data(), out=tmp_path / "run", quiet=True, **options)
    assert not (tmp_path / "run").exists()


def test_labels_that_match_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no class of the data"):
        compare(basket("old", "new"), data(classes=("x", "y", "z")), out=tmp_path / "run", quiet=True)


def test_the_run_says_what_it_is_made_of(tmp_path: Path) -> None:
    compare(basket("old", "new"), data(), out=tmp_path / "run", quiet=True)
    settings = json.loads((tmp_path / "run" / "config.json").read_text("utf-8"))["settings"]
    assert settings["recipe"] == "compare"
    metadata = pq.read_schema(next((tmp_path / "run" / "shards").iterdir())).metadata
    assert json.loads(metadata[b"foible.classes"]) == list(CLASSES)
