"""The first commands of somebody who brings networks and images: what they have to say, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from small_tasks import Task, linear_task

import foible
from foible import cli
from foible.basket.matching import match
from foible.data import open_data
from foible.errors import UserError
from foible.recipes.gate.suite_gate import gate
from foible.recipes.suite.suite import make_suite
from foible.testing import linear_basket


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return linear_task(tmp_path)


def _told(capsys: pytest.CaptureFixture[str], code: int, *args: object) -> str:
    capsys.readouterr()
    assert cli.run([str(arg) for arg in args]) == code
    out, said = capsys.readouterr()
    return out + said


def _trained_on(basket: Path, data: str | None) -> None:
    record = json.loads((basket / "basket.json").read_text())
    for one in record["networks"]:
        one["training"] = {} if data is None else {"data": data}
    (basket / "basket.json").write_text(json.dumps(record))


def _photographs(folder: Path, task: Task, names: tuple[str, ...]) -> str:
    """The images of the linear task as PNG files in a folder a class."""
    data = open_data(task.data)
    for row in range(24):
        place = folder / names[int(data.labels[row])]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.images[row, 0].numpy()).save(place / f"{row}.png")
    return f"folder:{folder}?grey=true"


def test_data_is_named_beside_networks_and_known_of_a_basket(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hunt = ["hunt", "--suspect", "A", "--trials", 4, "--patience", 5, "--workers", 1, "--no-shrink"]
    networks = ["--network", f"A={task.basket}/A", "--network", f"B={task.basket}/B"]
    assert "name the images with --data" in _told(capsys, 2, *hunt, *networks, "--out", tmp_path / "a")
    assert "name the images with --data" in _told(capsys, 2, *hunt, "--basket", task.basket, "--out", tmp_path / "a")
    _trained_on(task.basket, task.data)
    assert "name the images with --data" in _told(capsys, 2, *hunt, *networks, "--out", tmp_path / "a")
    said = _told(capsys, 0, *hunt, "--basket", task.basket, "--out", tmp_path / "a")
    assert "which the basket was trained on" in said
    assert json.loads((tmp_path / "a" / "config.json").read_text())["settings"]["data"] == task.data
    found = foible.rank(foible.Basket.open(task.basket), suspect="A", quiet=True)
    assert set(found.column("origin_data")) <= {task.data}


def test_data_that_a_received_basket_names_is_read_only_where_its_user_works(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    _trained_on(task.basket, task.data)
    moved = task.basket.rename(tmp_path / "home" / "basket")
    monkeypatch.chdir(tmp_path / "home")
    said = _told(capsys, 2, "rank", "--basket", moved, "--out", "run")
    assert "the basket " in said
    assert "add --trust" in said


def test_a_folder_says_what_it_holds_before_any_work(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["--basket", task.basket, "--data", task.data]
    _told(capsys, 0, "compare", *both, "--out", tmp_path / "run")
    said = _told(capsys, 2, "hunt", *both, "--out", tmp_path / "run")
    assert said.strip().endswith(f"the folder '{tmp_path / 'run'}' holds a comparison: give another --out")
    assert "holds a basket of networks" in _told(capsys, 2, "rank", *both, "--out", task.basket)


def test_photographs_without_splits_in_folders_named_by_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = linear_task(tmp_path, classes=("ant", "bee", "cat"))
    networks = [word for name in "AB" for word in ("--network", f"{task.basket}/{name}")]
    data = _photographs(tmp_path / "photos", task, ("0", "1", "2"))
    said = _told(capsys, 0, "compare", *networks, "--data", data, "--out", tmp_path / "run")
    assert "is not split into train and test: all 24 images are taken" in said
    assert "taken as places in the networks' list, from 0 (0 is 'ant')" in said
    assert "A: 100.0 %" in said
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert len(config["notes"]) == 2
    assert config["specs"] == {name: f"{task.basket}/{name}" for name in "AB"}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "all 24 images are taken" in page
    assert f"{task.basket}/A" in page


def test_synonyms_are_offered_where_classes_do_not_meet(task: Task, tmp_path: Path) -> None:
    basket = linear_basket()
    basket.classes, basket.lists = ("airplane", "cat", "automobile"), dict.fromkeys("ABC", ("x", "y", "z"))
    data = open_data(_photographs(tmp_path / "photos", task, ("plane", "cat", "car")))
    (note,) = match(data, basket, canvas="12").notes
    assert note.endswith("(car, plane) (did you mean car = automobile, plane = airplane?)")
    data = open_data(_photographs(tmp_path / "other", task, ("plane", "auto", "lorry")))
    with pytest.raises(UserError, match=r"did you mean auto = automobile, plane = airplane\?"):
        match(data, basket, canvas="12")


def test_a_network_near_chance_is_diagnosed_by_hunt_gate_and_report(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "import foible, torch\n"
        f"inner = foible.Basket.open({str(task.basket)!r}).network('A')\n"
        "class Turned(torch.nn.Module):\n"
        "    def forward(self, images):\n        return inner(images).roll(1, 1)\n"
    )
    turned = f"{tmp_path / 'mine.py'}:Turned?preprocess=inside&classes=data"
    both = ["--basket", task.basket, "--data", task.data]
    _told(capsys, 0, "compare", *both, "--json", "--out", tmp_path / "before")
    hint = "With its classes in another order it would score 100 %"
    networks = ["--network", f"A={turned}", "--network", f"B={task.basket}/B"]
    said = _told(capsys, 2, "hunt", *networks, "--data", task.data, "--workers", 1, "--out", tmp_path / "none")
    assert hint in said
    _told(capsys, 0, "compare", *networks, "--data", task.data, "--json", "--out", tmp_path / "compare")
    assert hint in (tmp_path / "compare" / "report.html").read_text()
    make_suite([tmp_path / "before"], tmp_path / "suite")
    gated = gate(tmp_path / "suite", [f"new={turned}", f"old={task.basket}/A"], quiet=True)
    assert [note for note in gated.notes if note.startswith("new gets 0.0 % of ") and hint in note]
    assert gated.networks == {"new": turned, "old": f"{task.basket}/A"}
    flags = ["--network", f"new={turned}", "--network", f"old={task.basket}/A", "--markdown", tmp_path / "gate.md"]
    said = _told(capsys, 1, "gate", "--suite", tmp_path / "suite", *flags)
    assert f"old is {task.basket}/A" in said.replace("\n", "")
    assert "Turned" in (tmp_path / "gate.md").read_text()
    peers = ["--network", f"peer={task.basket}/C", "--data", task.data, "--split", "train", "--workers", 1]
    code = cli.run(["gate", "--hunt", *map(str, flags[:4]), *map(str, peers), "--out", str(tmp_path / "nightly")])
    assert code == 1
    assert hint in json.dumps(json.loads((tmp_path / "nightly" / "gate.json").read_text())["notes"])
