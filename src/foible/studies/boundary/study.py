"""`foible study boundary --data cifar10`: paper 4's types on real people, some fifty for each image of CIFAR-10H.

    networks → what each says of the test images, beside what people say → types A, B and C

"People agree" is a threshold there, and fifty people disagree more easily than ten: both are varied. The paper's own
set, drawn by a GAN between two classes, has no labels of people here yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foible import figures
from foible.basket import Basket
from foible.data import load
from foible.errors import UserError
from foible.processes import one_thread
from foible.studies.boundary.types import (
    Ints,
    certainty,
    error_consistency,
    fewer_people,
    opinion,
    pairwise,
    types_of,
    wrong_by_any,
    wrong_by_model,
)
from foible.studies.common import Result, Row, basket_for, mean_row, share_row
from foible.studies.labels.people import majority, read_people

MODELS, TYPES, TABLE4, CERTAIN, BY_NETWORK = (
    "Table 2: networks on images, % of the data set",
    "Table 3: types, % of the data set",
    "Table 4: maximum softmax, by type",
    "Table 5: certainty of the networks by that of people",
    "Each network: accuracy and agreement with people",
)
PAPER = {"pairs": 7.4, "all": 18.2, "per": 3.5, "any": 7.3, "a": 7.3, "c": 8.5}  # at 98.5 %, nine networks, ten people
SOFTMAX = {"a": 0.83, "both_disagree": 0.89, "both_agree": 0.99, "c": 0.97}
WORDS = {
    "a": "A: networks disagree, people agree", "both_disagree": "B: both disagree", "both_agree": "B: both agree",
    "c": "C: networks agree, people disagree", "against": "both agree, on different classes",
}  # fmt: skip
THRESHOLDS, CROWDS, BANDS = (
    (1.0, 0.95, 0.9, 0.8, 0.7),
    (5, 10, 20, 40),
    ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0)),
)
SCALES: dict[str, dict[str, Any]] = {
    "quick": {"networks": ("lenet", "mlp:64"), "epochs": 1},
    "paper": {"networks": ("cnn4", "resnet:20", "resnet:32"), "epochs": None},
}


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
    crowd: int = 10,
) -> Result:
    """people: a file of counts (images, classes), where it is not CIFAR-10H. crowd: of how many people an image is
    judged in the tables that have the paper's figures beside them, ten as in the paper."""
    named = data or "cifar10"
    if named == "mnist":
        raise UserError(
            "the images between two digits are not labelled yet: 0 of 165. Give --data cifar10, whose test images some "
            "fifty people each have labelled (CIFAR-10H)"
        )
    test, plan = load(named, "test", quiet=quiet), SCALES[scale]
    counts = read_people(people, len(test), len(test.classes))
    group = (
        Basket.open(basket, device=device) if basket else
        basket_for(plan["networks"], named, out / "basket", seed=seed, device=device, quiet=quiet,
                   epochs=plan["epochs"])
    )  # fmt: skip
    if len(group) < 2:
        raise UserError(f"the basket has {len(group)} network: where networks disagree takes two or more")
    with one_thread():
        sure = group.predict(test.images).softmax(2)
    said, most = sure.argmax(2).numpy(), sure.amax(2).double().numpy()
    settings = {
        "data": named, "people": people or "CIFAR-10H", "networks": list(group.names), "people an image": crowd,
        "images": len(test),
    }  # fmt: skip
    result = Result("boundary", scale, settings, seed)
    few = fewer_people(counts, crowd, seed)
    _models(result, said, few)
    shares = _types(result, said, counts, few, crowd, seed)
    _softmax(result, said, most, few)
    _certain(result, said, counts)
    _networks(result, group, said, test.labels.numpy(), counts)
    result.figures.append(_figure(shares, out))
    result.notes += [
        "The paper: nine networks of 98.5 % on 165 images between two digits, ten people. Here: photographs, other "
        "networks, other people; the columns stand side by side to be read, not to be equal.",
        "CIFAR-10H holds counts and not who said what: error consistency is against the majority.",
        "People agree where all of those drawn chose one class, unless a threshold is named.",
    ]
    return result


def _models(result: Result, said: Ints, counts: Ints) -> None:
    people, each = opinion(counts), 100 * wrong_by_model(said, opinion(counts))
    pairs = 100 * pairwise(said)
    result.rows += [
        mean_row(MODELS, "people agree, a network says something else, mean over networks", PAPER["per"], each),
        Row(MODELS, "… some network does", PAPER["any"], 100 * wrong_by_any(said, people), n=said.shape[1]),
        mean_row(MODELS, "two networks disagree, mean over pairs", PAPER["pairs"], pairs),
        Row(MODELS, "not all networks agree", PAPER["all"], 100 * float((said != said[0]).any(0).mean()),
            n=said.shape[1]),
    ]  # fmt: skip


def _types(
    result: Result, said: Ints, counts: Ints, few: Ints, crowd: int, seed: int
) -> dict[str, dict[str, list[float]]]:
    """Shares by threshold and by number of people, which the figure shows."""

    def row(name: str, mask: Any, what: str, paper: float | None) -> float:
        result.rows.append(share_row(TYPES, f"{WORDS[name]}; {what}", paper, int(mask.sum()), len(mask)))
        return 100 * float(mask.mean())

    for name, mask in types_of(said, opinion(few))._asdict().items():
        row(name, mask, f"{crowd} people", PAPER.get(name))
    shares: dict[str, dict[str, list[float]]] = {"threshold": {}, "people": {}}
    for name in ("a", "c"):
        shares["threshold"][name] = [
            row(name, types_of(said, opinion(counts, one))._asdict()[name], f"all people, {one:.0%} is agreement", None)
            for one in THRESHOLDS
        ]
        shares["people"][name] = [
            row(name, types_of(said, opinion(fewer_people(counts, many, seed)))._asdict()[name], f"{many} people drawn",
                None)
            for many in CROWDS
        ]  # fmt: skip
    return shares


def _softmax(result: Result, said: Ints, most: Any, counts: Ints) -> None:
    for name, mask in types_of(said, opinion(counts))._asdict().items():
        result.rows.append(
            mean_row(TABLE4, WORDS[name], SOFTMAX.get(name), most[:, mask].ravel(), least=0, most=1)
        )  # fmt: skip


def _certain(result: Result, said: Ints, counts: Ints) -> None:
    from scipy.stats import spearmanr

    sure, people = certainty(said), opinion(counts)
    for low, high in BANDS:
        mask = (people.share > low) & (people.share <= high)
        result.rows.append(
            mean_row(CERTAIN, f"people {low:.0%} to {high:.0%} certain", None, 100 * sure[mask], least=0, most=100)
        )
    result.rows.append(
        Row(CERTAIN, "rank correlation of the two", None, float(spearmanr(sure, people.share).statistic), n=len(sure))
    )


def _networks(result: Result, group: Basket, said: Ints, labels: Ints, counts: Ints) -> None:
    people = majority(counts)
    known = people >= 0
    theirs = people[known] == labels[known]
    for name, own in zip(group.names, said, strict=True):
        right = own == labels
        result.rows += [
            Row(BY_NETWORK, f"{name}: accuracy, %", None, 100 * float(right.mean()), n=len(right)),
            Row(BY_NETWORK, f"{name}: error consistency with the majority of people, κ", None,
                error_consistency(right[known], theirs), n=int(known.sum())),
            Row(BY_NETWORK, f"{name}: says what most people say, %", None, 100 * float((own == people)[known].mean()),
                n=int(known.sum())),
        ]  # fmt: skip


def _figure(shares: dict[str, dict[str, list[float]]], out: Path) -> str:
    with figures.style():
        figure, axes = figures.new(1, 2, size=(7.2, 2.8), sharey=True)
        ticks = {"threshold": [100 * one for one in THRESHOLDS], "people": list(CROWDS)}
        labels = {"threshold": "people agree from, %", "people": "people an image"}
        for axis, what in zip(axes[0], shares, strict=True):
            for name, word in (("a", "A: networks disagree, people agree"), ("c", "C: the reverse")):
                axis.plot(ticks[what], shares[what][name], marker="o", label=word)
            axis.set_xlabel(labels[what])
        axes[0, 0].set_ylabel("% of the images")
        axes[0, 0].legend()
        return figures.save(figure, out, "types")
