"""Edge cases: images just across a class boundary, several of each, as findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import foible
from foible import cli
from foible.basket import Basket
from foible.data import Dataset
from foible.images import decode_png
from foible.recipes.explain.control import CONTROL
from foible.report import write_report


class Flat:
    """A generator whose code is the image: shifts are changes of pixels."""

    spec = fingerprint = "flat"
    latent, shape = 4, (1, 2, 2)

    def encode(self, images: Tensor) -> Tensor:
        return images.flatten(1)

    def decode(self, codes: Tensor) -> Tensor:
        return codes.view(-1, 1, 2, 2)

    def to(self, _device: object) -> Flat:
        return self


HOW = {"generator": Flat(), "effort": 0, "quiet": True, "device": "cpu", "images": 2}


def task() -> tuple[Basket, Dataset]:
    """Class 1 where the sum of four pixels is above 2: the boundary is known. It lies between two sums of whole levels,
    since on one of them rounding would decide, and that is another one on another processor."""
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.0] * 4, [6.0] * 4]))
        layer.bias.copy_(torch.tensor([0.0, -12.01]))
    basket = Basket({"sum": nn.Sequential(nn.Flatten(), layer)}, classes=("dark", "light"), preprocess="inside",
                    shape=(1, 2, 2))  # fmt: skip
    images = torch.tensor([80, 60, 40], dtype=torch.uint8)[:, None, None, None].repeat(1, 1, 2, 2)
    return basket, Dataset("grey", "test", images, torch.tensor([1, 1, 0]), basket.classes)


def test_images_just_across_the_boundary_are_findings() -> None:
    basket, data = task()
    found = foible.explain(basket, data, search="edges?places=4&spread=0.5", **HOW)
    assert found.column("outcome") == ["found"] * len(found)
    assert len(found) > 4  # several places of an image; those beyond the box have none
    assert len(set(found.column("id"))) == len(found)
    made = torch.stack([decode_png(row["image"], "one") for row in found]).float() / 255
    sums = made.flatten(1).sum(1)
    assert (sums > 2.001).all()
    assert (sums < 2 + 5 / 255).all()  # a level less of every pixel, and the class is another one
    assert len({row["image"] for row in found}) == len(found) - 1  # both images' shortest ways end in the same grey
    again = foible.explain(basket, data, search="edges?places=4&spread=0.5", **HOW)
    assert again.column("image") == found.column("image")
    other = foible.explain(basket, data, search="edges?places=2", to="light", **HOW)
    assert other.column("target") == [1] * len(other)
    assert other.column("truth") == [0] * len(other)


def test_they_go_to_people_and_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    basket, data = task()
    run, folder = tmp_path / "run", tmp_path / "to-label"
    found = foible.explain(basket, data, search="edges?places=4&spread=0.5", out=run, **HOW)
    assert not (run / CONTROL).exists()  # several rows of one image are no sample to compare with
    assert cli.run(["export", str(run), "--to", "label-studio", "--out", str(folder)]) == 0
    tasks = json.loads((folder / "tasks.json").read_text())
    assert sorted(one["data"]["finding"] for one in tasks) == sorted(found.column("id"))
    pngs = {(folder / "images" / one["data"]["image"].rpartition("/")[2]).read_bytes() for one in tasks}
    assert pngs == set(found.column("image"))
    for number, one in enumerate(tasks):  # people disagree about the first
        said = {"value": {"choices": ["dark" if number == 0 else "light"]}, "from_name": "label", "type": "choices"}
        one["annotations"] = [{"result": [said], "was_cancelled": False}]
    (tmp_path / "project.json").write_text(json.dumps(tasks))
    capsys.readouterr()
    assert cli.run(["import", str(tmp_path / "project.json"), str(run), "--drop", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["labelled"], told["hold"], told["fail"]) == (len(found), len(found) - 1, 1)
    first = tasks[0]["data"]["finding"]
    page = write_report(run).read_text()
    assert f'id="{first}"' not in page
    assert page.count('class="five"') == len(found) - 1
    assert cli.run(["export", str(run), "--to", "folder", "--out", str(tmp_path / "train")]) == 0
    assert len(list((tmp_path / "train" / "light").glob("*.png"))) == len(found) - 1  # to be trained on
