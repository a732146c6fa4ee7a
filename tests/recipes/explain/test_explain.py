"""Explain: mistakes mended in a latent space, through the one harness."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from linear_generator import Linear

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.findings import Findings
from foible.recipes.explain import ALONE
from foible.recipes.explain.summary import summarise
from foible.recipes.export import export
from foible.recipes.source import images_from
from foible.report import write_report
from foible.report.mended import keep_beside
from foible.testing import CLASSES, SHAPE, linear_basket

WIDE = Linear(40)


def task(count: int = 60) -> tuple[Basket, Dataset]:
    basket = linear_basket(3)
    seeds = torch.randint(10, 246, (count, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    labels = basket.predict(seeds, ["A"])[0].topk(2, 1).indices[:, 1]  # what comes second: all are mistakes
    labels[::4] = basket.predict(seeds, ["A"])[0].argmax(1)[::4]  # but for every fourth
    drawn = basket.judge(WIDE.decode(WIDE.encode(seeds.float() / 255)).clamp(0, 1), ["A"])[0].argmax(1)
    labels[1::4] = torch.where(drawn == basket.predict(seeds, ["A"])[0].argmax(1), labels, drawn)[1::4]
    return basket, Dataset("memory", "test", seeds, labels, tuple(basket.classes))


def explained(**options: Any) -> Findings:
    basket, data = task()
    return foible.explain(basket, data, generator=WIDE, quiet=True, **({"effort": 40, "rate": 1.0} | options))


def test_every_mistake_is_mended_and_no_right_answer_is_touched() -> None:
    findings = explained(suspect="A")
    rows = list(findings)
    assert len(rows) == 45
    assert {row["suspect"] for row in rows} == {"A"}
    for row in rows:
        assert np.argmax(row["before"][0]) != row["truth"]
        assert row["origin_index"] % 4 != 0
    found = [row for row in rows if row["outcome"] == "found"]
    assert len(found) > 40
    for row in found:
        assert np.argmax(row["after"][0]) == row["truth"] == row["said"]
        first, least = (dict(row[name])["latent distance"] for name in ("change", "least_change"))
        assert least <= first + 1e-6


def test_the_smallest_is_smaller_and_the_summary_counts() -> None:
    findings = explained()
    told = summarise(findings)
    assert told["images"] == 45
    assert told["mended"] == len(findings.filter(outcome="found"))
    assert told["closest"] < 0.95 * told["first"]
    assert told["low"] < told["share"] <= told["high"]
    assert told["peers"] == 2
    accepted = sum(
        all(np.argmax(one) == row["truth"] for one in row["after"][1:]) for row in findings.filter(outcome="found")
    )
    assert told["accepted"] == accepted < told["mended"]


def test_a_reconstruction_that_is_right_already_is_tagged() -> None:
    basket, data = task()
    drawn = WIDE.decode(WIDE.encode(data.images.float() / 255)).clamp(0, 1)
    right = basket.judge(drawn, ["A"])[0].argmax(1) == data.labels
    rows = list(explained())
    assert [ALONE in row["tags"] for row in rows] == [bool(right[row["origin_index"]]) for row in rows]
    assert 0 < sum(ALONE in row["tags"] for row in rows) < len(rows)


def test_right_answers_are_driven_to_every_other_class() -> None:
    rows = list(explained(to="each", images=5, effort=0))
    assert len(rows) == 5 * (CLASSES - 1)
    for row in rows:
        assert row["target"] != row["truth"] == np.argmax(row["before"][0])
        assert row["least_image"] is None
        if row["outcome"] == "found":
            assert np.argmax(row["after"][0]) == row["target"]
    assert sum(row["outcome"] == "found" for row in rows) > 7


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on disk, whose generator is a user's file."""
    folder = tmp_path_factory.mktemp("explain")
    file = folder / "mine.py"
    file.write_text(Path(__file__).parents[2].joinpath("linear_generator.py").read_text())
    basket, data = task()
    foible.explain(
        basket, data, generator=f"{file}:Linear", out=folder / "run", quiet=True, effort=40, rate=0.3, trust=True
    )
    return folder / "run"


def test_page_summary_and_export(run: Path, tmp_path: Path) -> None:
    page = write_report(run).read_text()
    assert "of 45 mistakes of" in page
    assert page.count('class="five"') > 40
    assert "Where the network is mended" in page
    export(run, "folder", tmp_path / "pngs")
    assert len(list((tmp_path / "pngs").rglob("*.png"))) > 40


def test_findings_of_a_run_are_explained(run: Path) -> None:
    data, ids = images_from(str(run), None)
    assert len(data) == len(ids) > 40
    assert data.classes == tuple(task()[0].classes)
    with pytest.raises(UserError, match="--truth is for one image"):
        images_from(str(run), "3")


def test_one_image(tmp_path: Path) -> None:
    from PIL import Image

    basket, data = task()
    Image.fromarray(data.images[1, 0].numpy()).save(tmp_path / "one.png")
    truth = data.classes[int(data.labels[1])]
    one, _ = images_from(str(tmp_path / "one.png"), truth, classes=basket.classes)
    rows = list(foible.explain(basket, one, generator=WIDE, quiet=True, effort=0, rate=1.0))
    assert [row["outcome"] for row in rows] == ["found"]
    said = data.classes[int(basket.predict(data.images[1:2], ["A"])[0].argmax())]
    again, _ = images_from(str(tmp_path / "one.png"), said, classes=basket.classes)
    with pytest.raises(UserError, match="nothing to mend"):
        foible.explain(basket, again, generator=WIDE, quiet=True)
    (tmp_path / "no.png").write_bytes(b"no image")
    with pytest.raises(UserError, match="no image that can be read"):
        images_from(str(tmp_path / "no.png"), "1", classes="01")
    with pytest.raises(UserError, match="--truth '9' is no class"):
        images_from(str(tmp_path / "one.png"), "9", classes=basket.classes)
    with pytest.raises(UserError, match="say what it shows"):
        images_from(str(tmp_path / "one.png"), None)


def test_words() -> None:
    basket, data = task()
    with pytest.raises(UserError, match="explain needs a generator"):
        foible.explain(basket, data, quiet=True)
    with pytest.raises(UserError, match="--to 'seven' is no class"):
        foible.explain(basket, data, generator=Linear(), to="seven", quiet=True)
    with pytest.raises(UserError, match="draws images of 1 channel, 4×4"):
        foible.explain(basket, data, generator=Linear(shape=(1, 4, 4)), quiet=True)
    networks = {"A": lambda images: images.flatten(1)[:, :CLASSES] * torch.nan}
    broken = Basket(networks, classes=basket.classes, preprocess="inside")
    with pytest.raises(UserError, match="answers 60 of 60 images of 'memory' with NaN"):
        foible.explain(broken, data, generator=WIDE, quiet=True)
    with pytest.raises(UserError, match="no network 'Z'"):
        foible.explain(basket, data, generator=Linear(), suspect="Z", quiet=True)


def test_the_report_of_a_hunt_shows_what_mends_its_finds(tmp_path: Path) -> None:
    basket, data = task(80)
    space = "affine?degrees=8&percent=8&pixels=0.7"
    right = Dataset("right", "test", data.images, basket.predict(data.images, ["B"])[0].argmax(1), data.classes)
    foible.hunt(basket, right, space=space, trials=40, split="test", suspect="A", peers="B", out=tmp_path / "hunt",
                peer_confidence=0.0, quiet=True)  # fmt: skip
    found, ids = images_from(str(tmp_path / "hunt"), None)
    assert len(ids) > 3
    foible.explain(basket, found, generator=WIDE, effort=30, rate=1.0, out=tmp_path / "why", quiet=True)
    assert "what mends it" not in write_report(tmp_path / "hunt").read_text()
    kept = keep_beside(tmp_path / "hunt", tmp_path / "why", ids)
    mended = {one["id"] for one in json.loads(kept.read_text())["mended"]}
    assert mended <= set(ids)
    page = write_report(tmp_path / "hunt").read_text()
    assert page.count("what mends it, ‖e‖") >= len(mended) > 2
    kept.write_text(json.dumps({"mended": [{"id": "of-another", "words": "w", "pictures": []}]}))
    keep_beside(tmp_path / "hunt", tmp_path / "why", ids)  # what was kept of other finds stays
    assert {one["id"] for one in json.loads(kept.read_text())["mended"]} == mended | {"of-another"}
    kept.write_text('{"mended": [{"id": "x", "words": "<script>", "pictures": ["no base64!"]}, 3]}')
    assert "what mends it" not in write_report(tmp_path / "hunt").read_text()  # not ours: nothing is shown


def test_a_row_without_a_truth_breaks_no_page(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    for file in (tmp_path / "run" / "shards").glob("*.parquet"):
        table = pq.read_table(file)
        place = table.schema.get_field_index("truth")
        nothing = pa.nulls(len(table), table.schema.field("truth").type)
        pq.write_table(table.set_column(place, table.schema.field("truth"), nothing), file)
    assert "of 45 mistakes of" in write_report(tmp_path / "run").read_text()
