"""`foible study fooling-transfer`: do images that fool one network fool another? (paper 5, Sec. A, Table S1, Fig. S1)

    DNN_A and DNN_B, alike but for their first weights → images that evolve against each → what the other one says

Then the same between different architectures (Sec. A.2). On CIFAR-10 the paper's figures are those of ImageNet, for
which it stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.errors import UserError
from foible.studies.common import Result, Row
from foible.studies.easily_fooled import evolved_figures as figures
from foible.studies.easily_fooled.evolved import (
    LENET,
    SURE,
    Evolved,
    evolved,
    mean_of,
    plan_for,
    ratio_row,
    stage,
    told,
)
from foible.studies.easily_fooled.rows import median_row
from foible.text import some

# Table S1: A judging B's images, B judging A's, and their average.
PAPER = {
    "mnist": {"same": (43.3, 48.7, 46.0), "sure": (27.3, 27.3, 27.3), "higher": (88.5, 95.9, 92.2)},
    "imagenet": {"same": (62.8, 65.9, 64.4), "sure": (5.0, 7.2, 6.1), "higher": (95.1, 98.0, 96.6)},
}
OTHER_KINDS = (20.7, 17.3)  # Sec. A.2: GoogLeNet's images under AlexNet, and the other way round
MOST = ("9", "6", "2")  # digits whose images fool both the most
WORDS = {
    "same": "top-1 matches, %",
    "sure": "top-1 matches, both at 99 % or more, %",
    "higher": "of the matches, higher on the original, %",
}
TABLE, BY_CLASS, KINDS = (
    "Table S1: networks that differ only in their first weights",
    "Table S1 by class: top-1 matches, both directions, %",
    "Sec. A.2: different architectures, top-1 matches, %",
)
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "network": "lenet", "others": "mlp:100", "images": 4000, "tested": 1000, "steps": 300, "runs": 6, "few": 3,
        "generations": 60, "population": 100,
    },
    "paper": {
        "network": "", "others": "", "images": 0, "tested": 0, "steps": 10_000, "runs": 30, "few": 10,
        "generations": 200, "population": 200,
    },
}  # fmt: skip
OTHERS = {"cifar10": ("lenet", "cnn4", "mlp:300")}  # architectures of Sec. A.2, by data; elsewhere:
OTHER = ("lenet-caffe", "lenet", "mlp:300")


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
    others: str = "",
    steps: int = 0,
    images: int = -1,
    runs: int = 0,
    few: int = 0,
    generations: int = 0,
    population: int = 0,
) -> Result:
    """network: a spec of the zoo, trained from two seeds. others: specs of other architectures, with blanks between
    them. runs: evolutions against A and B each (30 × 10 classes are the paper's 300 images); few: against each of the
    others. steps: of training. images: train on so many (0: all). generations, population: of an evolution. 0 takes
    the scale's own. With `basket` its first two networks are A and B, and the rest the others."""
    plan = plan_for(
        SCALES[scale], network=network, others=others, steps=steps, images=images, runs=runs, few=few,
        generations=generations, population=population,
    )  # fmt: skip
    how = {"scale": scale, "data": data, "out": out, "device": device, "basket": basket, "quiet": quiet}
    named, used, group = _networks(plan, seed, how)
    a, b, *rest = group.names
    asked = {"seed": seed, "device": device, "quiet": quiet, "generations": plan["generations"],
             "population": plan["population"]}  # fmt: skip
    made = evolved(group, used, out, "twins", runs=plan["runs"], suspects=[a, b], **asked)
    if rest:
        made |= evolved(group, used, out, "others", runs=plan["few"], suspects=rest, **asked)
    settings = {
        "data": named, **({"in place of": "ImageNet"} if named in LENET else {}), "networks": told(group),
        "A": a, "B": b, **{name: plan[name] for name in ("runs", "few", "generations", "population")},
        "images of each": len(made[a]),
        **({} if basket else {"steps": plan["steps"], "trained on": plan["images"] or "all"}),
    }  # fmt: skip
    result = Result("fooling-transfer", scale, settings, seed)
    paper = PAPER["imagenet" if named in LENET else "mnist"]
    result.rows += _table_s1(made, a, b, paper)
    result.rows += _by_class([(made[a], b), (made[b], a)])
    if rest:
        result.rows += _kinds(made, a, b, rest)
    result.notes += _notes(made, a, b)
    result.figures += _figures(made, a, b, list(group.names), out)
    return result


def _networks(plan: dict[str, Any], seed: int, how: dict[str, Any]) -> tuple[str, str, Basket]:
    """Two of one kind, and one of each of the others."""
    named, used, group = stage(plan, [plan["network"]], [seed, seed + 1], **how)
    if how["basket"] is not None:
        if len(group.names) < 2:
            raise UserError(f"the basket holds only {group.names[0]!r}: expected two networks, A and B, or more")
        return named, used, group
    own = plan["network"] or LENET.get(named, "lenet-caffe")
    others = plan["others"].split() or [one for one in OTHERS.get(named, OTHER) if one != own]
    _, _, more = stage(plan, others, [seed], **how)
    return named, used, Basket.open([*(group.source or ()), *(more.source or ())], device=how["device"])


def matches(made: Evolved, judge: str, *, first: bool = False) -> dict[str, tuple[Tensor, Tensor]]:
    """Of the images of a suspect, what Table S1 counts of another network's answers: (hits, of) each (n,).

    first: of the best images of the first generation instead of the last.
    """
    said = made.began if first else made.said
    own, other = said[0], said[made.networks.index(judge)]
    same = own.argmax(1) == other.argmax(1)
    here, there = own.amax(1), other.amax(1)
    every = torch.ones_like(same)
    return {
        "same": (same, every),
        "sure": (same & (here >= SURE) & (there >= SURE), every),
        "higher": (here > there, same),
    }


def _table_s1(made: dict[str, Evolved], a: str, b: str, paper: dict[str, tuple[float, float, float]]) -> list[Row]:
    rows = []
    for kind, words in WORDS.items():
        ours = []
        # As the table has it: A judges the images of B first.
        for place, (suspect, judge) in enumerate(((b, a), (a, b))):
            hits, of = matches(made[suspect], judge)[kind]
            quantity = f"{'AB'[place]} on images of {'BA'[place]}: {words}"
            ours.append(ratio_row(TABLE, quantity, paper[kind][place], hits, of, made[suspect].run))
        rows += [*ours, mean_of(TABLE, f"average: {words}", paper[kind][2], ours)]
    for suspect, judge, letters in ((b, a, "AB"), (a, b, "BA")):
        hits, of = matches(made[suspect], judge, first=True)["same"]
        quantity = f"{letters[0]} on images of {letters[1]}: top-1 matches, first generation, %"
        rows.append(ratio_row(TABLE, quantity, None, hits, of, made[suspect].run))
        sure = 100 * made[suspect].confidence
        other = sure[made[suspect].networks.index(judge)]
        rows.append(median_row(TABLE, f"{letters[0]} on images of {letters[1]}: confidence in their class, median %",
                               None, other))  # fmt: skip
    return rows


def _shares(pairs: Sequence[tuple[Evolved, str]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of all images of these suspects: class, run, whether the answers match, and whether both are sure as well."""
    target = torch.cat([made.target for made, _ in pairs])
    run = torch.cat([made.run + place * 10**6 for place, (made, _) in enumerate(pairs)])
    same, sure = (torch.cat([matches(made, judge)[kind][0] for made, judge in pairs]) for kind in ("same", "sure"))
    return target, run, same, sure


def _by_class(pairs: Sequence[tuple[Evolved, str]]) -> list[Row]:
    target, run, same, sure = _shares(pairs)
    rows = []
    for place in torch.unique(target).tolist():
        of, name = target == place, pairs[0][0].classes[place]
        rows.append(ratio_row(BY_CLASS, f"{name}", None, same, of, run))
        rows.append(ratio_row(BY_CLASS, f"{name}: both at 99 % or more", None, sure, of, run))
    return rows


def ranked(pairs: Sequence[tuple[Evolved, str]]) -> list[int]:
    """Places of classes, that of which most images fool both first: by those both are sure of, then by matches."""
    target, _, same, sure = _shares(pairs)
    order = [
        (-float(sure[target == place].double().mean()), -float(same[target == place].double().mean()), place)
        for place in torch.unique(target).tolist()
    ]
    return [place for *_, place in sorted(order)]


def _kinds(made: dict[str, Evolved], a: str, b: str, rest: Sequence[str]) -> list[Row]:
    rows = []
    for other in rest:
        for suspect, judge, paper in ((other, a, OTHER_KINDS[0]), (a, other, OTHER_KINDS[1])):
            hits, of = matches(made[suspect], judge)["same"]
            rows.append(ratio_row(KINDS, f"{judge} on images of {suspect}", paper, hits, of, made[suspect].run))
    for suspect in (b, *rest):
        for judge in (b, *rest):
            if suspect != judge:
                hits, of = matches(made[suspect], judge)["same"]
                rows.append(ratio_row(KINDS, f"{judge} on images of {suspect}", None, hits, of, made[suspect].run))
    return rows


def _notes(made: dict[str, Evolved], a: str, b: str) -> list[str]:
    best = [made[a].classes[place] for place in ranked([(made[a], b), (made[b], a)])]
    return [
        f"Images of these classes fool both networks the most, the first ones first: {some(best, 10)}. In the paper, "
        f"on MNIST: {', '.join(MOST)}.",
        "Table S1(b) counts from 99 %, as its caption says. Intervals are over runs, since images of one run have "
        "ancestors in common; that of an average takes both directions as independent. Networks are trained once.",
        "The paper's figures of Sec. A.2 are of GoogLeNet and AlexNet: its 20.7 % stands beside images of the other "
        "network under A, its 17.3 % beside those of A.",
    ]


def _figures(made: dict[str, Evolved], a: str, b: str, names: list[str], out: Path) -> list[str]:
    stems = []
    classes = made[a].classes
    best = ranked([(made[a], b), (made[b], a)])[:3]
    shown = [*best, *(classes.index(name) for name in MOST if name in classes and classes.index(name) not in best)]
    pool = torch.cat([made[a].images, made[b].images])
    target, _, _, sure = _shares([(made[a], b), (made[b], a)])
    rows = [(sure & (target == place)).nonzero()[:, 0][:15].tolist() for place in shown]
    if any(rows):
        kept = [(row, classes[place]) for row, place in zip(rows, shown, strict=True) if row]
        stems.append(
            figures.sheet(pool, [row for row, _ in kept], out, "figure-s1", "A and B are both 99 % sure or more",
                          names=[name for _, name in kept])
        )  # fmt: skip
    judged = [name for name in names if name in made]
    pairs = torch.eye(len(judged)).double()
    for row, suspect in enumerate(judged):
        for column, judge in enumerate(judged):
            pairs[row, column] = float(matches(made[suspect], judge)["same"][0].double().mean())
    title = "Images of a network (rows) under another"
    stems.append(figures.matrix(pairs, judged, out, "who-is-fooled", title, "same answer, share"))
    return stems
