"""`foible study uncertain`: paper 4, Sec. 5: the uncertainty of people as what a network learns.

    half of CIFAR-10H's images → the same networks and seeds, by what they learn → the other half, beside its people

Four ways: the label alone; the label smoothed; what networks of the first way say (distillation); what people say. On
the other half: accuracy, the cross entropy of each network to the people's answers, and how many images are of type C,
where all networks agree and people do not.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from foible import figures
from foible.basket import Basket
from foible.data import Dataset, load
from foible.disk import write_with_folder
from foible.errors import UserError
from foible.processes import one_thread
from foible.recipes.train.train import train
from foible.runs.record import whole_hash
from foible.studies.boundary.types import Ints, fewer_people, opinion, types_of
from foible.studies.common import Result, Row, mean_row, share_row
from foible.studies.labels.people import read_people

LEARNT = {
    "hard": "labels",
    "smoothed": "smoothed labels",
    "distilled": "what networks say",
    "people": "what people say",
}
RIGHT, NEAR, SURE, TYPES, APART = (
    "Right on the other half, %",
    "Cross entropy to people, nats",
    "Mean maximum softmax",
    "Types on the other half, % of the images",
    "Against labels alone: the same networks and seeds, mean of the differences",
)
CROWD = 10  # people an image, for the types, as in the paper
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "networks": ("mlp:64", "lenet"), "seeds": 2, "images": 1500, "tested": 3000, "epochs": 10, "batch": 32,
        "augment": None,
    },
    "paper": {
        "networks": ("cnn4", "resnet:20"), "seeds": 5, "images": 5000, "tested": 5000, "epochs": 60, "batch": 128,
        "augment": "crops?area=50&flip=true",
    },
}  # fmt: skip

Floats = NDArray[np.float64]


class Seen(NamedTuple):
    """What networks of one kind make of the other half: (networks,) each, but said (networks, images)."""

    right: Floats
    apart: Floats  # cross entropy to people
    sure: Floats
    said: Ints


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    people: str = "",
    networks: str = "",
    seeds: int = 0,
    epochs: int = 0,
    images: int = 0,
    tested: int = 0,
    smooth: float = 0.1,
    temperature: float = 1.0,
) -> Result:
    """people: a file of counts (images of the test split, classes), where it is not CIFAR-10H.
    networks: specs of the zoo, with blanks between them. seeds, epochs: how many (0: the scale's own).
    images, tested: of the one half and of the other, how many are learnt from and judged (0: the scale's own).
    smooth: of the second way. temperature: of the third."""
    if basket is not None:
        raise UserError("this study is about how networks are trained: leave --basket out")
    plan = dict(SCALES[scale])
    given = {"networks": tuple(networks.split()), "seeds": seeds, "epochs": epochs, "images": images, "tested": tested}
    plan |= {name: value for name, value in given.items() if value}
    named = data or "cifar10"
    whole = load(named, "test", quiet=quiet)
    counts = read_people(people, whole.labels, len(whole.classes))
    learnt, other = halves(len(whole), seed, plan["images"], plan["tested"])
    spec, soft = _written(out, whole, counts, learnt, other)
    common = {name: plan[name] for name in ("epochs", "batch", "augment")}
    common["seeds"] = list(range(seed, seed + plan["seeds"]))
    asked = whole_hash({**plan, "networks": list(plan["networks"]), "seed": seed, "smooth": smooth, "t": temperature})
    folders = {way: out / f"{way}-{asked[:8]}" for way in LEARNT}
    how: dict[str, dict[str, Any]] = {
        "hard": {},
        "smoothed": {"smooth": smooth},
        "distilled": {"teacher": folders["hard"], "temperature": temperature},
        "people": {"soft": soft},
    }
    shown, seen = whole.images[torch.from_numpy(other)], dict[str, Seen]()
    for way, folder in folders.items():
        with one_thread():
            train(plan["networks"], spec, out=folder, device=device, quiet=quiet, **common, **how[way])
            group = Basket.open(folder, device=device)
            seen[way] = judged(group, shown, whole.labels.numpy()[other], counts[other])
    settings: dict[str, Any] = {
        "data": named, "split": "test", "people": Path(people).name or "CIFAR-10H", "images learnt from": len(learnt),
        "images judged": len(other), "networks": list(plan["networks"]), "seeds": plan["seeds"],
        **{name: plan[name] for name in ("epochs", "batch", "augment")}, "smoothing": smooth,
        "teacher": "the networks that learnt labels, mean softmax", "temperature": temperature,
        "people an image for types": CROWD,
    }  # fmt: skip
    result = Result("uncertain", scale, settings, seed)
    _add(result, seen, fewer_people(counts[other], CROWD, seed))
    result.figures.append(_figure(seen, fewer_people(counts[other], CROWD, seed), out))
    result.notes += [
        "The paper proposes this and has no figures. Networks of one way, all architectures and seeds together, are "
        "the group whose agreement makes types A and C.",
        "People agree where all ten of those drawn for an image chose one class.",
        "The teacher has learnt from the same half and nothing else: it knows no more than the labels do.",
    ]
    return result


def halves(images: int, seed: int, learnt: int, judged: int) -> tuple[Ints, Ints]:
    """Rows of the one half and of the other, drawn by the seed; of each the first so many, in the order of the data."""
    order = np.random.default_rng([seed, images]).permutation(images)
    middle = images // 2
    return np.sort(order[:middle][:learnt]), np.sort(order[middle:][:judged])


def _written(out: Path, whole: Dataset, counts: Ints, learnt: Ints, other: Ints) -> tuple[str, Path]:
    """The halves as a data set of their own, and people's answers for the one that is learnt from, as files."""
    if not counts[learnt].sum(1).all():
        raise UserError("an image to learn from has no answer of anybody: give counts of at least one person an image")
    pixels, labels = whole.images.numpy(), whole.labels.numpy()
    held = io.BytesIO()
    np.savez(
        held, classes=np.array(whole.classes), x_train=pixels[learnt], y_train=labels[learnt], x_test=pixels[other],
        y_test=labels[other],
    )  # fmt: skip
    write_with_folder(out / "halves.npz", held.getvalue())
    said = io.BytesIO()
    np.save(said, counts[learnt])
    write_with_folder(out / "people.npy", said.getvalue())
    return f"npz:{out / 'halves.npz'}", out / "people.npy"


def judged(group: Basket, images: torch.Tensor, labels: Ints, counts: Ints) -> Seen:
    """Each network on the images, against labels and against the shares of people's answers."""
    logs = group.predict(images).double().log_softmax(2).numpy()
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    said = logs.argmax(2)
    return Seen(
        100 * (said == labels).mean(1), -(shares * logs).sum(2).mean(1), np.exp(logs.max(2)).mean(1),
        said.astype(np.int64),
    )  # fmt: skip


def _add(result: Result, seen: dict[str, Seen], few: Ints) -> None:
    for way, one in seen.items():
        result.rows.append(mean_row(RIGHT, LEARNT[way], None, one.right, least=0, most=100))
    for way, one in seen.items():
        result.rows.append(mean_row(NEAR, LEARNT[way], None, one.apart, least=0))
    for way, one in seen.items():
        result.rows.append(mean_row(SURE, LEARNT[way], None, one.sure, least=0, most=1))
    people = opinion(few)
    for name, word in (("c", "C: networks agree, people do not"), ("a", "A: people agree, networks do not")):
        for way, one in seen.items():
            mask = getattr(types_of(one.said, people), name)
            result.rows.append(share_row(TYPES, f"{word}; {LEARNT[way]}", None, int(mask.sum()), len(mask)))
    result.rows.append(share_row(TYPES, "people do not agree", None, int((~people.agree).sum()), len(few)))
    for way in list(seen)[1:]:
        for field, word in (("right", "right, %"), ("apart", "cross entropy to people"), ("sure", "maximum softmax")):
            differences = getattr(seen[way], field) - getattr(seen["hard"], field)
            result.rows.append(_difference(f"{LEARNT[way]}: {word}", differences))


def _difference(quantity: str, values: Floats) -> Row:
    return mean_row(APART, quantity, None, values)


def _figure(seen: dict[str, Seen], few: Ints, out: Path) -> str:
    """Cross entropy to people of every network, and type C, by what was learnt."""
    people = opinion(few)
    with figures.style():
        figure, axes = figures.new(1, 2, size=(7.6, 2.9))
        for number, one in enumerate(seen.values()):
            colour = figures.COLOURS[number]
            axes[0, 0].plot(np.full(len(one.apart), number), one.apart, "o", color=colour, alpha=0.7)
            axes[0, 1].bar(number, 100 * float(types_of(one.said, people).c.mean()), color=colour)
        for axis, title in zip(axes[0], (NEAR, "type C, % of the images"), strict=True):
            axis.set_xticks(range(len(seen)), [LEARNT[way].replace(" ", "\n") for way in seen])
            axis.set_xlim(-0.6, len(seen) - 0.4)
            axis.set_ylabel(title)
            axis.grid(True, axis="y")
        axes[0, 1].set_ylim(bottom=0)
        return figures.save(figure, out, "uncertain")
