"""The data sets with names: digits, IDX files, CIFAR-10, USPS, on small files."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_files import grey, idx_bytes, picture, write_idx, write_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from foible import data
from foible.data import decoded, digits, pictures
from foible.data.catalogue import KNOWN
from foible.data.idx import read_idx
from foible.errors import UserError


def test_digits_have_the_margins_of_mnist_and_a_fixed_stratified_split() -> None:
    train, test = data.load("digits"), data.load("digits", "test")
    assert (len(train), len(test)) == (KNOWN["digits"].train, KNOWN["digits"].test)
    assert len(train) + len(test) == 1797
    assert train.images.shape[1:] == (1, 28, 28)
    assert train.images.dtype == torch.uint8
    border = train.images.clone()
    border[:, :, 3:25, 3:25] = 0
    assert int(border.sum()) == 0
    assert int(train.images.max()) == 255
    share = torch.bincount(test.labels) / (torch.bincount(train.labels) + torch.bincount(test.labels))
    assert torch.all((share - 0.2).abs() < 0.01)
    again = data.load("digits", "test")
    assert torch.equal(test.images, again.images)
    everything = torch.cat([train.images, test.images]).flatten(1)
    assert len(torch.unique(everything, dim=0)) == 1797  # the two splits share no image


def test_digits_keep_the_picture_of_the_8x8_originals() -> None:
    """Brought back to 8×8, the enlarged image is the original, a little softer and in the same place."""
    from sklearn.datasets import load_digits

    coarse = torch.from_numpy(load_digits().images).float() / 16
    labels = torch.from_numpy(load_digits().target)
    rows = torch.from_numpy(np.flatnonzero(labels == 0))[:4]  # the first four zeros are all in train
    train = data.load("digits")
    fine = train.floats(train.labels == 0)[:4, 0, 4:24, 4:24]
    back = torch.nn.functional.interpolate(fine[:, None], size=(8, 8), mode="area")[:, 0]
    for one, other in zip(back, coarse[rows], strict=True):
        assert float(torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]) > 0.95
        for axis in (0, 1):
            centres = [float((x.sum(axis) * torch.arange(8)).sum() / x.sum()) for x in (one, other)]
            assert centres[0] == pytest.approx(centres[1], abs=0.1)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_round_trip(home: Path, packed: bool, name: str) -> None:
    write_idx(home / name, grey(6), [0, 1, 2, 3, 4, 9], packed=packed)
    write_idx(home / name, grey(2), [7, 8], "t10k", packed=packed)
    train, test = data.load(name), data.load(name, "test")
    assert np.array_equal(train.images[:, 0].numpy(), grey(6))
    assert train.labels.tolist() == [0, 1, 2, 3, 4, 9]
    assert test.labels.tolist() == [7, 8]
    assert (train.name, train.split, test.split) == (name, "train", "test")
    assert train.classes[9] == {"mnist": "9", "fashion-mnist": "Ankle boot"}[name]
    assert torch.equal(train.floats(slice(0, 2)), train.images[:2].float() / 255)


def test_mnist_bare_in_foible_data_is_not_taken_for_fashion_mnist(home: Path) -> None:
    write_idx(home, grey(2), [0, 1])
    assert len(data.load("mnist")) == 2
    with pytest.raises(UserError, match="'fashion-mnist' was not found"):
        data.load("fashion-mnist")


def test_mnist_is_found_in_the_cache_folder(home: Path) -> None:
    write_idx(home.parent / "cache" / "foible" / "mnist", grey(2), [0, 1])
    assert len(data.load("mnist")) == 2


def break_idx(body: bytes, how: str) -> bytes:
    return {
        "magic": b"\0\0\x09" + body[3:],
        "count": body[:4] + struct.pack(">I", 7) + body[8:],
        "huge": body[:4] + b"\xff" * 12 + body[16:],
        "extra": body + b"x",
        "header": body[:9],
        "empty": b"",
    }[how]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("how", ["magic", "count", "huge", "extra", "header", "empty"])
def test_idx_header_must_agree_with_the_bytes(home: Path, how: str, packed: bool) -> None:
    write_idx(home / "mnist", grey(6), range(6))
    file = home / "mnist" / "train-images-idx3-ubyte.gz"
    body = break_idx(idx_bytes(grey(6)), how)
    file.write_bytes(gzip.compress(body) if packed else body)
    with pytest.raises(UserError, match="train-images-idx3-ubyte"):
        data.load("mnist")


@pytest.mark.parametrize("keep", [5, 30, -9, -4])
def test_truncated_gzip_names_the_file(home: Path, keep: int) -> None:
    write_idx(home / "mnist", grey(6), range(6))
    file = home / "mnist" / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte\.gz is cut short or damaged"):
        data.load("mnist")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_idx_of_any_bytes_is_read_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = idx_bytes(grey(3))
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    body = whole[:start] + data.draw(st.binary(max_size=20)) + whole[stop:]
    packed = bytearray(gzip.compress(body))
    for place in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=2)):
        packed[place] ^= data.draw(st.integers(0, 255))
    file = tmp_path_factory.getbasetemp() / "any-idx"
    file.write_bytes(packed)
    try:
        array = read_idx(file, 3)
    except UserError:
        return
    assert array.ndim == 3


def test_images_and_labels_must_match_in_number(home: Path) -> None:
    write_idx(home / "mnist", grey(6), range(5))
    with pytest.raises(UserError, match=r"6 images but .* 5 labels"):
        data.load("mnist")


def test_label_outside_the_range_names_row_and_range(home: Path) -> None:
    write_idx(home / "mnist", grey(4), [0, 1, 17, 2])
    with pytest.raises(UserError, match=r"row 2 .*label 17: expected 0 to 9"):
        data.load("mnist")


def test_missing_test_files_are_named(home: Path) -> None:
    write_idx(home / "mnist", grey(4), range(4))
    with pytest.raises(UserError, match="t10k-images-idx3-ubyte"):
        data.load("mnist", "test")


def cifar_batch(labels: list[int]) -> bytes:
    return b"".join(bytes([label]) + bytes(np.full(3072, 10 * label, np.uint8)) for label in labels)


@pytest.mark.parametrize("inner", ["cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"])
def test_cifar_binary_batches(home: Path, inner: str) -> None:
    folder = home / inner
    folder.mkdir(parents=True)
    for k in range(1, 6):
        (folder / f"data_batch_{k}.bin").write_bytes(cifar_batch([k, 0]))
    (folder / "test_batch.bin").write_bytes(cifar_batch([9]))
    train = data.load("cifar10")
    assert train.labels.tolist() == [1, 0, 2, 0, 3, 0, 4, 0, 5, 0]
    assert train.images.shape == (10, 3, 32, 32)
    assert train.images[4].unique().tolist() == [30]
    assert train.classes[:2] == ("airplane", "automobile")
    assert data.load("cifar10", "test").labels.tolist() == [9]
    (folder / "data_batch_3.bin").write_bytes(cifar_batch([3])[:-1])
    with pytest.raises(UserError, match=r"data_batch_3\.bin has 3072 bytes"):
        data.load("cifar10")
    (folder / "data_batch_3.bin").write_bytes(cifar_batch([3, 10]))
    with pytest.raises(UserError, match=r"data_batch_3\.bin: row 1 .*label 10"):
        data.load("cifar10")
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(UserError, match=r"data_batch_3\.bin cannot be opened"):
        data.load("cifar10")


def test_cifar_planes_are_red_green_blue(home: Path) -> None:
    folder = home / "cifar10"
    folder.mkdir()
    (folder / "test_batch.bin").write_bytes(b"\0" + b"\1" * 1024 + b"\2" * 1024 + b"\3" * 1024)
    assert data.load("cifar10", "test").images[0, :, 0, 0].tolist() == [1, 2, 3]


def test_cifar_parquet_keeps_the_official_class_names(home: Path) -> None:
    bodies = [picture((k, 0, 0), size=(32, 32), kind="WEBP", lossless=True) for k in (10, 20)]
    write_parquet(home / "cifar10" / "train-00000-of-00001.parquet", bodies, [0, 3], column="img")
    train = data.load("cifar10")
    assert train.classes == KNOWN["cifar10"].classes
    assert train.images[:, 0, 0, 0].tolist() == [10, 20]


def test_cifar_parquet_is_decoded_once(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded, "MANY", 2)
    calls: list[str] = []

    def gather(*given: Any) -> Any:
        calls.append("decoded")
        return pictures.gather(*given)

    monkeypatch.setattr(decoded, "gather", gather)
    file = home / "cifar10" / "train-00000-of-00001.parquet"

    def write(*reds: int) -> None:
        write_parquet(file, [picture((k, 0, 0), size=(32, 32), kind="PNG") for k in reds], [0, 3], column="img")

    def first() -> list[int]:
        train = data.load("cifar10")
        assert train.labels.tolist() == [0, 3]
        reds: list[int] = train.images[:, 0, 0, 0].tolist()
        train.images[:] = 7  # which is nobody else's matter
        return reds

    write(10, 20)
    assert first() == first() == [10, 20]
    assert len(calls) == 1
    write(30, 200)  # the cache is of other files now
    os.utime(file, ns=(1, 1))
    assert first() == first() == [30, 200]
    assert len(calls) == 2
    [kept] = tmp_path.rglob("cifar10-train-*.npy")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert first() == first() == [30, 200]
    assert len(calls) == 3


def test_cifar_pickles_are_refused_and_not_run(home: Path, tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    folder = home / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(pickle.dumps(Payload()))
    with pytest.raises(UserError, match=r"pickles: refused.*foible data get cifar10"):
        data.load("cifar10")
    assert not (tmp_path / "ran").exists()


def usps_row(label: float, value: float) -> str:
    return " ".join([f"{label:.4f}", *[f"{value:.4f}"] * 256]) + " \n"


def write_usps(home: Path, text: str) -> None:
    (home / "usps").mkdir(exist_ok=True)
    (home / "usps" / "zip.train.gz").write_bytes(gzip.compress(text.encode()))


def test_usps_values_become_pixels(home: Path) -> None:
    write_usps(home, usps_row(6, -1) + usps_row(0, 0) + usps_row(9, 1))
    train = data.load("usps")
    assert train.labels.tolist() == [6, 0, 9]
    assert train.images.shape == (3, 1, 16, 16)
    assert train.images[:, 0, 3, 3].tolist() == [0, 128, 255]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("6 0.5 x\n", "cannot be read"),
        ("6 0.5 0.5\n", "3 numbers a row"),
        (usps_row(6, 0) + "6 1\n", "cannot be read"),
        (usps_row(6, 0) + usps_row(6, 255), "row 1 is not"),
        (usps_row(6, 0) + usps_row(1, float("nan")), "row 1 is not"),
        (usps_row(6.5, 0), "row 0 is not"),
        (usps_row(6, 0) + usps_row(12, 0), "row 1 .*label 12: expected 0 to 9"),
    ],
)
def test_bad_usps_rows_are_named(home: Path, text: str, message: str) -> None:
    write_usps(home, text)
    with pytest.raises(UserError, match=rf"zip\.train\.gz.*{message}"):
        data.load("usps")


def test_truncated_usps(home: Path) -> None:
    write_usps(home, usps_row(6, 0.25))
    file = home / "usps" / "zip.train.gz"
    file.write_bytes(file.read_bytes()[:-6])
    with pytest.raises(UserError, match="cut short or damaged"):
        data.load("usps")


def test_digits_are_the_librarys_and_it_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; from foible.data.digits import _bundled; _bundled(); sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    coarse, labels = digits._bundled()
    monkeypatch.setattr(digits.importlib.util, "find_spec", lambda _: None)  # its file is somewhere else
    for one, other in zip((coarse, labels), digits._bundled(), strict=True):
        assert np.array_equal(one, other)
