"""`foible study fooling`: images that evolve until a network is sure of them (paper 5, Sec. D, Fig. S4).

    CPPNs, or pixels → MAP-Elites over classes, run after run → confidence by generation, and how alike the images are

What the paper sees by eye is measured: images of one class against those of others, vertical bars of 1, horizontal
ones in the lower half of 2, likeness of 3 and 8.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from foible.studies.common import Result, Row, mean_row, share_row
from foible.studies.easily_fooled import evolved_figures as figures
from foible.studies.easily_fooled.evolved import SURE, VERY_SURE, Evolved, evolved, plan_for, ratio_row, stage, told
from foible.studies.easily_fooled.likeness import Likeness, alike, how_often, lower_horizontal, vertical
from foible.studies.easily_fooled.rows import median_row

PAPER = 99.99  # median confidence after 200 generations, and what every image of Fig. S4 has, %
GENERATIONS = (1, 5, 10, 20, 50, 100, 200)  # of which rows are made
CONFIDENCE, ALIKE, BARS = (
    "Sec. D, Fig. S4: confidence",
    "Sec. D: correlation of images of different runs",
    "Sec. D: bars",
)
SCALES: dict[str, dict[str, Any]] = {
    "quick": {
        "network": "lenet", "images": 4000, "tested": 1000, "steps": 300, "runs": 6, "direct": 3, "generations": 60,
        "population": 100,
    },
    "paper": {
        "network": "", "images": 0, "tested": 0, "steps": 10_000, "runs": 50, "direct": 10, "generations": 200,
        "population": 200,
    },
}  # fmt: skip
NOTES = (
    "The paper: by 200 generations the median confidence is 99.99 %, and Fig. S4 shows 500 images of which the network "
    "is 99.99 % sure. Medians have the interval of order statistics, shares one over runs.",
    "Correlation is of pixels, each image less its own mean; p is of the difference within and between classes, by 999 "
    "permutations of the classes within each run.",
    "Bars: the share of an image's variance that lies between its columns (vertical), or between the rows of its lower "
    "half (horizontal); AUROC is how often an image of the class has more of it than one of another class.",
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
    steps: int = 0,
    images: int = -1,
    runs: int = 0,
    direct: int = 0,
    generations: int = 0,
    population: int = 0,
) -> Result:
    """network: a spec of the zoo. steps: of its training. images: train on so many (0: all). runs, direct: independent
    evolutions of CPPNs, and of pixels. generations, population: of each. 0 takes the scale's own. With `basket` (a
    folder, or specs with blanks between them) nothing is trained, and its first network is fooled."""
    plan = plan_for(
        SCALES[scale], network=network, steps=steps, images=images, runs=runs, direct=direct, generations=generations,
        population=population,
    )  # fmt: skip
    named, used, group = stage(
        plan, [plan["network"]], [seed], scale=scale, data=data, out=out, device=device, basket=basket, quiet=quiet
    )
    suspect = group.names[0]
    how = {"seed": seed, "device": device, "quiet": quiet, "suspects": [suspect],
           "generations": plan["generations"], "population": plan["population"]}  # fmt: skip
    kinds = {
        kind: evolved(group, used, out, kind, encoding=kind, runs=count, **how)[suspect]
        for kind, count in (("cppn", plan["runs"]), ("direct", plan["direct"]))
    }
    settings = {
        "data": named, "network": told(group)[0],
        **{name: plan[name] for name in ("runs", "direct", "generations", "population")},
        **({} if basket else {"steps": plan["steps"], "images": plan["images"] or "all"}),
    }  # fmt: skip
    result = Result("fooling", scale, settings, seed)
    for kind, made in kinds.items():
        result.rows += _confidence(kind, made)
    for kind, made in kinds.items():
        found = alike(made.images, made.run, made.target, seed)
        if found is not None:
            result.rows += _alike(kind, made, found)
            if kind == "cppn":
                names = [made.classes[place] for place in torch.unique(made.target).tolist()]
                title = "Images of different runs"
                result.figures.append(
                    figures.matrix(found.pairs, names, out, "likeness", title, "mean correlation of pixels")
                )
        result.rows += _bars(kind, made)
    for kind, stem, title in (("cppn", "figure-s4", "CPPNs"), ("direct", "direct", "Pixels")):
        made = kinds[kind]
        heading = f"{title}: {len(made.runs)} runs, after {made.marks[-1]} generations"
        result.figures.append(figures.fig_s4(made, out, stem, heading))
    result.figures.append(figures.rising(kinds, out))
    result.notes += NOTES
    return result


def _confidence(kind: str, made: Evolved) -> list[Row]:
    rows, last = [], made.marks[-1]
    for generation in sorted({mark for mark in (*GENERATIONS, last) if mark in made.marks}):
        paper = PAPER if kind == "cppn" and generation == last else None
        quantity = f"{kind}: median after {generation} generation{'s' * (generation > 1)}, %"
        rows.append(median_row(CONFIDENCE, quantity, paper, 100 * made.after(generation).double()))
    own, everyone = made.confidence[0], torch.ones(len(made), dtype=torch.bool)
    for level, paper in ((VERY_SURE, 100.0 if kind == "cppn" else None), (SURE, None)):
        quantity = f"{kind}: images at {100 * level:g} % or more, %"
        rows.append(ratio_row(CONFIDENCE, quantity, paper, own >= level, everyone, made.run))
    reached = [mark for place, mark in enumerate(made.marks) if float(made.trace[place].quantile(0.5)) >= VERY_SURE]
    quantity = f"{kind}: generations until the median is 99.99 % (of the marked ones)"
    rows.append(Row(CONFIDENCE, quantity, None, reached[0] if reached else None, n=len(made)))
    rows.append(mean_row(CONFIDENCE, f"{kind}: least confidence of a run, mean, %", None, _least(made), least=0,
                         most=100))  # fmt: skip
    taken = made.said[0].argmax(1) == made.target
    rows.append(share_row(CONFIDENCE, f"{kind}: the class is the answer, %", None, int(taken.sum()), len(made)))
    return rows


def _least(made: Evolved) -> list[float]:
    own = made.confidence[0]
    return [100 * float(own[made.run == run].min()) for run in made.runs]


def _alike(kind: str, made: Evolved, found: Likeness) -> list[Row]:
    rows = [
        mean_row(ALIKE, f"{kind}: of one class, mean of classes", None, found.within, least=-1, most=1),
        mean_row(ALIKE, f"{kind}: of a class and the others", None, found.between, least=-1, most=1),
        Row(ALIKE, f"{kind}: p of the difference", None, found.p, n=len(made)),
    ]
    classes = torch.unique(made.target).tolist()
    names = [made.classes[place] for place in classes]
    if {"3", "8"} <= set(names):
        one, other = names.index("3"), names.index("8")
        above = torch.ones_like(found.pairs, dtype=torch.bool).triu(1)
        pairs, this = found.pairs[above], found.pairs[one, other]
        rows += [
            Row(ALIKE, f"{kind}: of 3 and 8", None, float(this), n=len(made)),
            Row(ALIKE, f"{kind}: place of 3 and 8 among {len(pairs)} pairs", None, int((pairs > this).sum()) + 1),
        ]
    return rows


def _bars(kind: str, made: Evolved) -> list[Row]:
    rows = []
    for name, words, measure in (
        ("1", "vertical bars", vertical), ("2", "horizontal bars, lower half", lower_horizontal),
    ):  # fmt: skip
        if name not in made.classes:
            continue
        mine = made.target == made.classes.index(name)
        if not bool(mine.any()) or bool(mine.all()):
            continue
        amount = 100 * measure(made.images)
        often, p = how_often(amount[mine], amount[~mine])
        rows += [
            mean_row(BARS, f"{kind}, {words}: {name}, % of the variance", None, amount[mine], least=0, most=100),
            mean_row(BARS, f"{kind}, {words}: other classes", None, amount[~mine], least=0, most=100),
            Row(BARS, f"{kind}, {words}: AUROC of {name}", None, often, n=int(mine.sum())),
            Row(BARS, f"{kind}, {words}: p (Mann–Whitney)", None, p),
        ]
    return rows
