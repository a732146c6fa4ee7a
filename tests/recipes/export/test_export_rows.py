"""Which rows are exported, what CSV says of them, and what is refused."""

from __future__ import annotations

import csv
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from made_run import CLASSES, FOUND, ROWS, row, table_of
from small_tasks import SPACE, linear_task

import foible
from foible import cli
from foible.data import Dataset, load
from foible.errors import UserError
from foible.findings import Findings
from foible.images import decode_png, encode_png
from foible.recipes.export import FORMATS, export
from foible.recipes.rank.recipe import rank
from foible.recipes.replay import replay
from foible.testing import linear_basket, linear_trials


def _csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


def _ids(folder: Path, run: Path, **options: object) -> list[str]:
    file = folder / f"{len(list(folder.iterdir()))}.csv"
    export(run, "csv", file, **options)  # type: ignore[arg-type]
    return [line["id"] for line in _csv(file)]


def test_found_rows_or_all_or_those_with_a_tag(made: Path, tmp_path: Path) -> None:
    assert _ids(tmp_path, made) == [one["id"] for one in FOUND]
    assert _ids(tmp_path, made, everything=True) == [one["id"] for one in ROWS]
    assert _ids(tmp_path, made, tags=["fixed"]) == ["test-000008"]
    assert _ids(tmp_path, made, tags=["fixed", "broken"]) == [one["id"] for one in ROWS[:9]]
    assert _ids(tmp_path, made, tags=["against-label"]) == ["new-000012"]  # doubtful, and asked for
    assert _ids(tmp_path, made, tags=["broken"], everything=True) == [
        one["id"] for one in ROWS if "broken" in (one["tags"] or [])
    ]


def test_a_tag_that_no_row_has_is_named(made: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="no finding tagged 'brokn': its tags are against-label, broken, dissent, fixed"
    ):
        export(made, "folder", tmp_path / "out", tags=["brokn"])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="its rows have no tags"):
        export(Findings(table_of(ROWS[13:])), "hf", tmp_path / "out", tags=["broken"])


def test_csv_quotes_text_and_leaves_numbers(made: Path, tmp_path: Path) -> None:
    export(made, "csv", tmp_path / "x.csv", everything=True)
    lines = _csv(tmp_path / "x.csv")
    assert [line["truth"] for line in lines[:5]] == ["NA", "'=1+1", *CLASSES[2:]]
    assert lines[8]["rotation °"] == "-7.5"
    assert lines[0]["rotation °"] == ""
    assert lines[8]["tags"] == "fixed dissent"
    assert lines[0]["origin_file"] == "cat/IMG 0.jpg"


KEPT = {
    "target": CLASSES[3], "distance": 0.75, "distance_exact": 0.5, "score": 0.125, "realism": -0.25, "size": 1.5,
    "kinds": "rotation shift", "label_from": "label", "least_forwards": 9,
}  # of row 8  # fmt: skip


def test_what_a_row_measures_is_in_every_export(made: Path, tmp_path: Path) -> None:
    for to in FORMATS[:-1]:
        export(made, to, tmp_path / to)
    lines = [_csv(tmp_path / to) for to in ("csv", "folder/findings.csv", "label-studio/findings.csv")]
    for line in (found[8] for found in lines):
        assert {name: line[name] for name in KEPT} == {name: str(value) for name, value in KEPT.items()}
        assert (line["rotation °"], line["least rotation °"]) == ("-7.5", "-2.5")
    hf = [json.loads(line) for line in (tmp_path / "hf/train/metadata.jsonl").read_text("utf-8").splitlines()]
    records = [hf, pq.read_table(tmp_path / "parquet").to_pylist()]
    records.append([one and one["attributes"] for one in _labels(tmp_path / "fiftyone").values()])
    for found in records:
        assert {name: found[8][name] for name in KEPT} == KEPT
        assert json.loads(found[8]["change"]) == {"rotation °": -7.5}
        assert json.loads(found[8]["least_change"]) == {"rotation °": -2.5}
        assert found[9].get("score") is None  # no number


def _labels(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "labels.json").read_text("utf-8"))["labels"])


def test_label_studio_keeps_beside_what_people_are_not_to_see(made: Path, tmp_path: Path) -> None:
    export(made, "label-studio", tmp_path / "out")
    tasks = json.loads((tmp_path / "out" / "tasks.json").read_text("utf-8"))
    lines = _csv(tmp_path / "out" / "findings.csv")
    assert [line["id"] for line in lines] == [task["data"]["finding"] for task in tasks]
    assert [f"/data/local-files/?d={line['file']}" for line in lines] == [task["data"]["image"] for task in tasks]


@pytest.fixture(scope="module")
def of_every_recipe(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Findings]:
    basket, folder = linear_basket(), tmp_path_factory.mktemp("compared") / "run"
    trials = linear_trials(basket, 30)
    data = Dataset("blobs", "test", trials.seeds, trials.aims, basket.classes)
    options: dict[str, Any] = {"quiet": True, "workers": 1}
    foible.compare(basket, data, out=folder, quiet=True)
    return {
        "hunt": foible.hunt(basket, data, trials=8, space=SPACE, patience=60, **options).filter(outcome="found"),
        "distort": foible.distort(basket, data, source="A", images=4, target="each", **options),
        "rank": rank(basket, data, labelled=True, **options),
        "compare": Findings.open(folder),
    }


@pytest.mark.parametrize("to", FORMATS)
def test_findings_of_every_recipe_are_exported(to: str, of_every_recipe: dict[str, Findings], tmp_path: Path) -> None:
    for name, findings in of_every_recipe.items():
        count = export(findings, to, tmp_path / name, everything=True)
        assert count == len(findings), name
    if to == "csv":
        for line, row in zip(_csv(tmp_path / "distort"), of_every_recipe["distort"], strict=True):
            assert line["target"] == str(row["target"])  # classes 0, 1, 2
            assert float(line["distance_exact"]) == pytest.approx(row["distance_exact"])
            assert float(line["rms before 8 bits"]) == pytest.approx(dict(row["change"])["rms before 8 bits"])


def test_trials_that_found_nothing_are_shown_again(tmp_path: Path) -> None:
    """Their rows keep no images: an export of all rows walks their paths."""
    task = linear_task(tmp_path)
    options: dict[str, Any] = {"trials": 30, "space": SPACE, "patience": 60, "peer_confidence": 0.4, "quiet": True}
    found = foible.hunt(task.basket, task.data, out=tmp_path / "run", suspect="A", workers=1, **options)
    nothing = found.filter(outcome="exhausted")
    assert 0 < len(nothing) < len(found)
    assert export(tmp_path / "run", "parquet", tmp_path / "out", everything=True) == len(found)
    shown = {row["id"]: row for row in pq.read_table(tmp_path / "out").to_pylist()}
    images = load(task.data, "train", quiet=True).images
    for again in replay(tmp_path / "run", nothing.column("id")):
        row = shown[again.id]
        assert torch.equal(decode_png(row["image"]["bytes"]), again.image)
        assert torch.equal(decode_png(row["origin"]["bytes"]), images[row["origin_index"]])


def test_a_folder_reads_back(made: Path, tmp_path: Path) -> None:
    assert export(made, "folder", tmp_path / "out") == len(FOUND)
    data = foible.load(f"folder:{tmp_path / 'out'}")
    assert len(data) == len(FOUND)
    assert len(data.classes) == 6  # and `unlabelled`
    for line in _csv(tmp_path / "out" / "findings.csv"):
        stored = next(one for one in FOUND if one["id"] == line["id"])
        assert (tmp_path / "out" / line["file"]).read_bytes() == stored["image"]


def test_flags_reach_the_exporter(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", str(made), "--to", "label-studio", "--out", str(tmp_path / "a"), "--tag", "fixed"]
    assert cli.run([*words, "--tag", "against-label", "--predictions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"written": 2, "out": str(tmp_path / "a")}
    assert "predictions" in json.loads((tmp_path / "a" / "tasks.json").read_text("utf-8"))[0]
    assert cli.run(["export", str(made), "--to", "hf", "--split", "validation", "--out", str(tmp_path / "b")]) == 0
    assert (tmp_path / "b" / "validation" / "metadata.jsonl").is_file()
    capsys.readouterr()
    assert cli.run(["export", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in FORMATS)


@pytest.mark.parametrize("to", FORMATS)
def test_nothing_is_overwritten_and_nothing_left_behind(made: Path, tmp_path: Path, to: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(UserError, match="exists already"):
        export(made, to, tmp_path / "full")
    assert export(made, to, tmp_path / "out") == len(FOUND)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "out"]
    broken = row(0, 0, 1, 0, image=None)
    if to not in ("findings", "csv"):
        with pytest.raises(UserError, match="'new-000000' has no image"):
            export(Findings(table_of([ROWS[1], broken])), to, tmp_path / "no")
        assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("to", FORMATS)
def test_an_empty_folder_may_be_the_target(made: Path, tmp_path: Path, to: str) -> None:
    (tmp_path / "out").mkdir()
    assert export(made, to, tmp_path / "out") == len(FOUND)


@pytest.mark.parametrize("to", FORMATS)
def test_memory_does_not_grow_with_the_run(tmp_path: Path, to: str) -> None:
    """Twelve shards of 8 MB each: never more than a few of them at once (Python's own memory and Arrow's)."""
    noise = encode_png(np.random.default_rng(0).integers(0, 256, (3, 256, 256), dtype=np.uint8))
    (tmp_path / "run" / "shards").mkdir(parents=True)
    for shard in range(12):
        rows = [row(shard * 20 + k, 0, 1, 0, image=noise, origin=noise) for k in range(20)]
        pq.write_table(table_of(rows), tmp_path / "run" / "shards" / f"unit-{shard:06d}.parquet", use_dictionary=False)
    shard_bytes = 2 * 20 * len(noise)
    del rows
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        assert export(tmp_path / "run", to, tmp_path / "out") == 240
        python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert python + pool.max_memory() < 6 * shard_bytes
