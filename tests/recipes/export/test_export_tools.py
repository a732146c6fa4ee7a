"""`--to label-studio` and `--to fiftyone`: the layouts that those tools read, with and without the tools."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_run import CLASSES, FOUND, ROWS, picture, row, table_of
from PIL import Image

from foible.errors import UserError
from foible.findings import Findings
from foible.recipes.export import export

URL = "/data/local-files/?d="


def _pixels(file: Path | bytes) -> np.ndarray:
    with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
        return np.asarray(image).transpose(2, 0, 1)


def _choices(folder: Path) -> list[str]:
    root = ElementTree.fromstring((folder / "label_config.xml").read_bytes())
    choices = root.find("Choices")
    assert root.tag == "View"
    assert choices is not None
    assert choices.get("toName") == root.find("Image").get("name")  # type: ignore[union-attr]
    assert root.find("Image").get("value") == "$image"  # type: ignore[union-attr]
    return [choice.attrib["value"] for choice in choices]


def _tasks(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "tasks.json").read_text("utf-8")))


def test_label_studio_tasks_show_the_image_and_no_answer(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert export(made, "label-studio", out) == len(FOUND)
    tasks = _tasks(out)
    for task, stored in zip(tasks, FOUND, strict=True):
        assert list(task) == ["data"]
        assert set(task["data"]) == {"image", "finding"}  # neither truth nor answers, nor a file in a class's folder
        assert task["data"]["finding"] == stored["id"]
        assert task["data"]["image"].startswith(f"{URL}images/")
        assert np.array_equal(_pixels(out / task["data"]["image"].removeprefix(URL)), picture(stored["lane"]))
    said = (out / "README.txt").read_text()
    for name in ("LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true", "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT", "images/"):
        assert name in said


def test_label_studio_choices_are_the_classes(made: Path, tmp_path: Path) -> None:
    export(made, "label-studio", tmp_path / "out")
    choices = _choices(tmp_path / "out")
    assert choices[:4] == list(CLASSES[:4])
    assert choices[4].startswith("\ufffd[2J-")  # XML cannot hold the control character
    many = Findings(table_of(ROWS[:1])).table
    names = json.dumps([f"c{k}" for k in range(1000)])
    metadata = {**many.schema.metadata, b"foible.classes": names.encode()}
    export(Findings(many.replace_schema_metadata(metadata)), "label-studio", tmp_path / "many")
    assert len(_choices(tmp_path / "many")) == 1000
    assert 'layout="select"' in (tmp_path / "many" / "label_config.xml").read_text()


def test_label_studio_predictions_only_when_asked(made: Path, tmp_path: Path) -> None:
    export(made, "label-studio", tmp_path / "out", predictions=True, everything=True)
    choices = _choices(tmp_path / "out")
    for task, stored in zip(_tasks(tmp_path / "out"), ROWS, strict=True):
        wanted = {"peers": stored["consensus"], stored["suspect"]: stored["said"]}
        wanted = {who: choices[k] for who, k in wanted.items() if k is not None}
        found = {}
        for prediction in task["predictions"]:
            (result,) = prediction["result"]
            assert (result["from_name"], result["to_name"], result["type"]) == ("label", "image", "choices")
            (found[prediction["model_version"]],) = result["value"]["choices"]
            if stored["outcome"] != "invalid":
                assert prediction["score"] == pytest.approx(0.65 if prediction["model_version"] == "peers" else 0.8)
        assert found == wanted
    with pytest.raises(UserError, match="predictions are for label-studio"):
        export(made, "csv", tmp_path / "x", predictions=True)


def test_label_studio_accepts_them(made: Path, tmp_path: Path) -> None:
    """Label Studio's own checks of a configuration, a task and a prediction."""
    interface = pytest.importorskip("label_studio_sdk.label_interface")
    export(made, "label-studio", tmp_path / "out", predictions=True)
    page = interface.LabelInterface((tmp_path / "out" / "label_config.xml").read_text("utf-8"))
    page.validate()
    assert page.get_control("label").labels == _choices(tmp_path / "out")
    for task in _tasks(tmp_path / "out"):
        assert page.validate_task({"data": task["data"]})
        for prediction in task["predictions"]:
            assert page.validate_prediction(prediction, return_errors=True) == []


def test_fiftyone_layout(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert export(made, "fiftyone", out) == len(FOUND)
    record = json.loads((out / "labels.json").read_text("utf-8"))
    assert record["classes"] == list(CLASSES)
    assert {file.stem for file in (out / "data").iterdir()} == set(record["labels"])
    for stem, stored in zip(record["labels"], FOUND, strict=True):
        assert np.array_equal(_pixels(out / "data" / f"{stem}.png"), picture(stored["lane"]))
        label = record["labels"][stem]
        truth = stored["consensus"] if stored["truth"] is None else stored["truth"]
        if truth is None:
            assert label is None
            continue
        assert label["label"] == truth
        assert label["attributes"]["finding"] == stored["id"]
        assert label["attributes"]["said"] == CLASSES[stored["said"]]
        assert label["attributes"]["tags"] == (stored["tags"] or [])
        assert "id" not in label["attributes"]


def test_fiftyone_imports_it(made: Path, tmp_path: Path) -> None:
    """FiftyOne's importer of the layout, without its database."""
    importers = pytest.importorskip("fiftyone.utils.data.importers")
    export(made, "fiftyone", tmp_path / "out")
    importer = importers.FiftyOneImageClassificationDatasetImporter(str(tmp_path / "out"))
    with importer:
        samples = {Path(path).stem: (path, label) for path, _, label in importer}
        assert importer.get_dataset_info()["classes"] == list(CLASSES)
    assert len(samples) == len(FOUND)
    for stored in FOUND:
        path, label = samples[stored["id"]]
        assert np.array_equal(_pixels(Path(path)), picture(stored["lane"]))
        truth = stored["consensus"] if stored["truth"] is None else stored["truth"]
        if truth is None:
            assert label is None
        else:
            assert label.label == CLASSES[truth]
            assert (label.said, label.suspect) == (CLASSES[stored["said"]], stored["suspect"])
            assert list(label.tags) == (stored["tags"] or [])


def test_no_image_is_lost_where_ids_meet(tmp_path: Path) -> None:
    """Findings of two runs in one table may share ids, and on some disks `A` and `a` are one name."""
    rows = [row(0, 0, 1, 0), row(1, 0, 1, 0, id="new-000000"), row(2, 0, 1, 0, id="NEW-000000")]
    for to, folder in (("fiftyone", "data"), ("label-studio", "images"), ("hf", "train"), ("folder", "NA")):
        export(Findings(table_of(rows)), to, tmp_path / to)
        homes = list((tmp_path / to).glob(f"{folder}*/*.png"))
        assert sorted(_pixels(file).tobytes() for file in homes) == sorted(picture(k).tobytes() for k in range(3)), to
        assert len({file.name.lower() for file in homes}) == 3
