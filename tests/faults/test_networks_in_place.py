"""Networks that write where they should not: into the images that all share, or into the answer they gave before."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from small_tasks import SPACE, Task, linear_task
from torch import Tensor, nn

import foible
from foible import Basket, Findings, UserError, cli
from foible.basket.hooks import layer_names
from foible.basket.judging import judged
from foible.data import Dataset
from foible.testing import SHAPE, linear_basket, linear_network, linear_trials

CLASSES = ("0", "1", "2")

# Three ways to change a tensor that is not one's own; two of them are not counted by torch.
FILE = """
from torch import nn
from foible.testing import linear_network

class Writer(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.inner, self.way = linear_network(0), way

    def forward(self, x):
        if self.way == "copy":
            x = x.clone()
        if self.way == "data":
            x.data.sub_(0.5).div_(0.25)
        elif self.way == "numpy":
            pixels = x.detach().numpy()
            pixels -= 0.5
            pixels /= 0.25
        else:
            x.sub_(0.5).div_(0.25)
        return self.inner(x * 0.25 + 0.5)

def copy(): return Writer("copy")
def op(): return Writer("op")
def data(): return Writer("data")
def numpy(): return Writer("numpy")
"""


def writer(way: str) -> nn.Module:
    space: dict[str, Any] = {"__name__": "writers"}
    exec(FILE, space)
    made: nn.Module = space["Writer"](way)
    return made


def basket_with(network: Any, **options: Any) -> Basket:
    networks = {"A": network, "B": linear_network(1), "C": linear_network(2)}
    return Basket(networks, classes=CLASSES, preprocess="inside", shape=SHAPE, **options)


def seen(count: int = 40) -> Tensor:
    return linear_trials(linear_basket(), count).seeds


def plain_function(images: Tensor) -> Tensor:
    images.sub_(0.5).div_(0.25)
    logits: Tensor = linear_network(0)(images * 0.25 + 0.5)
    return logits.detach()


@pytest.fixture
def data() -> Dataset:
    trials = linear_trials(linear_basket(), 60)
    return Dataset("blobs", "train", trials.seeds, trials.aims, CLASSES)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "mine.py").write_text(FILE, encoding="utf-8")
    return linear_task(tmp_path)


def same(ours: Findings, theirs: Findings) -> None:
    for name in ours.table.column_names:
        assert ours.table.column(name).equals(theirs.table.column(name)), name


@pytest.mark.parametrize("way", ["op", "data", "numpy", "function"])
def test_the_others_see_what_they_would_see_without_it(way: str) -> None:
    images = seen().float() / 255
    before = images.clone()
    basket, honest = basket_with(plain_function if way == "function" else writer(way)), basket_with(writer("copy"))
    for names in (None, ["A", "B"], ["C", "A", "B"]):
        with torch.no_grad():
            assert torch.equal(basket.judge(images, names), honest.judge(images, names))
            assert torch.equal(images, before), "nor are the caller's own images changed"
    [note] = basket.notes
    assert "A changes the images that it is given" in note
    assert basket.only(["A", "C"]).notes == (note,)
    assert basket.only(["B", "C"]).notes == honest.notes == ()


@pytest.mark.parametrize(
    ("way", "search"), [("op", "hill-climb"), ("op", "gradient"), ("op", "genetic"), ("numpy", "hill-climb")]
)
def test_a_hunt_finds_the_same(way: str, search: str, data: Dataset) -> None:
    options: dict[str, Any] = {"search": search, "trials": 6, "space": SPACE, "peer_confidence": 0, "quiet": True}
    found, wanted = (foible.hunt(basket_with(writer(each)), data, **options) for each in (way, "copy"))
    same(found, wanted)
    assert "found" in found.column("outcome")


def test_a_distortion_is_the_same(data: Dataset) -> None:
    options: dict[str, Any] = {"source": "A", "split": "train", "images": 4, "quiet": True}
    same(
        foible.distort(basket_with(writer("op")), data, **options),
        foible.distort(basket_with(writer("copy")), data, **options),
    )


def test_a_hunt_from_the_command_line_replays_and_says_so(
    task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    networks = [f"A={tmp_path / 'mine.py'}:op?preprocess=inside&classes=data", *(str(task.basket / n) for n in "BC")]
    command = ["hunt", *(f"--network={spec}" for spec in networks), "--data", task.data, "--split", "train"]
    command += ["--space", SPACE, "--trials", "6", "--unit", "3", "--patience", "40"]
    assert cli.run([*command, "--workers", "2", "--out", str(tmp_path / "run")]) == 0
    err = capsys.readouterr().err
    assert "A changes the images that it is given" in err
    [note] = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["notes"]
    assert note in err
    assert cli.run(["replay", str(tmp_path / "run"), "--trust"]) == 0
    networks[0] = networks[0].replace(":op", ":copy")
    wanted = foible.hunt(networks, task.data, split="train", space=SPACE, trials=6, patience=40, quiet=True)
    assert Findings.open(tmp_path / "run").column("outcome") == wanted.column("outcome")


def test_a_comparison_and_a_ranking_are_the_same(task: Task, tmp_path: Path) -> None:
    told = {}
    for way in ("op", "copy"):
        networks = [f"A={tmp_path / 'mine.py'}:{way}?preprocess=inside&classes=data", str(task.basket / "B")]
        summary = foible.compare(networks, task.data, split="train", out=tmp_path / way, quiet=True)
        notes = json.loads((tmp_path / way / "config.json").read_text(encoding="utf-8"))["notes"]
        assert [len(summary.pop("notes")), len(notes)] == [way == "op"] * 2
        ranked = foible.rank([*networks, str(task.basket / "C")], task.data, split="train", quiet=True)
        summary["against"] = {key: value for key, value in summary["against"].items() if key != "networks"}  # by spec
        told[way] = {key: value for key, value in summary.items() if key != "config"}, ranked.column("origin_index")
    assert told["op"] == told["copy"]


def test_names_layers_and_weights_stay_as_they_are() -> None:
    network = writer("op")
    basket, keys, layers = basket_with(network), list(network.state_dict()), layer_names(network)
    prints = dict(basket.fingerprints)
    basket.check(seen(4))
    held = basket.network("A")
    assert isinstance(held, nn.Module)
    assert (list(held.state_dict()), layer_names(held), basket.fingerprints) == (keys, layers, prints)
    assert not network._forward_pre_hooks, "the caller's own network is left alone"
    images = seen(20).float() / 255
    before = images.clone()
    layer_names(held, images)
    held(images)
    assert torch.equal(images, before), "whoever calls it"


class Later(nn.Module):
    """Writes only into large batches."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear_network(0)

    def forward(self, images: Tensor) -> Tensor:
        return self.inner(images.mul_(1.0) if len(images) > 30 else images)  # type: ignore[no-any-return]


def test_one_that_begins_to_write_later_is_named() -> None:
    basket = basket_with(Later())
    basket.check(seen(4))
    with pytest.raises(UserError, match=r"network 'A' changed the images .* images = images\.clone\(\)"):
        basket.predict(seen(40))
    with torch.inference_mode():  # such tensors do not count what is written into them
        assert basket.judge(seen(20).float() / 255).shape == (3, 20, 3)


class Buffered(nn.Module):
    """Answers in the same memory each time, and holds its images meanwhile."""

    def __init__(self, barrier: threading.Barrier | None = None) -> None:
        super().__init__()
        self.inner, self.barrier = linear_network(0), barrier
        self.answer, self.images = torch.empty(512, 3), torch.empty(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffered:
        return memo.setdefault(id(self), Buffered(self.barrier))

    def forward(self, images: Tensor) -> Tensor:
        self.images = images
        if self.barrier is not None:  # another thread comes in here, where there is one
            try:
                self.barrier.wait(0.2)
            except threading.BrokenBarrierError:
                self.barrier.reset()
        logits = self.inner(self.images)
        return self.answer[: len(logits)].copy_(logits)


def test_an_answer_is_taken_before_the_next_one_overwrites_it() -> None:
    network, images = Buffered(), seen(40).float() / 255
    one, other = images[:20], images[20:]
    basket = Basket({"A": network, "twin": network}, classes=CLASSES, preprocess="inside", shape=SHAPE)
    with torch.no_grad():
        wanted = linear_network(0)(images)
        for _ in range(3):
            parts = [basket.answer("A", one), basket.answer("twin", other)]
            assert torch.equal(torch.cat(parts), wanted)
            shown_apart = basket.judge_views({"A": one, "twin": other})
            assert torch.equal(shown_apart, torch.stack([wanted[:20], wanted[20:]]))


def test_threads_do_not_meet_in_a_network_that_keeps_something(data: Dataset) -> None:
    basket = basket_with(Buffered(threading.Barrier(2)))
    honest = basket_with(linear_network(0))
    for index in (None, torch.arange(59, -1, -1)):
        ours, theirs = (
            torch.cat([part.logits for part in judged(each, data, index=index, batch=20, workers=3)], 1)
            for each in (basket, honest)
        )
        assert torch.equal(ours, theirs)


class Counted(nn.Module):
    """Makes a table in its first call, and looks at it in all others."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.table = linear_network(0), None

    def forward(self, images: Tensor) -> Tensor:
        self.table = self.table if self.table is not None else torch.ones(1)
        return self.inner(images) * self.table  # type: ignore[no-any-return]


def test_what_is_made_once_is_no_habit() -> None:
    basket = basket_with(Counted())
    for _ in range(3):
        basket.predict(seen(20))
    network = basket.network("A")
    assert isinstance(network, nn.Module)
    assert not network._forward_pre_hooks
    assert basket.notes == ()


class Scratch(Buffered):
    """Computes in memory of its own, which the next call overwrites before anybody has differentiated."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Scratch:
        return Scratch()

    def forward(self, images: Tensor) -> Tensor:
        if self.images.shape != images.shape:
            self.images = torch.zeros_like(images)
        return self.inner(self.images.copy_(images).square())  # type: ignore[no-any-return]


def test_a_network_that_cannot_be_differentiated_is_told(data: Dataset) -> None:
    with pytest.raises(UserError, match="'A'"):
        foible.hunt(basket_with(Scratch()), data, search="gradient", trials=4, space=SPACE, quiet=True)
    found, wanted = (
        foible.hunt(basket_with(network), data, search="gradient", trials=4, space=SPACE, quiet=True)
        for network in (Buffered(), linear_network(0))
    )
    assert found.column("image") == wanted.column("image")


def test_an_answer_stays_as_it_was_when_the_network_is_asked_again() -> None:
    """Memory that no attribute shows, as compiled modules answer in: one network alone, and beside another."""
    memory = torch.zeros(64, 3)

    class Hidden(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            memory[: len(images)] = images.flatten(1)[:, :3]
            return memory[: len(images)]

    basket = Basket({"A": Hidden(), "B": Hidden()}, classes=list("abc"), preprocess="inside", shape=(1, 2, 2))
    dark, bright = torch.zeros(20, 1, 2, 2), torch.ones(20, 1, 2, 2)
    for names in (["A"], ["A"], ["B"], ["A", "B"]):
        said = basket.judge(dark, names)
        basket.judge(bright, names)
        assert not said.any()
