"""`foible study ascent`: images that climb to a class from the mean of the data (paper 5, Sec. E, Figs. S5–S9).

    the mean and a little noise → gradient ascent, without and with three regularisations → images, start by start

ImageNet is not at hand: CIFAR-10 stands in for it, under a small network; `--basket` takes others. Beyond the paper:
how alike images of different starts are, whether a network of another seed agrees (what a picture of a class should
do), how smooth and how sparse the images are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket.accuracy import answers
from foible.errors import UserError
from foible.progress import progress
from foible.studies.common import Result, Row, data_for, mean_row, share_row
from foible.studies.easily_fooled import figures
from foible.studies.easily_fooled.rows import median_row
from foible.studies.easily_fooled.stage import (
    FIGURES,
    WAYS,
    Climbed,
    Stage,
    chosen_classes,
    climb,
    open_stage,
    real_logits,
    stand_in,
)

MEAN_S5 = 98.591  # the average confidence of Fig. S5
SURE = 0.99
CONFIDENCE, REACHED, ALIKE, OTHERS, LOOK = (
    "Confidence of the images, as a PNG holds them",
    "On the way",
    "Starts of one class (Figs. S8, S9): correlation of images less the mean",
    "Another network",
    "What the images look like",
)
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "network": "lenet-caffe", "images": 4000, "tested": 1000, "epochs": 3, "starts": 3, "steps": 250,
        "classes": "20",
    },
    "paper": {
        "network": "lenet", "images": 0, "tested": 0, "epochs": 5, "starts": 5, "steps": 0, "classes": "20",
    },
}  # fmt: skip
NOTES = (
    "S5, S6 and S7 are the paper's figures; plain is S5 without decay. Steps, decay, blur and step lengths are those "
    "behind the paper's figures, but for runs with fewer steps, which say so in the settings.",
    "S5 is there a second time, with late 0.1, the default of the authors' program: a climb rests where a step gains "
    "what decay takes, so that late / decay decides how far it goes.",
    "The paper says that S7 has a lower learning rate; in the settings behind the figures its steps are as long as "
    "those of S6. It has no figure for S6 and S7 but that many classes of S7 never reach 99 %.",
    "Means have Student's interval, over images or, for correlations, over classes; shares Wilson's; medians that of "
    "order statistics.",
)


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
    epochs: int = 0,
    images: int = -1,
    starts: int = 0,
    steps: int = 0,
    classes: str = "",
) -> Result:
    """network: a spec of the zoo, trained twice. epochs, starts, steps: 0 takes the scale's own (of steps, at paper
    scale, each preset's own). images: train on so many (0: all). classes: how many, or names with ; between them.
    With `basket` (a folder, or specs with blanks between them) nothing is trained; its first network is climbed."""
    plan = dict(SCALES[scale])
    given = {"network": network, "epochs": epochs, "starts": starts, "steps": steps, "classes": classes}
    plan |= {name: value for name, value in given.items() if value} | ({"images": images} if images >= 0 else {})
    for name in ("starts", "epochs", "steps"):
        if plan[name] < (0 if name == "steps" else 1):
            raise UserError(f"{name} is {plan[name]}: expected at least 1")
    named = data_for(data, scale) if scale == "quick" else stand_in(data)
    stage = open_stage(named, plan, out, seed=seed, device=device, basket=basket, quiet=quiet)
    places = chosen_classes(stage.basket, plan["classes"], seed)
    settings: dict[str, Any] = {
        "data": named, **({} if basket else {"in place of": "ImageNet"}),
        "networks": list(stage.basket.names), "climbed": stage.suspect,
        "classes": len(places), **{name: plan[name] for name in ("starts", "steps")},
        **({} if basket else {name: plan[name] for name in ("network", "epochs", "images")}),
        **{name: _words(name) for name in WAYS},
    }  # fmt: skip
    result = Result("ascent", scale, settings, seed)
    labels, logits = real_logits(stage)
    for name, said in zip(stage.everyone, answers(logits), strict=True):
        result.rows.append(share_row("Accuracy", f"{name}, %", None, int((said == labels).sum()), len(labels)))
    climbs = {}
    with progress("Climbing", len(WAYS), quiet=quiet) as bar:
        for name in WAYS:
            climbs[name] = climb(stage, name, places, plan["starts"], seed, plan["steps"])
            bar.advance(note=name)
    result.rows += [row for name, climbed in climbs.items() for row in _confidence(name, climbed)]
    result.rows += [row for name, climbed in climbs.items() for row in _reached(name, climbed)]
    result.rows += [row for name, climbed in climbs.items() for row in _alike(name, climbed, stage.mean.cpu())]
    result.rows += [row for name, climbed in climbs.items() for row in _others(name, climbed, stage)]
    result.rows += [row for name, climbed in climbs.items() for row in _look(name, climbed, stage.mean.cpu())]
    result.figures += _figures(climbs, stage, out)
    broken = sum(int(climbed.came.invalid.sum()) for climbed in climbs.values())
    result.notes += [*NOTES, *([f"{broken} images are left out: the network was not a number."] if broken else [])]
    return result


def _words(name: str) -> str:
    how, plain = WAYS[name], WAYS["plain"]
    parts = [f"{how.steps} steps", f"late {how.late:g}"]
    parts += [
        f"{field.replace('_', ' ')} {getattr(how, field):g}"
        for field in ("decay", "blur", "blur_every", "small_norms", "small_contributions")
        if getattr(how, field) != getattr(plain, field)
    ]
    return ", ".join(parts)


def _confidence(name: str, climbed: Climbed) -> list[Row]:
    sure, what = climbed.confidence, FIGURES[name]
    known, paper = sure[sure.isfinite()], MEAN_S5 if name in ("decay", "longer") else None
    first = sure[0][sure[0].isfinite()]
    return [
        mean_row(CONFIDENCE, f"{what}: mean, %", paper, 100 * known, least=0, most=100),
        median_row(CONFIDENCE, f"{what}: median, %", None, 100 * known),
        share_row(CONFIDENCE, f"{what}: at least 99.99 %, % of images", None, int((known >= 0.9999).sum()), len(known)),
        Row(CONFIDENCE, f"{what}: classes below 99 %, first start", None, int((first < SURE).sum()), n=len(first)),
        Row(
            CONFIDENCE, f"{what}: classes below 99 % from every start", None,
            int((sure.nan_to_num(0).amax(0) < SURE).sum()), n=len(climbed.classes),
        ),
    ]  # fmt: skip


def _reached(name: str, climbed: Climbed) -> list[Row]:
    trace, steps = climbed.came.trace.cpu(), torch.tensor(climbed.came.steps)
    over = trace >= SURE
    ever = over.any(0)
    at = steps[over.int().argmax(0)][ever]
    return [
        share_row(REACHED, f"{FIGURES[name]}: never reach 99 %, % of images", None, int((~ever).sum()), len(ever)),
        median_row(REACHED, f"{FIGURES[name]}: steps to 99 %, of those that do", None, at.tolist()),
    ]


def _unit(images: Tensor, mean: Tensor) -> Tensor:
    """(starts, classes, values) of length 1: their products are correlations of what was added to the mean."""
    return torch.nn.functional.normalize((images - mean).flatten(2), dim=2)


def _alike(name: str, climbed: Climbed, mean: Tensor) -> list[Row]:
    flat, starts, classes = _unit(climbed.images, mean), climbed.starts, len(climbed.classes)
    if starts < 2 or classes < 2:
        return []
    same = torch.einsum("scv,tcv->cst", flat, flat)
    apart = ~torch.eye(starts, dtype=torch.bool)
    other = torch.einsum("scv,sdv->scd", flat, flat)
    beside = ~torch.eye(classes, dtype=torch.bool)
    each = torch.stack([other[:, place, beside[place]].mean() for place in range(classes)])
    return [
        mean_row(ALIKE, f"{FIGURES[name]}: same class, other start", None, same[:, apart].mean(1), least=-1, most=1),
        mean_row(ALIKE, f"{FIGURES[name]}: other class, same start", None, each, least=-1, most=1),
    ]


def _others(name: str, climbed: Climbed, stage: Stage) -> list[Row]:
    """What each of the others says of the images; they are named where there are several."""
    aims, rows = torch.tensor(climbed.classes).repeat(climbed.starts), []
    for other, logits in zip(stage.everyone[1:], climbed.came.logits[1:].cpu(), strict=True):
        who = f"{FIGURES[name]}, {other}" if len(stage.everyone) > 2 else FIGURES[name]
        right = answers(logits[None])[0] == aims
        sure = logits.double().softmax(-1).gather(1, aims[:, None])[:, 0]
        rows += [
            share_row(OTHERS, f"{who}: says the same class, %", None, int(right.sum()), len(right)),
            median_row(OTHERS, f"{who}: its confidence in the class, median %", None, 100 * sure),
        ]
    return rows


def _look(name: str, climbed: Climbed, mean: Tensor) -> list[Row]:
    apart = (climbed.images - mean).flatten(0, 1)
    rms = apart.square().mean((1, 2, 3)).sqrt()
    near = (apart[..., 1:] * apart[..., :-1]).mean((1, 2, 3)) / apart.square().mean((1, 2, 3)).clamp_min(1e-12)
    still = 100 * (apart.abs().amax(1) < 1.5 / 255).float().mean((1, 2))
    what = FIGURES[name]
    return [
        mean_row(LOOK, f"{what}: root mean square of the change", None, rms, least=0),
        mean_row(LOOK, f"{what}: correlation of neighbouring pixels", None, near, least=-1, most=1),
        mean_row(LOOK, f"{what}: pixels that stayed at the mean, %", None, still, least=0, most=100),
    ]


def _figures(climbs: dict[str, Climbed], stage: Stage, out: Path) -> list[str]:
    names = stage.basket.classes
    stems = {"plain": "plain", "decay": "figure-s5", "sparse": "figure-s6", "blur": "figure-s7"}
    stems["longer"] = "figure-s5-late"
    made = [
        figures.sheet(climbed, names, stage.mean, out, stems[name], f"{FIGURES[name]}: less the mean, and as it is")
        for name, climbed in climbs.items()
    ]
    for name, stem in (("decay", "figure-s8"), ("blur", "figure-s9")):
        if climbs[name].starts > 1:
            title = f"{FIGURES[name]}: a row a start"
            made.append(figures.variety(climbs[name], names, stage.mean, out, stem, title))
    return [*made, figures.rising(climbs, out)]
