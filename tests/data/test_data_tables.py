"""`parquet:` and `npz:` on small files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_files import picture, write_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from foible import data
from foible.errors import UserError

REDS = [picture((k, 0, 0)) for k in range(6)]


def reds(got: data.Dataset) -> list[int]:
    return got.images[:, 0, 0, 0].tolist()


def test_parquet_splits_by_file_name_and_numbers_classes_over_both(home: Path) -> None:
    write_parquet(home / "set" / "data" / "train-00000-of-00002.parquet", REDS[:2], [0, 1])
    write_parquet(home / "set" / "data" / "train-00001-of-00002.parquet", REDS[2:4], [1, 0])
    write_parquet(home / "set" / "data" / "test-00000-of-00001.parquet", REDS[4:5], [2])
    train, test = data.load("parquet:set"), data.load("parquet:set", "test")
    assert (reds(train), train.labels.tolist()) == ([0, 1, 2, 3], [0, 1, 1, 0])
    assert (reds(test), test.labels.tolist()) == ([4], [2])
    assert train.classes == test.classes == ("0", "1", "2")


def test_parquet_text_labels(home: Path) -> None:
    path = write_parquet(home / "one.parquet", REDS[:3], ["dog", "cat", "dog"], column="img")
    got = data.load(f"parquet:{path}")
    assert got.classes == ("cat", "dog")
    assert got.labels.tolist() == [1, 0, 1]


def test_parquet_class_names_from_the_schema(home: Path) -> None:
    note = {"info": {"features": {"label": {"names": ["cat", "dog", "</script>"], "_type": "ClassLabel"}}}}
    path = write_parquet(home / "one.parquet", REDS[:2], [0, 1], metadata={"huggingface": json.dumps(note)})
    assert data.load(f"parquet:{path}").classes == ("cat", "dog", "</script>")
    write_parquet(path, REDS[:2], [0, 3], metadata={"huggingface": json.dumps(note)})
    with pytest.raises(UserError, match=r"one\.parquet: row 1 .*label 3: expected 0 to 2"):
        data.load(f"parquet:{path}")


@pytest.mark.parametrize("note", ["{", "[]", '{"info": null}', '{"info": {"features": {"label": {"names": [1, 2]}}}}'])
def test_a_strange_note_in_the_schema_is_passed_over(home: Path, note: str) -> None:
    path = write_parquet(home / "one.parquet", REDS[:2], [0, 1], metadata={"huggingface": note})
    assert data.load(f"parquet:{path}").classes == ("0", "1")


def test_parquet_binary_column_and_named_columns(home: Path) -> None:
    table = pa.table({"photo": REDS[:2], "kind": [1, 0], "image_id": [5, 6]})
    pq.write_table(table, home / "one.parquet")
    with pytest.raises(UserError, match="has the columns photo, kind, image_id: expected image or img"):
        data.load("parquet:one.parquet")
    assert data.load("parquet:one.parquet?image=photo&label=kind").labels.tolist() == [1, 0]
    with pytest.raises(UserError, match="did you mean 'photo'"):
        data.load("parquet:one.parquet?image=phot&label=kind")
    with pytest.raises(UserError, match="'image_id' is int64: expected binary"):
        data.load("parquet:one.parquet?image=image_id&label=kind")
    with pytest.raises(UserError, match="'photo' is binary: expected whole numbers or text"):
        data.load("parquet:one.parquet?image=photo&label=photo")


def test_bad_rows_of_parquet_are_listed_and_paths_are_never_opened(home: Path, tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere.png"
    secret.write_bytes(picture())
    images: list[Any] = [REDS[0], b"junk", None, {"bytes": None, "path": str(secret)}, REDS[4], REDS[5]]
    path = write_parquet(home / "one.parquet", images, [0, 1, 0, 1, None, 1])
    got = data.load(f"parquet:{path}")
    assert (reds(got), got.labels.tolist()) == ([0, 5], [0, 1])
    rows = sorted(int(line.split("row ")[1].split(":")[0]) for line in got.problems)
    assert rows == [1, 2, 3, 4]


def test_parquet_hold_out(home: Path) -> None:
    path = write_parquet(home / "one.parquet", REDS, [0, 0, 0, 1, 1, 1])
    with pytest.raises(UserError, match="no test split"):
        data.load(f"parquet:{path}", "test")
    assert reds(data.load(f"parquet:{path}?test=1/3", "test")) == [2, 5]
    assert reds(data.load(f"parquet:{path}?test=1/3")) == [0, 1, 3, 4]


@pytest.mark.parametrize("label", [-1, 10**12, 2**63 - 1])
def test_parquet_label_out_of_range(home: Path, label: int) -> None:
    path = write_parquet(home / "one.parquet", REDS[:3], [0, 1, label])
    with pytest.raises(UserError, match=r"one\.parquet: row 2 .*expected 0 to"):
        data.load(f"parquet:{path}")


def test_parquet_that_is_broken_or_absent(home: Path) -> None:
    path = write_parquet(home / "one.parquet", REDS[:3], [0, 1, 0])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match=r"one\.parquet cannot be read as Parquet"):
        data.load(f"parquet:{path}")
    (home / "empty").mkdir()
    with pytest.raises(UserError, match=r"holds no \.parquet file"):
        data.load("parquet:empty")
    with pytest.raises(UserError, match=r"nothing at .*did you mean 'one\.parquet'"):
        data.load(f"parquet:{home / 'on.parquet'}")
    with pytest.raises(UserError, match="names no path: write parquet:PATH"):
        data.load("parquet")


def test_a_damaged_page_of_parquet_names_the_file(home: Path) -> None:
    path = write_parquet(home / "one.parquet", [picture(size=(50, 50), kind="BMP")] * 3, [0, 1, 0])
    body = bytearray(path.read_bytes())
    body[8:60] = b"\xff" * 52
    path.write_bytes(body)
    with pytest.raises(UserError, match=r"one\.parquet"):
        data.load(f"parquet:{path}")


def test_parquet_with_one_class(home: Path) -> None:
    path = write_parquet(home / "one.parquet", REDS[:3], [0, 0, 0])
    with pytest.raises(UserError, match="one class, '0'"):
        data.load(f"parquet:{path}")


def save(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return f"npz:{path}"


IMAGES = np.arange(2 * 3 * 5 * 4, dtype=np.uint8).reshape(2, 3, 5, 4)


@pytest.mark.parametrize("images", [IMAGES, IMAGES.transpose(0, 2, 3, 1)])
def test_npz_channels_first_or_last(tmp_path: Path, images: np.ndarray) -> None:
    got = data.load(save(tmp_path / "a.npz", images=images, labels=[0, 1]))
    assert np.array_equal(got.images.numpy(), IMAGES)


def test_npz_that_could_be_either_must_be_told(tmp_path: Path) -> None:
    images = np.arange(2 * 3 * 5 * 3, dtype=np.uint8).reshape(2, 3, 5, 3)
    spec = save(tmp_path / "a.npz", images=images, labels=[0, 1])
    with pytest.raises(UserError, match=r"first or last: write npz:.*\?layout=NHWC"):
        data.load(spec)
    assert np.array_equal(data.load(spec + "?layout=NCHW").images.numpy(), images)
    assert np.array_equal(data.load(spec + "?layout=nhwc").images.numpy(), images.transpose(0, 3, 1, 2))


def test_npz_splits_and_class_names(tmp_path: Path) -> None:
    grey = IMAGES[:, 0]
    spec = save(tmp_path / "a.npz", x_train=grey, y_train=[[0], [1]], X_test=grey[:1], y_test=[2], classes=list("abc"))
    train, test = data.load(spec), data.load(spec, "test")
    assert train.images.shape == (2, 1, 5, 4)
    assert (train.labels.tolist(), test.labels.tolist()) == ([0, 1], [2])
    assert train.classes == ("a", "b", "c")
    with pytest.raises(UserError, match="leave out test="):
        data.load(spec + "?test=0.5")


def test_npz_text_labels_and_hold_out(tmp_path: Path) -> None:
    spec = save(tmp_path / "a.npz", images=np.concatenate([IMAGES, IMAGES]), labels=["b", "a", "b", "a"])
    assert data.load(spec).classes == ("a", "b")
    assert data.load(spec + "?test=0.5", "test").labels.tolist() == [1, 0]
    with pytest.raises(UserError, match="no test split"):
        data.load(spec, "test")


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([np.float16, np.float32, np.float64]), st.integers(0, 2**32 - 1))
def test_npz_floats_round_to_the_nearest_of_8_bits(
    tmp_path_factory: pytest.TempPathFactory, kind: type, seed: int
) -> None:
    exact = np.random.default_rng(seed).integers(0, 256, (2, 3, 5, 4), np.uint8)
    spec = save(tmp_path_factory.getbasetemp() / "f.npz", images=(exact / 255).astype(kind), labels=[0, 1])
    assert np.array_equal(data.load(spec).images.numpy(), exact)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (IMAGES.astype(np.float32), "from 0 to 119: expected floats in"),
        (IMAGES / 255 - 0.5, "expected floats in"),
        (np.full((2, 5, 4), np.nan), "without a finite number"),
        (IMAGES.astype(np.int64), "images are int64: expected uint8"),
        (IMAGES > 3, "images are bool"),
        (IMAGES.reshape(2, -1), "have the shape"),
        (np.zeros((2, 4, 5, 4), np.uint8), "expected 1 or 3 channels"),
        (np.zeros((3, 5, 4), np.uint8), "3 images and 2 labels"),
    ],
)
def test_npz_images_against_the_contract(tmp_path: Path, images: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        data.load(save(tmp_path / "a.npz", images=images, labels=[0, 1]))


@pytest.mark.parametrize(
    ("labels", "more", "message"),
    [
        ([0.0, 1.0], {}, "labels are float64"),
        ([[1, 0], [0, 1]], {}, "one-hot"),
        ([0, -1], {}, "row 1 .*label -1"),
        ([0, 10**9], {}, "row 1 .*label 1000000000"),
        ([0, 2], {"classes": ["a", "b"]}, "row 1 .*label 2: expected 0 to 1"),
        ([0, 0], {}, "one class"),
        ([0, 1], {"classes": ["a", "a"]}, "two classes called 'a'"),
        (["a", "c"], {"classes": ["a", "b"]}, "row 1 has the label 'c'"),
    ],
)
def test_npz_labels_against_the_contract(tmp_path: Path, labels: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        data.load(save(tmp_path / "a.npz", images=IMAGES, labels=labels, **more))


class Payload:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_npz_never_unpickles(tmp_path: Path) -> None:
    objects = np.empty(2, object)
    objects[0] = Payload(tmp_path / "ran")
    spec = save(tmp_path / "a.npz", images=IMAGES, labels=objects)
    with pytest.raises(UserError, match="pickled objects: refused"):
        data.load(spec)
    objects.dump(tmp_path / "b.npz")
    with pytest.raises(UserError, match="pickled objects: refused"):
        data.load(f"npz:{tmp_path / 'b.npz'}")
    assert not (tmp_path / "ran").exists()


def test_npz_that_is_none(tmp_path: Path) -> None:
    save(tmp_path / "a.npz", pictures=IMAGES, labels=[0, 1])
    with pytest.raises(UserError, match="holds the arrays pictures, labels: expected images and labels"):
        data.load(f"npz:{tmp_path / 'a.npz'}")
    whole = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "b.npz").write_bytes(whole[:-40])
    with pytest.raises(UserError, match=r"cannot be read as \.npz"):
        data.load(f"npz:{tmp_path / 'b.npz'}")
    np.save(tmp_path / "c.npy", IMAGES)
    with pytest.raises(UserError, match="is a single array"):
        data.load(f"npz:{tmp_path / 'c.npy'}")
