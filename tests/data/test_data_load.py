"""`load` itself, `Dataset`, and the list of what is available."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import grey, picture, write_folder, write_idx, write_parquet
from hypothesis import given
from hypothesis import strategies as st

from foible import data
from foible.data.dataset import hold_out
from foible.data.sources import LISTERS, LOADERS
from foible.errors import UserError


def make(**changes: object) -> data.Dataset:
    given = {
        "name": "mine",
        "split": "train",
        "images": torch.zeros(3, 1, 2, 2, dtype=torch.uint8),
        "labels": torch.tensor([0, 1, 1]),
        "classes": ("a", "b"),
    }
    return data.Dataset(**(given | changes))  # type: ignore[arg-type]


def test_a_dataset_is_handed_back_as_it_is() -> None:
    mine = make()
    assert data.load(mine) is mine
    assert len(mine) == 3
    assert mine.floats().dtype == torch.float32
    assert mine.floats(torch.tensor([0])).shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": torch.zeros(3, 1, 2, 2)}, "images are torch.float32"),
        ({"images": torch.zeros(3, 2, 2, dtype=torch.uint8)}, "images are"),
        ({"images": torch.zeros(3, 4, 2, 2, dtype=torch.uint8)}, "images are"),
        ({"labels": torch.tensor([0, 1])}, "labels are"),
        ({"labels": torch.tensor([0, 1, 1], dtype=torch.int32)}, "labels are"),
        ({"labels": torch.tensor([0, 1, 2])}, "row 2 .*label 2: expected 0 to 1"),
        ({"classes": ("a",)}, "one class, 'a'"),
        ({"classes": ("a", "a")}, "two classes called 'a'"),
        ({"split": "dev"}, "split is 'dev'"),
    ],
)
def test_a_wrong_dataset_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(**changes)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mnsit", "no data set called 'mnsit'; did you mean 'mnist'.*`foible data` lists"),
        ("MNIST", "did you mean 'mnist'"),
        ("cifar-10", "did you mean 'cifar10'"),
        ("", "no data set called ''"),
        ("photos/cats", "for a path write folder:photos/cats"),
        ("mnist", r"'mnist' was not found in .*home.*foible data get mnist.*digits"),
        ("cifar10", "foible data get cifar10"),
        ("usps", "foible data get usps"),
        ("mnist:here", "takes no path"),
        ("mnist?size=3", "no options"),
        ("digits?", "no options"),
        ("folder:", "names no path"),
        ("folder:nowhere", "nothing at nowhere"),
        ("npz:nowhere.npz", r"nothing at nowhere\.npz"),
        ("folder:x?size", "expected .key=value"),
    ],
)
def test_a_wrong_spec_says_what_exists(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        data.load(spec)


def test_a_wrong_split_is_refused() -> None:
    with pytest.raises(UserError, match="split is 'tets': expected 'train' or 'test'; did you mean 'test'"):
        data.load("digits", "tets")


@given(st.text(max_size=20))
def test_any_text_is_a_data_set_or_a_user_error(text: str) -> None:
    if text.partition("?")[0].partition(":")[0] in {**LOADERS, **LISTERS}:
        return
    with pytest.raises(UserError):
        data.load(text)


@given(
    st.lists(st.integers(0, 3), max_size=60),
    st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
)
def test_hold_out_takes_its_share_of_each_class(labels: list[int], share: Fraction) -> None:
    array = np.array(labels, np.int64)
    held = hold_out(array, share)
    for label in set(labels):
        assert held[array == label].sum() == int(share * labels.count(label))


def test_available_lists_what_is_known_and_what_was_found(home: Path) -> None:
    write_idx(home / "mnist", grey(2), [0, 1])
    write_folder(home / "pets", {"a/x.png": picture(), "b/x.png": picture()})
    write_parquet(home / "faces" / "train-0.parquet", [picture()], [0])
    np.savez(home / "own.npz", images=grey(2), labels=[0, 1])
    (home / "notes").mkdir()
    rows = {row.spec: row for row in data.available()}
    assert list(rows) == [
        "digits", "mnist", "fashion-mnist", "cifar10", "usps", "parquet:faces", "npz:own.npz", "folder:pets",
    ]  # fmt: skip
    assert rows["digits"].found == "bundled"
    assert rows["mnist"].found == str(home / "mnist")
    assert rows["usps"].found is None
    assert rows["usps"].how == "foible data get usps"
    assert len(data.load("npz:own.npz")) == 2
    assert len(data.load("folder:pets")) == 2


def test_available_without_any_folder(home: Path) -> None:
    home.rmdir()
    assert [row.found for row in data.available()] == ["bundled", None, None, None, None]
    with pytest.raises(UserError, match="which is not a folder"):
        data.load("mnist")


def test_a_path_without_its_form_is_told_which(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(home / "photos", {"cat/1.png": picture(), "dog/1.png": picture()})
    monkeypatch.chdir(home)
    with pytest.raises(UserError, match=r"there is such a file or folder here: write folder:photos$"):
        data.load("photos")
