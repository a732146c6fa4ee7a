"""`foible study boundary --data cifar10 --humans cifar10h`: paper 4's types on real people, some fifty an image.

    networks → what each says of the test images, beside what people say → types A, B and C

"People agree" is a threshold there, and fifty people disagree more easily than ten: both are varied.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from foible.basket import Basket
from foible.data import load
from foible.data.catalogue import KNOWN
from foible.errors import UserError
from foible.processes import one_thread
from foible.studies.boundary import claims, figures, metrics, paper, tables
from foible.studies.boundary.chance import rank_correlation, times
from foible.studies.boundary.networks import Recipe
from foible.studies.boundary.stage import fleets_of, hunted, specs_of, told
from foible.studies.boundary.types import (
    Bools,
    Floats,
    Ints,
    certainty,
    fewer_people,
    opinion,
    pairwise,
    types_of,
    unanimous,
    wrong_by_any,
    wrong_by_model,
)
from foible.studies.common import Result, Row, basket_for, fewer, mean_row, share_row
from foible.studies.labels.people import majority, read_people

MODELS, TYPES, TABLE4, CERTAIN, COUNT = (
    "Table 2: networks on images, % of the data set",
    "Table 3: types, % of the data set",
    "Table 4: maximum softmax, by type",
    "Table 5: certainty of the networks by that of people",
    "Boundary cases by the number of people, % of the data set",
)
AT = 98.5  # the accuracy whose figures of the paper stand beside the measured ones
THRESHOLDS, CROWDS, BANDS = (
    (1.0, 0.95, 0.9, 0.8, 0.7),
    (2, 5, 10, 20, 40),
    ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0)),
)
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "networks": ("lenet", "mlp:64"), "few": 3000, "tested": 2000, "epochs": 4, "trials": 10, "patience": 30,
        "targets": (), "higher": (), "repeats": 2, "seeds": 2, "within": 0.02,
        "specs": {"mlp4": "mlp:64", "cnn4": "lenet", "vit4": "vit4:patch=16"},
    },
    "paper": {
        "networks": ("cnn4", "resnet:20", "resnet:32"), "few": 0, "tested": 5000, "epochs": None, "trials": 200,
        "patience": 250, "targets": (0.45, 0.5), "higher": (0.6, 0.7), "repeats": 1, "seeds": 10, "within": 0.005,
        "specs": {},
    },
}  # fmt: skip


def run_photographs(
    *,
    scale: str,
    named: str,
    out: Path,
    seed: int,
    device: str,
    basket: str | None,
    quiet: bool,
    people: str,
    crowd: int,
    given: Mapping[str, Any],
) -> Result:
    """people: a file of counts (images, classes), where it is not CIFAR-10H. given: what takes the place of the plan's
    own. With a basket, networks of matched accuracies are trained only where `targets` asks for them."""
    plan = SCALES[scale] | {key: value for key, value in given.items() if value}
    targets = plan["targets"] if basket is None or given["targets"] else ()
    whole = load(named, "test", quiet=quiet)
    counts = read_people(people, whole.labels, len(whole.classes))
    used, start = named, 0
    if named in KNOWN and 0 < plan["few"] < len(whole) and (basket is None or targets):
        used = fewer(named, plan["few"], out, tested=min(plan["tested"], len(whole) - plan["few"]))
        start = plan["few"] if used != named else 0
    test = load(used, "test", quiet=quiet) if start else whole
    counts = counts[start : start + len(test)]
    how: dict[str, Any] = {"seed": seed, "device": device, "quiet": quiet}
    group = (
        Basket.open(basket, device=device) if basket else
        basket_for(plan["networks"], used, out, epochs=plan["epochs"], **how)
    )  # fmt: skip
    if len(group) < 2:
        raise UserError(f"the basket has {len(group)} network: where networks disagree takes two or more")
    with one_thread():
        sure = group.predict(test.images).softmax(2)
        wanted = plan | {"targets": targets, "higher": given["higher"] if given["targets"] else plan["higher"]}
        fleets, missed = fleets_of(wanted, used, test.images, test.classes, out, how) if targets else ([], [])
    place = [group.classes.index(name) for name in test.classes]
    said, most = sure[..., place].argmax(2).numpy(), sure.amax(2).double().numpy()
    settings = {
        "data": named, "people": people or "CIFAR-10H", "networks": list(group.names), "people an image": crowd,
        "images": len(test), "trials of a hunt": plan["trials"],
        **({"trained on": start, "of": "the test split"} if start and not basket else {}),
    }  # fmt: skip
    if fleets:
        specs = specs_of(plan | {"architectures": []})
        settings["matched"] = {f"{one.architecture}, {one.target:g} %": told(one) for one in fleets}
        settings["recipes"] = {one.architecture: Recipe(specs[one.architecture]).told() for one in fleets}
    result = Result("boundary", scale, settings, seed)
    few = fewer_people(counts, crowd, seed)
    drawn = times(np.arange(len(test)), seed)
    _models(result, said, few)
    shares = _types(result, said, counts, few, crowd, drawn)
    _softmax(result, said, most, few)
    _certain(result, said, counts, few, crowd, drawn)
    for fleet in fleets:
        result.rows += [*tables.figure2(fleet, opinion(few), drawn), *tables.table5(fleet, few)]
    result.rows += [*claims.with_accuracy(fleets, opinion(few), drawn), *claims.of_mlps(fleets, opinion(few), drawn)]
    hunts = hunted(basket or group, used, out / "hunt", plan, how)
    _networks(result, group.names, said, most, test.labels.numpy(), counts, few, drawn, hunts)
    boundary = _count(result, counts, drawn)
    ticks: dict[str, list[float]] = {"threshold": [100 * one for one in THRESHOLDS], "people": list(CROWDS)}
    result.figures.append(figures.types_by_people(shares, ticks, boundary, out))
    if fleets:
        result.figures.append(figures.with_accuracy(fleets, opinion(few), out))
    result.notes += [
        "The paper: nine networks of 98.5 % on 165 images between two digits, ten people. Here: photographs, other "
        "networks, other people; the columns stand side by side to be read, not to be equal.",
        "CIFAR-10H holds counts and not who said what: κ is error consistency, against the majority.",
        "People agree where all of those drawn chose one class, unless a threshold is named. What fewer people would "
        "say is the mean over all ways to draw them; its interval is over images.",
        *(("Claims about networks of matched accuracies are told over repeats (other seeds, the same images) and over "
           "images (other images, the same networks); where there is one repeat, figures and claims are over images "
           "alone.",) if fleets else ()),
        *missed,
    ]  # fmt: skip
    return result


def _models(result: Result, said: Ints, counts: Ints) -> None:
    people, each = opinion(counts), 100 * wrong_by_model(said, opinion(counts))
    n = said.shape[1]
    result.rows += [
        mean_row(MODELS, "people agree, a network says something else, mean over networks", paper.PER_MODEL[AT][0],
                 each),
        Row(MODELS, "… some network does", paper.ACROSS[AT][0], 100 * wrong_by_any(said, people), n=n),
        mean_row(MODELS, "two networks disagree, mean over pairs", paper.PAIRS[AT][0], 100 * pairwise(said)),
        Row(MODELS, "not all networks agree", paper.NINE[AT][0], 100 * float(tables.disagree(said).mean()), n=n),
    ]  # fmt: skip


def _types(
    result: Result, said: Ints, counts: Ints, few: Ints, crowd: int, drawn: Floats
) -> dict[str, dict[str, list[float]]]:
    """Shares by threshold and by number of people, which the figure shows."""
    words = tables.WORDS

    def row(name: str, mask: Bools, what: str, known: float | None) -> float:
        result.rows.append(share_row(TYPES, f"{words[name]}; {what}", known, int(mask.sum()), len(mask)))
        return 100 * float(mask.mean())

    for name, mask in types_of(said, opinion(few))._asdict().items():
        row(name, mask, f"{crowd} people", paper.TYPES.get(name, {}).get(AT))
    split = tables.disagree(said)
    shares: dict[str, dict[str, list[float]]] = {"threshold": {}, "people": {}}
    for name in ("a", "c"):
        shares["threshold"][name] = [
            row(name, types_of(said, opinion(counts, one))._asdict()[name], f"all people, {one:.0%} is agreement", None)
            for one in THRESHOLDS
        ]
        shares["people"][name] = []
        for many in CROWDS:
            whole = unanimous(counts, many)
            each = split * whole if name == "a" else ~split * (1 - whole)
            found = metrics.share(each, drawn)
            result.rows.append(Row(TYPES, f"{words[name]}; {many} people drawn", None, *found))
            shares["people"][name].append(found.value)
    return shares


def _count(result: Result, counts: Ints, drawn: Floats) -> Floats:
    """(numbers of people, 3): on how many images they disagree, with the interval."""
    found = []
    for many in CROWDS:
        one = metrics.share(1 - unanimous(counts, many), drawn)
        result.rows.append(Row(COUNT, f"{many} people: not all agree", None, *one))
        found.append((one.value, one.low, one.high))
    return np.array(found)


def _softmax(result: Result, said: Ints, most: Floats, counts: Ints) -> None:
    for name, mask in types_of(said, opinion(counts))._asdict().items():
        known = paper.SOFTMAX.get(name, {}).get(AT, paper.NOTHING)[0]
        result.rows.append(mean_row(TABLE4, tables.WORDS[name], known, most[:, mask].ravel(), least=0, most=1))


def _certain(result: Result, said: Ints, counts: Ints, few: Ints, crowd: int, drawn: Floats) -> None:
    sure, people = certainty(said), opinion(counts)
    for low, high in BANDS:
        mask = (people.share > low) & (people.share <= high)
        result.rows.append(
            mean_row(CERTAIN, f"people {low:.0%} to {high:.0%} certain", None, 100 * sure[mask], least=0, most=100)
        )
    for level, mask in tables.levels(few).items():
        result.rows.append(
            mean_row(CERTAIN, f"{crowd} people {level} % certain", None, 100 * sure[mask], least=0, most=100)
        )
    for what, mask in (("", np.ones(len(sure), bool)), (f", where {crowd} people disagree", ~opinion(few).agree)):
        if mask.sum() > 2:
            share = people.share if not what else opinion(few).share
            found = rank_correlation(sure[mask], share[mask], _some(drawn, mask))
            result.rows.append(
                Row(CERTAIN, f"rank correlation of the two{what}", None, found.effect, found.low, found.high, found.n)
            )


def _some(drawn: Floats, mask: Bools) -> Floats:
    kept = drawn[:, mask]
    return np.asarray(kept[kept.sum(1) > 0])


def _networks(
    result: Result, names: tuple[str, ...], said: Ints, most: Floats, labels: Ints, counts: Ints, few: Ints,
    drawn: Floats, hunts: Mapping[str, metrics.Measured],
) -> None:  # fmt: skip
    people = majority(counts)
    known = people >= 0
    theirs = (people == labels).astype(np.int64)
    others = metrics.against_others(said, opinion(few), drawn)
    networks = {}
    for number, name in enumerate(names):
        right = said[number] == labels
        networks[name] = {
            "accuracy": metrics.share(right, drawn),
            "calibration": metrics.calibration(right, most[number], drawn),
            "kappa": metrics.kappa(right[known].astype(np.int64), theirs[known], drawn[:, known]),
            "majority": metrics.share((said[number] == people)[known], drawn[:, known]),
            **others[number],
            **({"hunt": hunts[name]} if name in hunts else {}),
        }
    result.rows += metrics.rows_of(networks)
    if hunts:
        rows, words = metrics.foretells(networks, result.seed)
        result.rows += rows
        result.notes.append(words)
