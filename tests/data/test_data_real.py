"""Known answers on the real data sets, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from foible import data
from foible.data.catalogue import KNOWN
from foible.data.download import _is

pytestmark = pytest.mark.usefixtures("real_data")


def need(name: str) -> None:
    if KNOWN[name].find() is None:
        pytest.skip(f"{name} is not in FOIBLE_DATA")


def test_mnist() -> None:
    need("mnist")
    train, test = data.load("mnist"), data.load("mnist", "test")
    assert (train.images.shape, test.images.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
    assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert torch.bincount(train.labels).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]
    assert float(train.images[:1000].float().mean()) == pytest.approx(33, abs=2)
    assert float(train.images.double().mean() / 255) == pytest.approx(0.1307, abs=1e-4)  # the mean in common use


def test_the_checksums_are_those_of_the_real_files() -> None:
    for name in ("mnist", "fashion-mnist", "usps"):
        folder = KNOWN[name].find()
        for file, digest in KNOWN[name].files if folder else ():
            assert folder is not None
            assert not (folder / file).exists() or _is(folder / file, digest)


def test_cifar10() -> None:
    need("cifar10")
    test = data.load("cifar10", "test", quiet=True)
    assert test.images.shape == (10_000, 3, 32, 32)
    assert torch.bincount(test.labels).tolist() == [1000] * 10
    assert [test.classes[k] for k in test.labels[:4]] == ["cat", "ship", "ship", "airplane"]
    assert (len(test.problems), test.classes[1]) == (0, "automobile")


def test_usps() -> None:
    need("usps")
    train, test = data.load("usps"), data.load("usps", "test")
    assert torch.bincount(train.labels).tolist() == [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert torch.bincount(test.labels).tolist() == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]


def test_smiles(real_data: Path) -> None:
    if not (real_data / "smiles").is_dir():
        pytest.skip("no smiles")
    test = data.load("parquet:smiles", "test")
    assert test.images.shape == (1974, 1, 64, 64)
    assert test.classes == ("0", "1")


def test_photos(real_data: Path) -> None:
    if not (real_data / "photos").is_dir():
        pytest.skip("no photos")
    photos = data.load("folder:photos?size=64")
    assert photos.images.shape == (80, 3, 64, 64)
    assert len(photos.classes) == 80
    assert photos.classes[0] == "African_chameleon"
    assert photos.problems == ()
