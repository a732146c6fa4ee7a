"""`foible study fooling-ensemble`: does an ensemble of different networks prevent fooling? (paper 5, Sec. B)

    three architectures → images evolve for the mean of their probabilities → how many classes reach 90 %

Beside it, images that evolved against each network alone, under the same mean: what the ensemble is worth against
somebody who has only one of its members. The paper's is of ImageNet's 1,000 classes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from foible.errors import UserError
from foible.studies.common import Result, Row
from foible.studies.easily_fooled import evolved_figures as figures
from foible.studies.easily_fooled.evolved import SURE, VERY_SURE, Evolved, evolved, plan_for, ratio_row, stage, told
from foible.studies.easily_fooled.rows import median_row

LEVEL = 0.9
PAPER = {"share": 23.1, "median": 65.2, "most": 100.0}  # 231 of 1,000 classes; %
TOGETHER, ALONE = "Sec. B: evolved against the mean of the networks", "Evolved against one network, under the mean"
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "networks": "lenet mlp:100 softmax", "images": 4000, "tested": 1000, "steps": 300, "runs": 5, "alone": 2,
        "generations": 50, "population": 80,
    },
    "paper": {
        "networks": "lenet-caffe lenet mlp:300", "images": 0, "tested": 0, "steps": 10_000, "runs": 10, "alone": 10,
        "generations": 200, "population": 200,
    },
}  # fmt: skip


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    networks: str = "",
    steps: int = 0,
    images: int = -1,
    runs: int = 0,
    alone: int = 0,
    generations: int = 0,
    population: int = 0,
) -> Result:
    """networks: specs of the zoo with blanks between them. runs: evolutions against their mean; alone: against each of
    them. steps: of training. images: train on so many (0: all). generations, population: of an evolution. 0 takes the
    scale's own. With `basket` its networks are taken, all of them."""
    plan = plan_for(
        SCALES[scale], networks=networks, steps=steps, images=images, runs=runs, alone=alone, generations=generations,
        population=population,
    )  # fmt: skip
    named, used, group = stage(
        plan, plan["networks"].split(), [seed], scale=scale, data=data, out=out, device=device, basket=basket,
        quiet=quiet,
    )  # fmt: skip
    if len(group.names) < 2:
        raise UserError(f"an ensemble of {group.names[0]!r} alone: expected at least two networks")
    how = {"seed": seed, "device": device, "quiet": quiet, "generations": plan["generations"],
           "population": plan["population"]}  # fmt: skip
    whole = evolved(
        group, used, out, "together", runs=plan["runs"], suspects=group.names[:1], of="all", confidence=LEVEL, **how
    )[group.names[0]]
    each = evolved(group, used, out, "alone", runs=plan["alone"], **how)
    settings = {
        "data": named, "in place of": "ImageNet", "networks": told(group),
        **{name: plan[name] for name in ("runs", "alone", "generations", "population")},
        **({} if basket else {"steps": plan["steps"], "images": plan["images"] or "all"}),
    }  # fmt: skip
    result = Result("fooling-ensemble", scale, settings, seed)
    result.rows += _together(whole)
    for name, made in each.items():
        result.rows += _alone(name, made)
    result.notes += [
        "The paper evolves one archive of 1,000 classes for 4,000 generations against CaffeNet, AlexNet and GoogLeNet; "
        "here are several archives of fewer classes, and a share of images stands for its share of classes.",
        "The confidence is the mean of the networks' probabilities of the class. Shares have intervals over runs.",
    ]
    result.figures.append(figures.fig_s4(whole, out, "ensemble", "Images for the mean of all networks"))
    result.figures.append(figures.rising({"mean of all": whole, **{f"{name} alone": one for name, one in each.items()}},
                                         out))  # fmt: skip
    return result


def mean_confidence(made: Evolved) -> torch.Tensor:
    """(n,): the mean over networks of the probability of the class."""
    return made.confidence.mean(0)


def _together(made: Evolved) -> list[Row]:
    sure, every = mean_confidence(made), torch.ones(len(made), dtype=torch.bool)
    classes = torch.unique(made.target).tolist()
    reached = sum(bool((sure[made.target == place] >= LEVEL).any()) for place in classes)
    rows = [
        ratio_row(TOGETHER, "images at 90 % or more, %", PAPER["share"], sure >= LEVEL, every, made.run),
        Row(TOGETHER, "classes with such an image, %", PAPER["share"], 100 * reached / len(classes), n=len(classes)),
        median_row(TOGETHER, "median confidence, %", PAPER["median"], 100 * sure),
        Row(TOGETHER, "highest confidence, %", PAPER["most"], 100 * float(sure.max()), n=len(made)),
        Row(TOGETHER, "lowest confidence, %", None, 100 * float(sure.min()), n=len(made)),
        ratio_row(TOGETHER, "images at 99 % or more, %", None, sure >= SURE, every, made.run),
        ratio_row(TOGETHER, "images at 99.99 % or more, %", None, sure >= VERY_SURE, every, made.run),
    ]
    for place in classes:
        of = made.target == place
        rows.append(median_row(TOGETHER, f"{made.classes[place]}: median confidence, %", None, 100 * sure[of]))
    return rows


def _alone(name: str, made: Evolved) -> list[Row]:
    sure, every = mean_confidence(made), torch.ones(len(made), dtype=torch.bool)
    return [
        median_row(ALONE, f"{name}: its own confidence, median %", None, 100 * made.confidence[0]),
        median_row(ALONE, f"{name}: the mean's, median %", None, 100 * sure),
        ratio_row(ALONE, f"{name}: images at 90 % or more under the mean, %", None, sure >= LEVEL, every, made.run),
    ]
