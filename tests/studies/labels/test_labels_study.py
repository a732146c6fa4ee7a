"""`foible study labels`, tiny: planted wrong labels, and people who know the truth; and its parts by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from foible.data import load
from foible.errors import UserError
from foible.recipes.compare.against import BANDS
from foible.recipes.compare.ranked import ranked
from foible.studies import run_study
from foible.studies.labels.people import majority, read_people
from foible.studies.labels.rankings import OURS, auc, auc_intervals, first

TINY = {"networks": "softmax mlp:8 mlp:12", "epochs": "5"}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[int]]:
    """A folder with digits of which some test labels are wrong, and what fifty people say, who are never wrong; of
    three images with a wrong label they are divided."""
    folder, draw = tmp_path_factory.mktemp("planted"), np.random.default_rng(3)
    train, test = (load("digits", split, quiet=True) for split in ("train", "test"))
    truth = test.labels.numpy()
    flipped = draw.choice(len(truth), 16, replace=False)
    labels = truth.copy()
    labels[flipped] = (labels[flipped] + draw.integers(1, 10, len(flipped))) % 10
    np.savez(folder / "digits.npz", x_train=train.images.numpy(), y_train=train.labels.numpy(),
             x_test=test.images.numpy(), y_test=labels, classes=np.array(test.classes))  # fmt: skip
    people = 50 * np.eye(10, dtype=np.int64)[truth]
    people[flipped[:3]] = 5
    np.save(folder / "people.npy", people)
    return folder, set(flipped.tolist())


@pytest.fixture(scope="module")
def tiny(planted: tuple[Path, set[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, options = tmp_path_factory.mktemp("labels") / "out", TINY | {"people": str(planted[0] / "people.npy")}
    run_study("labels", data=f"npz:{planted[0] / 'digits.npz'}", out=out, device="cpu", quiet=True, options=options)
    return out


def test_people_side_with_the_networks_where_labels_were_planted(tiny: Path, planted: tuple[Path, set[int]]) -> None:
    result = json.loads((tiny / "result.json").read_text("utf-8"))
    rows = {(row["table"], row["quantity"]): row for row in result["rows"]}
    found, scores = ranked(next(tiny.glob("compare-*")))
    known, n = sum(index in planted[1] for index in found.index.tolist()), len(found.index)
    most = majority(np.load(planted[0] / "people.npy"))[found.index]
    wrong = int((most == found.said).sum())
    assert n > known > wrong > 8  # hard images, and divided people, are there too
    right = rows["All networks disagree with the label", "people side with the networks, %"]
    assert (right["n"], right["measured"]) == (n, pytest.approx(100 * wrong / n))
    assert right["low"] <= right["measured"] <= right["high"]
    bands = [row for (table, _), row in rows.items() if table.startswith("Bands")]
    assert [row["n"] for row in bands] == [int(((scores >= low) & (scores < high)).sum()) for low, high in
                                           ((6, np.inf), (3, 6), (-np.inf, 3))]  # fmt: skip
    tenths = [row for (table, _), row in rows.items() if table.startswith("Tenths")]
    for parts in (bands, tenths):
        assert sum(row["n"] for row in parts) == n
        assert sum(round((row["measured"] or 0) * row["n"] / 100) for row in parts) == wrong
    assert rows["Wrong labels above right ones: area under the ROC curve", OURS]["measured"] > 0.7
    for stem in ("shares", "rankings"):
        assert (tiny / f"{stem}.png").stat().st_size > 2000


def test_fewer_networks_list_more_images(tiny: Path) -> None:
    rows = json.loads((tiny / "result.json").read_text("utf-8"))["rows"]
    images = [
        row["measured"] for row in rows if row["table"].startswith("By the number") and "images" in row["quantity"]
    ]
    assert images == sorted(images, reverse=True)
    assert len(images) == 3


def test_one_network_and_no_people_are_refused(
    tiny: Path, planted: tuple[Path, set[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, people = str(tiny / "basket" / "softmax"), {"people": str(planted[0] / "people.npy")}
    with pytest.raises(UserError, match="'softmax' is one network"):
        run_study("labels", data="digits", basket=one, out=tmp_path / "one", quiet=True, options=people)
    monkeypatch.setenv("FOIBLE_DATA", str(tmp_path))
    with pytest.raises(UserError, match=r"there is no cifar10h-counts\.npy .* --set people="):
        run_study("labels", data="digits", basket=str(tiny / "basket"), out=tmp_path / "none", quiet=True)


def test_the_majority() -> None:
    counts = np.array([[1, 5, 2], [4, 4, 1], [0, 0, 0], [9, 0, 0]])
    assert majority(counts).tolist() == [1, -1, -1, 0]


def test_counts_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "counts.npy"
    for wrong, says in (
        (np.ones((3, 2), np.int64), r"has shape \(3, 2\): expected \(4, 2\)"),
        (np.ones((4, 2)), "holds float64"),
        (-np.ones((4, 2), np.int8), "less than 0"),
    ):
        np.save(file, wrong)
        with pytest.raises(UserError, match=says):
            read_people(str(file), torch.zeros(4), 2)
    np.save(file, np.array([[{}]], object), allow_pickle=True)
    with pytest.raises(UserError, match="is no NumPy array of numbers: put") as said:
        read_people(str(file), torch.zeros(1), 1)
    assert "pickle" not in str(said.value)
    with pytest.raises(UserError, match="cannot be read"):
        read_people(str(tmp_path / "nothing.npy"), torch.zeros(1), 1)


def test_people_who_saw_other_images_are_told_by_their_answers(tmp_path: Path) -> None:
    labels = torch.arange(60) % 3
    counts = np.eye(3, dtype=np.int64)[labels.numpy()] * 8 + 1
    file = str(tmp_path / "counts.npy")

    def read(given: np.ndarray) -> np.ndarray:
        np.save(file, given)
        return read_people(file, labels, 3)

    assert (read(counts) == counts).all()
    assert (read(counts * 0) == 0).all()  # nobody was asked
    confused = counts.copy()
    confused[:24] = counts[1:25]  # 24 of 60 images are called otherwise than they are labelled
    assert (read(confused) == confused).all()
    with pytest.raises(UserError, match=r"label of 0% of the images, and chance alone would give 33%"):
        read(counts[:, [1, 2, 0]])
    with pytest.raises(UserError, match="of other images"):
        read(counts[np.random.default_rng(0).permutation(60)])


def test_rankings_by_hand() -> None:
    wrong = np.array([True, False, True, False])
    values = np.array([3.0, 2.0, 1.0, 0.0])
    assert auc(values, wrong) == 0.75
    assert np.isnan(auc(values, np.ones(4, bool)))
    assert [first(values, wrong, count) for count in (1, 2, 3, 4)] == [1, 1, 2, 2]
    found = auc_intervals({OURS: values, "other": -values}, wrong, 0)
    assert found[OURS][2:] == (0, 0)
    assert found["other"][0] <= 0.25 <= found["other"][1]


def test_cifar10h_says_what_the_package_tells(real_data: Path) -> None:
    """The bands of the package hold as many images as the study's list; and CIFAR-10H is as its authors describe it."""
    file = real_data / "cifar10h" / "cifar10h-counts.npy"
    if not file.is_file():
        pytest.skip("there is no CIFAR-10H")
    counts = read_people("", load("cifar10", "test").labels, 10)
    assert (counts.sum(1) >= 47).all()
    assert (majority(counts) < 0).sum() == 3
    page = (Path(__file__).parents[3] / "docs" / "studies" / "labels" / "result.json").read_text("utf-8")
    rows = [row for row in json.loads(page)["rows"] if row["table"].startswith("Bands")]
    assert [row["n"] for row in rows] == [band.n for band in BANDS]
    assert [round(row["measured"] * row["n"] / 100) for row in rows] == [band.wrong for band in BANDS]
