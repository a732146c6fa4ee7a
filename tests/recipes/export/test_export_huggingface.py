"""`--to hf` and `--to parquet`, loaded with `datasets` itself and with Foible: same images, same labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_run import CLASSES, FOUND, ROWS, picture

import foible
from foible.errors import UserError
from foible.findings import Findings
from foible.recipes.export import export


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The package, kept from the network and from the user's cache."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    package = pytest.importorskip("datasets")
    monkeypatch.setattr(package.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    package.disable_progress_bars()
    yield package
    package.enable_progress_bars()


def _pixels(image: Any) -> np.ndarray:
    return np.asarray(image).transpose(2, 0, 1)


def _label(row: dict[str, Any]) -> str | None:
    index = row["consensus"] if row["truth"] is None else row["truth"]
    return None if index is None else CLASSES[index]


def _same(loaded: Any, rows: list[dict[str, Any]]) -> None:
    assert loaded["id"] == [row["id"] for row in rows]
    for got, row in zip(loaded, rows, strict=True):
        number = row["lane"]
        assert np.array_equal(_pixels(got["image"]), picture(number))
        if row["origin"] is None:
            assert got["origin"] is None
        else:
            assert np.array_equal(_pixels(got["origin"]), picture(0 if number == 0 else 100 + number))
        assert got["said"] == CLASSES[row["said"]]
        assert got["said_probability"] == pytest.approx(0.8)
        assert got["tags"] == " ".join(row["tags"] or [])
        assert got["origin_file"] == row["origin_file"]


def test_an_imagefolder_loads_with_the_same_images_and_labels(made: Path, tmp_path: Path, datasets: Any) -> None:
    out = tmp_path / "out"
    assert export(made, "hf", out) == len(FOUND)
    loaded = datasets.load_dataset("imagefolder", data_dir=str(out))
    assert list(loaded) == ["train"]
    assert isinstance(loaded["train"].features["image"], datasets.Image)
    assert isinstance(loaded["train"].features["origin"], datasets.Image)
    _same(loaded["train"], FOUND)
    assert loaded["train"]["label"] == [_label(row) for row in FOUND]
    counted = loaded["train"].filter(lambda row: row["label"] is not None).class_encode_column("label")
    assert set(counted.features["label"].names) == set(CLASSES)


def test_the_metadata_stands_in_the_split_folder(made: Path, tmp_path: Path, datasets: Any) -> None:
    export(made, "hf", tmp_path / "out", split="test")
    lines = (tmp_path / "out" / "test" / "metadata.jsonl").read_text("utf-8").splitlines()
    first = json.loads(lines[0])
    assert list(first)[:3] == ["file_name", "label", "origin_file_name"]
    assert first["origin_file_name"] == first["file_name"]  # nothing was changed: one copy is enough
    assert json.loads(lines[1])["origin_file_name"] == "origin/new-000001.png"
    loaded = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "out"))
    assert list(loaded) == ["test"]
    assert len(loaded["test"]) == len(FOUND)
    with pytest.raises(UserError, match="expected train, validation, test"):
        export(made, "hf", tmp_path / "other", split="../x")
    with pytest.raises(UserError, match="a split is for hf"):
        export(made, "csv", tmp_path / "other", split="test")


def test_parquet_has_images_and_class_labels(made: Path, tmp_path: Path, datasets: Any) -> None:
    file = tmp_path / "out.parquet"
    assert export(made, "parquet", file) == len(FOUND)
    loaded = datasets.load_dataset("parquet", data_files=str(file))["train"]
    assert isinstance(loaded.features["image"], datasets.Image)
    assert isinstance(loaded.features["origin"], datasets.Image)
    assert loaded.features["label"] == datasets.ClassLabel(names=list(CLASSES))
    _same(loaded, FOUND)
    named = [None if k is None else loaded.features["label"].int2str(k) for k in loaded["label"]]
    assert named == [_label(row) for row in FOUND]


def test_foible_reads_its_parquet_back(made: Path, tmp_path: Path) -> None:
    export(made, "parquet", tmp_path / "out.parquet")
    data = foible.load(f"parquet:{tmp_path / 'out.parquet'}")
    labelled = [row for row in FOUND if _label(row) is not None]
    assert data.classes == CLASSES
    assert [data.classes[int(k)] for k in data.labels] == [_label(row) for row in labelled]
    for image, row in zip(data.images, labelled, strict=True):
        assert np.array_equal(image.numpy(), picture(row["lane"]))


def test_foible_reads_its_imagefolder_back(made: Path, tmp_path: Path) -> None:
    export(made, "hf", tmp_path / "out")
    data = foible.load(f"folder:{tmp_path / 'out'}")
    labelled = [row for row in FOUND if _label(row) is not None]
    found = {image.numpy().tobytes(): data.classes[int(k)] for image, k in zip(data.images, data.labels, strict=True)}
    assert found == {picture(row["lane"]).tobytes(): _label(row) for row in labelled}  # and no origin among them


def test_images_are_the_stored_bytes(made: Path, tmp_path: Path) -> None:
    """Read without `datasets`: the layout that it documents."""
    export(made, "parquet", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    note = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert note["image"] == note["origin"] == {"_type": "Image"}
    assert note["label"] == {"names": list(CLASSES), "_type": "ClassLabel"}
    assert table["image"][1].as_py() == {"bytes": ROWS[1]["image"], "path": "new-000001.png"}


def test_findings_stay_findings(made: Path, tmp_path: Path) -> None:
    assert export(made, "findings", tmp_path / "all.parquet", everything=True) == len(ROWS)
    assert Findings.open(tmp_path / "all.parquet").column("id") == Findings.open(made).column("id")
    assert export(made, "findings", tmp_path / "some.parquet") == len(FOUND)
    assert Findings.open(tmp_path / "some.parquet").table.equals(Findings.open(made).filter(outcome="found").table)
