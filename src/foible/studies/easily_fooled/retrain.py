"""`foible study fooling-retrain`: does a class of fooling images help? (paper 5, Sec. C, Table S2)

    DNN₁ → images evolve against it → they join the data as class n + 1 → DNN₂ is trained → images evolve against it → …

The first time the new class gets as many images as any other (`times` as many, where it is to be over-represented as
in Sec. C.2), then a sixth of that; the test set gets a sixth, then a sixtieth: 6000 and 1000, 1000 and 100 on MNIST.
Each run of evolution gives 20 images on MNIST, half of them from its first generation and half from its last. Networks
and runs are kept, so that a study that was broken off goes on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.data import Dataset, load
from foible.errors import UserError
from foible.networks.files import load_folder
from foible.processes import one_thread, pick_device
from foible.randomness import uniforms
from foible.studies.common import Result, Row, data_for, share_row
from foible.studies.easily_fooled import evolved_figures as figures
from foible.studies.easily_fooled.evolved import LENET, VERY_SURE, Evolved, evolved, plan_for, ratio_row
from foible.studies.easily_fooled.likeness import how_often
from foible.studies.easily_fooled.rows import median_row
from foible.studies.easily_fooled.trained import right_share, trained

# Table S2: error, error on the original set, images to train on and to test on, median confidence of new images.
TABLE_S2 = (
    (0.94, 0.94, 60000, 10000, 99.99), (1.02, 0.87, 66000, 11000, 97.42), (0.92, 0.87, 67000, 11100, 99.83),
    (0.89, 0.83, 68000, 11200, 72.52), (0.90, 0.96, 69000, 11300, 97.55), (0.89, 0.99, 70000, 11400, 99.68),
    (0.86, 0.98, 71000, 11500, 76.13), (0.91, 1.01, 72000, 11600, 99.96), (0.90, 0.86, 73000, 11700, 99.51),
    (0.84, 0.94, 74000, 11800, 99.48), (0.80, 0.93, 75000, 11900, 98.62), (0.82, 0.98, 76000, 12000, 99.97),
    (0.75, 0.90, 77000, 12100, 99.93), (0.80, 0.96, 78000, 12200, 99.15), (0.79, 0.95, 79000, 12300, 99.15),
)  # fmt: skip
SEC_C2 = ((42.6, 42.6, None, None, 88.1), (41.0, 42.6, None, None, 11.7))  # ImageNet, the class about 7 × as large
OVER = 7  # so many times as large
LEAST = 3  # runs against a network, however few images are wanted
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "network": "lenet", "images": 1500, "tested": 1000, "steps": 300, "iterations": 3, "times": 0,
        "generations": 30, "population": 60,
    },
    "paper": {
        "network": "", "images": 0, "tested": 0, "steps": 10_000, "iterations": 0, "times": 0, "generations": 200,
        "population": 200,
    },
}  # fmt: skip
SIZES = ("train on", "test on")


@dataclass(frozen=True, eq=False)
class Taught:
    """One network of the row: what it learnt from, its errors (%), and what evolved against it."""

    number: int
    train: int
    test: int
    error: float
    original: float
    right: tuple[int, int]  # fooling images of the test set that it calls so, and all of them
    made: Evolved


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    network: str = "",
    steps: int = 0,
    images: int = -1,
    iterations: int = 0,
    times: int = 0,
    generations: int = 0,
    population: int = 0,
) -> Result:
    """network: a spec of the zoo. steps: of each training. iterations: networks, DNN₁ included (paper: 15, and 2 on the
    harder set). times: how many times as large as others the fooling class is at first (1, and 7 on CIFAR-10). images:
    train on the first so many (0: all); what is added is in proportion. generations, population: of an evolution. 0
    takes the scale's own."""
    if basket is not None:
        raise UserError("fooling-retrain trains its own networks: give --set network=SPEC and no --basket")
    plan = plan_for(
        SCALES[scale], network=network, steps=steps, images=images, iterations=iterations, times=times,
        generations=generations, population=population,
    )  # fmt: skip
    named = data_for(data, scale)
    hard = named in LENET
    count, often = plan["iterations"] or (2 if hard else 15), plan["times"] or (OVER if hard else 1)
    spec = plan["network"] or LENET.get(named, "lenet-caffe")
    training = _part(load(named, "train", quiet=quiet), plan["images"])
    test = _part(load(named, "test", quiet=quiet), plan["tested"])
    row: list[Taught] = []
    fooling: list[Tensor] = []
    held: list[Tensor] = []
    for number in range(1, count + 1):
        folder = trained(
            spec, seed, _extended(training, fooling), _extended(test, held), out / "networks", steps=plan["steps"],
            device=device, quiet=quiet, name=f"dnn-{number}",
        )  # fmt: skip
        more = sizes(len(training), len(training.classes), often, number)
        made = evolved(
            Basket.open(str(folder), device=device), named, out, f"dnn-{number}", seed=seed, device=device, quiet=quiet,
            runs=max(LEAST, math.ceil(sum(more) / (2 * len(training.classes)))), generations=plan["generations"],
            population=plan["population"], target=list(training.classes),
        )[f"dnn-{number}"]  # fmt: skip
        row.append(_taught(number, folder, training, test, fooling, held, made, device))
        learnt, kept = drawn(made, more, seed, number)
        fooling.append(learnt)
        held.append(kept)
    settings = {
        "data": named, **({"in place of": "ImageNet"} if hard else {}), "network": spec, "iterations": count,
        "times": often, **{name: plan[name] for name in ("steps", "generations", "population")},
        "images": len(training), "tested on": len(test),
        "runs": [len(one.made.runs) for one in row],
    }  # fmt: skip
    result = Result("fooling-retrain", scale, settings, seed)
    paper: Any = SEC_C2 if often > 1 else TABLE_S2
    table = "Sec. C.2" if often > 1 else "Table S2"
    for one in row:
        result.rows += _rows(one, paper[one.number - 1] if one.number <= len(paper) else (None,) * 5, table, len(test))
    result.rows += _compared(row)
    result.notes += _notes(row, often, hard)
    scores = [100 * one.made.confidence[0] for one in row]
    printed = [float(one[4]) for one in paper]
    result.figures.append(
        figures.retrained([score / 100 for score in scores], [(one.error, one.original) for one in row], printed, out)
    )
    result.figures.append(_sheet(row, out))
    return result


def sizes(images: int, classes: int, times: int, number: int) -> tuple[int, int]:
    """How many fooling images the training and the test set get after network `number`."""
    whole = max(12, times * images // classes)
    return (whole, max(2, whole // 6)) if number == 1 else (max(2, whole // 6), max(1, whole // 60))


def drawn(made: Evolved, more: tuple[int, int], seed: int, number: int) -> tuple[Tensor, Tensor]:
    """As many images for training and for testing, drawn without replacement: half of them from the first generations
    of all runs, half from the last."""
    total = sum(more)
    chance = uniforms(seed, torch.arange(3), number, stream="study.retrain.drawn", count=max(len(made), total))
    halves = [
        images[chance[place, : len(made)].argsort(stable=True)[: min(len(made), share)]]
        for place, (images, share) in enumerate(((made.first, total // 2), (made.images, total - total // 2)))
    ]
    pool = torch.cat(halves)
    pool = pool[chance[2, : len(pool)].argsort(stable=True)]
    train = round(len(pool) * more[0] / total)
    return pool[:train], pool[train:]


def _part(data: Dataset, count: int) -> Dataset:
    """The first images of a data set; all of them where it has no more, or `count` is 0."""
    if not count or count >= len(data):
        return data
    return Dataset(data.name, data.split, data.images[:count], data.labels[:count], data.classes)


def _new_class(classes: tuple[str, ...]) -> str:
    name = "fooling"
    while name in classes:
        name += " images"
    return name


def _extended(data: Dataset, more: list[Tensor]) -> Dataset:
    """With these images as class n + 1; as it is where there are none."""
    if not more:
        return data
    added = torch.cat(more)
    labels = torch.full((len(added),), len(data.classes))
    classes = (*data.classes, _new_class(data.classes))
    return Dataset(data.name, data.split, torch.cat([data.images, added]), torch.cat([data.labels, labels]), classes)


def _taught(
    number: int, folder: Path, training: Dataset, test: Dataset, fooling: list[Tensor], held: list[Tensor],
    made: Evolved, device: str,
) -> Taught:  # fmt: skip
    place = pick_device(device)
    [entry] = load_folder(folder)
    module = entry.module.to(place)
    with one_thread():
        original = right_share(module, entry.preprocess, test.images, test.labels, place)
        right = 0
        if held:
            shown = torch.cat(held)
            labels = torch.full((len(shown),), len(test.classes))
            right = round(right_share(module, entry.preprocess, shown, labels, place) * len(shown))
    extra = sum(map(len, held))
    return Taught(
        number, len(training) + sum(map(len, fooling)), len(test) + extra, 100 * (1 - entry.accuracy["test"]),
        100 * (1 - original), (right, extra), made,
    )  # fmt: skip


def _rows(one: Taught, paper: tuple[Any, ...], table: str, tested: int) -> list[Row]:
    name = f"DNN {one.number}"
    wrong, wrong_first = round(one.error * one.test / 100), round(one.original * tested / 100)
    score = 100 * one.made.confidence[0]
    sure = one.made.confidence[0] >= VERY_SURE
    rows = [
        share_row(table, f"{name}: error, %", paper[0], wrong, one.test),
        share_row(table, f"{name}: error on the original set, %", paper[1], wrong_first, tested),
        Row(table, f"{name}: images to {SIZES[0]}", paper[2], one.train),
        Row(table, f"{name}: images to {SIZES[1]}", paper[3], one.test),
        median_row(table, f"{name}: score, the median confidence of new images, %", paper[4], score),
        ratio_row(table, f"{name}: new images at 99.99 % or more, %", None, sure, torch.ones_like(sure), one.made.run),
    ]
    if one.right[1]:
        rows.append(share_row(table, f"{name}: fooling images of the test set that it calls so, %", None, *one.right))
    return rows


def _compared(row: list[Taught]) -> list[Row]:
    """Mann–Whitney's U: of the images of neighbours, and of the first and each later one; over images as in the paper,
    and over medians of runs, which are independent."""
    table, rows = "Mann–Whitney U, between networks", []
    for one, other in [*pairwise(row), *((row[0], other) for other in row[2:])]:
        name = f"DNN {one.number} and DNN {other.number}"
        scores = [each.made.confidence[0] for each in (one, other)]
        often, p = how_often(*scores)
        medians = [
            torch.stack([each.made.confidence[0][each.made.run == run].quantile(0.5) for run in each.made.runs])
            for each in (one, other)
        ]
        images, runs = sum(map(len, scores)), sum(map(len, medians))
        rows += [
            Row(table, f"{name}: how often an image of the first scores higher", None, often, n=images),
            Row(table, f"{name}: p, images", None, p, n=images),
            Row(table, f"{name}: p, medians of runs", None, how_often(*medians)[1], n=runs),
        ]
    return rows


def _notes(row: list[Taught], times: int, hard: bool) -> list[str]:
    fooling = 100 * (row[-1].train - row[0].train) / row[-1].train
    notes = [
        f"DNN 1 to DNN {len(row)}; in the end {fooling:.0f} % of what is learnt are fooling images. Score is the "
        "median confidence in the class over images of the last generation, for the original classes.",
        "Trained as in Sec. C.1 (SGD, momentum 0.9, 64 images a step, decay 0.0005, rate 0.01 by the inverse policy), "
        "all from the same first weights; the paper does not say for how many steps.",
    ]
    if times > 1:
        notes.append(
            f"The fooling class is at first {times} times as large as others. "
            + ("CIFAR-10 stands in for ImageNet, whose figures are the paper's (p < 0.0001)." if hard else
               "Of MNIST the paper says that this did not help, and gives no figure: those beside are ImageNet's.")
        )  # fmt: skip
    return notes


def _sheet(row: list[Taught], out: Path) -> str:
    """Of each network the images of its first run."""
    made = [one.made for one in row]
    pool = torch.cat([one.images for one in made])
    starts = [sum(len(one) for one in made[:place]) for place in range(len(made))]
    classes = torch.unique(made[0].target)[: figures.MOST_CLASSES].tolist()
    rows: list[list[int | None]] = []
    for start, one in zip(starts, made, strict=True):
        mine = (one.run == one.run.min()).nonzero()[:, 0].tolist()
        at = {int(one.target[place]): start + place for place in mine}
        rows.append([at.get(target) for target in classes])
    return figures.sheet(
        pool, rows, out, "images", "Images against each network: its first run",
        columns=[made[0].classes[place] for place in classes], names=[f"DNN {one.number}" for one in row],
    )  # fmt: skip
