"""`foible study boundary --data mnist`, the paper's own: images between two digits, networks of one accuracy, people.

    nine recipes to each accuracy ─┬─▶ Tables 2–4     generator ──▶ 15 walks of 11 images ──▶ people, in the studio
    ten seeds, ten times ──────────┴─▶ Table 5, Fig. 2

Where people have not labelled the images yet, the study says so and gives what needs no people. Everything is kept in
the study's folder, and the same command goes on with it: after people have labelled, it fills in the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from foible.data import load
from foible.data.catalogue import KNOWN
from foible.processes import one_thread
from foible.recipes.boundary.reading import Interpolations, interpolations, people_one_by_one
from foible.studies.boundary import claims, ends, figures, metrics, tables
from foible.studies.boundary.chance import rank_correlation, times
from foible.studies.boundary.networks import OURS, RECIPES
from foible.studies.boundary.sharpness import of_networks, of_people, walks
from foible.studies.boundary.stage import (
    SCALES,
    Judged,
    People,
    crossed_of,
    drawn_with,
    fleets_of,
    generator_of,
    hunted,
    judged,
    made_between,
    nine_of,
    people_of,
    recipes_of,
    told,
)
from foible.studies.boundary.tables import Fleet, percent
from foible.studies.boundary.types import Floats, Ints, Opinion, flips, opinion
from foible.studies.common import Result, Row, fewer, mean_row

ALONG = "Along α: where networks change their mind"
NOTES = (
    "Intervals over images: a bootstrap of whole walks, since images along one are alike. Over repeats: Student's. "
    "Where there is one repeat, its figures and claims are over images, and tell of other images, not of other seeds.",
    "p is one-sided, for the claim, and not corrected for the number of claims. Where there are repeats, claims about "
    "fleets are told twice: over repeats, which tells of other seeds and the same images, and over images (walks drawn "
    "again), which tells of other images and the same networks. Where images are shuffled, p takes them for "
    "independent.",
    "Recipe 3 is another one in each architecture (step and batch; augmentation; decay): the recipes of the two-way "
    "table are the paper's, not one factor. Where it has several seeds a recipe, “both together” is what neither the "
    "architecture nor the recipe does alone; what is left of the variance lies between seeds. Without people its "
    "networks are compared with each other, so that their values hang together, and p is rough.",
    "Types A and C of one network are those of it and another, mean over the others. Accuracy and calibration are of "
    "the test images; κ is Cohen's, of classes, against what most people chose.",
)


def run_between(
    *,
    scale: str,
    named: str,
    out: Path,
    seed: int,
    device: str,
    basket: str | None,
    quiet: bool,
    generator: str,
    images: str,
    given: Mapping[str, Any],
) -> Result:
    """generator: a folder, or the spec of one that is trained. images: a run of `foible boundary make`. given: what
    takes the place of the scale's own plan."""
    plan = SCALES[scale] | {key: value for key, value in given.items() if value}
    if given["targets"]:
        plan["higher"] = given["higher"]
    if given["architectures"] and not given["fleets"]:
        plan["fleets"] = given["architectures"]
    if generator:  # a short one of ours begins with real images: its samples do not show every class
        plan["ends"] = "samples"
    used = fewer(named, plan["images"], out, tested=plan["tested"]) if plan["images"] and named in KNOWN else named
    test = load(used, "test", quiet=quiet)
    how: dict[str, Any] = {"seed": seed, "device": device, "quiet": quiet}
    plan["within"] = max(plan["within"], 1 / len(test))  # of a small test set, one image more or less
    with one_thread():
        folders = {0.0: basket} if basket else nine_of(plan, used, out, how)
        best, drawer = folders[max(folders)], ""
        if generator or not images:
            drawer = generator_of(plan, used, out, generator, how)
        run = Path(images) if images else made_between(plan, used, out / "images", drawer, best, how)
        made = interpolations(run)
        sets, missed = ends.other_ends(plan, used, out, drawer, best, how) if drawer else ({}, [])
        groups = [judged(folder, target, made, test, device) for target, folder in sorted(folders.items())]
        elsewhere = ends.apart(groups, sets, device)
        fleets: list[Fleet] = []
        if not basket:
            fleets, left = fleets_of(plan, used, made.images, made.classes, out, how)
            missed += left
        crossed = [
            {name: own[None] for name, own in zip(group.nine.names, group.nine.said, strict=True) if name in RECIPES}
            for group in groups
        ]
        if not basket and plan["crossed"] > 1 and plan["fleets"] != ["none"]:
            crossed, left = crossed_of(plan, used, made.images, made.classes, out, how)
            missed += left
    people = people_of(run, made)
    settings = {
        "data": named, "images": len(made.ids), "walks": len(np.unique(made.pair)), "run": run.name,
        "people": len(people.one_by_one), "within, %": 100 * plan["within"],
        "networks": {percent(group.nine.target): list(group.nine.names) for group in groups},
        "accuracies, %": {percent(group.nine.target): [round(one, 2) for one in group.nine.accuracy.tolist()]
                          for group in groups},
        "seeds": {f"{one.architecture}, {percent(one.target)}": told(one) for one in fleets},
        **({} if basket else {"recipes": {name: one.told() for name, one in recipes_of(plan).items()}}),
        "seeds in the two-way table": {name: len(said) for name, said in crossed[0].items()},
        "images drawn": drawn_with(run),
        **({"trained on": plan["images"], "tested on": len(test)} if used != named else {}),
        "trials of a hunt": plan["trials"],
    }  # fmt: skip
    result = Result("boundary", scale, settings, seed)
    _rows(result, made, groups, fleets, crossed, people, seed)
    result.rows += ends.rows_of(elsewhere)
    hunts = [hunted(one.folder, used, out / f"hunt-{one.nine.target:g}", plan, how) for one in groups]
    _metrics(result, groups, made, people, hunts)
    result.notes += [*_labelled(run, made, people), *missed, *NOTES, *((ends.NOTE,) if elsewhere else ()),
                     *(() if basket else (OURS,))]  # fmt: skip
    _figures(result, made, groups, fleets, people, out)
    if elsewhere:
        result.figures.append(ends.drawn(elsewhere, groups, out))
    return result


def _labelled(run: Path, made: Interpolations, people: People) -> list[str]:
    """What is missing, and how to get it."""
    if len(people.one_by_one):
        said = f"{len(people.one_by_one)} people labelled all images"
        return [f"{said}; the paper had ten." if len(people.one_by_one) != 10 else f"{said}."]
    some_answer = int((people_one_by_one(run) >= 0).any(0).sum())
    return [
        f"Not labelled yet: {len(made.ids) - some_answer} of {len(made.ids)}. People label them with "
        f"`foible label {run} --annotators 10`, each of them all; then `foible boundary types {run}` takes their "
        "answers in, and this command again gives Tables 2 to 5. What is here needs no people."
    ]


def _rows(
    result: Result, made: Interpolations, groups: Sequence[Judged], fleets: Sequence[Fleet],
    crossed: Sequence[Mapping[str, Ints]], people: People, seed: int,
) -> None:  # fmt: skip
    drawn = times(made.pair, seed)
    labelled = len(people.one_by_one) > 0
    said = opinion(people.counts) if labelled else None
    rows = result.rows
    rows.append(
        Row(tables.PEOPLE, "people who labelled every image", 10, float(len(people.one_by_one)), n=len(made.ids))
    )
    if labelled:
        rows += tables.people_rows(people.one_by_one, people.counts, drawn)
    for group in groups:
        rows += tables.table2(group.nine, said, drawn)
    if labelled:
        for group in groups:
            rows += tables.table3(group.nine, people.counts, people.one_by_one, drawn)
    for group in groups:
        rows += tables.table4(group.nine, said, drawn)
    for fleet in fleets:
        if labelled:
            rows += tables.table5(fleet, people.counts)
    for fleet in fleets:
        rows += tables.figure2(fleet, said, drawn)
    rows += claims.with_accuracy(fleets, said, drawn)
    rows += claims.of_mlps(fleets, said, drawn)
    if said is not None:
        for group in groups:
            rows += claims.softmax_order(group.nine, said)
            rows += claims.like_people(group.nine, people.one_by_one, drawn)
        for fleet in fleets:
            rows += claims.certainties(fleet, people.counts, drawn)
    rows += _factorial(crossed, said)
    rows += _along(made, groups[-1], people)


def _factorial(pools: Sequence[Mapping[str, Ints]], said: Opinion | None) -> list[Row]:
    """What each recipe gets wrong, a value a seed, mean over accuracies; without people, how often another network
    disagrees. pools: by accuracy, by recipe (seeds, images)."""
    each: dict[str, list[Floats]] = {}
    for pool in filter(None, pools):
        everyone = np.concatenate(list(pool.values()))
        wrong = metrics.with_another(everyone) if said is None else (everyone != said.label) & said.agree
        parts = np.split(100 * wrong.mean(1), np.cumsum([len(own) for own in pool.values()])[:-1])
        for name, part in zip(pool, parts, strict=True):
            each.setdefault(name, []).append(part)
    what = "people agree and it says something else, %" if said is not None else "disagrees with another network, %"
    whole = {name: np.mean(parts, 0) for name, parts in each.items() if len(parts) == len(pools)}
    return claims.factorial(whole, what)


def _along(made: Interpolations, group: Judged, people: People) -> list[Row]:
    """Of the most accurate networks: how often they change their answer along a walk, where, and how suddenly."""
    them = walks(made.pair, made.ends, made.alpha)
    sharp, rows = of_networks(group.logits, them), []
    for number, name in enumerate(group.nine.names):
        changes = flips(group.nine.said[number][them.place])
        rows += [
            mean_row(ALONG, f"{name}: changes of its answer on a walk", None, changes.tolist(), least=0),
            mean_row(ALONG, f"{name}: flips at α", None, _sound(sharp.flip[number]), least=0, most=1),
            mean_row(ALONG, f"{name}: width of the flip (p from 0.9 to 0.1), α", None, _sound(sharp.width[number]),
                     least=0, most=1),
        ]  # fmt: skip
    spread = [float(np.std(one, ddof=1)) for walk in sharp.flip.T if len(one := walk[np.isfinite(walk)]) > 1]
    rows.append(
        mean_row(ALONG, "networks apart on one walk: standard deviation of α of the flip", None, spread, least=0)
    )
    if not len(people.one_by_one):
        return rows
    theirs = of_people(people.counts, them)
    rows += [
        mean_row(ALONG, "people: flip at α", None, _sound(theirs.flip), least=0, most=1),
        mean_row(ALONG, "people: width of the flip (p from 0.9 to 0.1), α", None, _sound(theirs.width), least=0,
                 most=1),
        mean_row(ALONG, "network and people: |difference| of α of the flip", None,
                 _sound(np.abs(sharp.flip - theirs.flip)), least=0, most=1),
        mean_row(ALONG, "network less people: width of the flip, α", None, _sound(sharp.width - theirs.width)),
    ]  # fmt: skip
    both = np.isfinite(theirs.flip) & np.isfinite(sharp.flip).any(0)
    if both.sum() > 2:
        found = rank_correlation(np.nanmean(sharp.flip[:, both], 0), theirs.flip[both],
                                         times(np.arange(int(both.sum())), 0))  # fmt: skip
        rows.append(Row(ALONG, "rank correlation over walks of where networks and people flip", None,
                        found.effect, found.low, found.high, found.n))  # fmt: skip
    return rows


def _sound(values: Floats) -> list[float]:
    flat = values.ravel()
    return [float(one) for one in flat[np.isfinite(flat)]]


def _metrics(
    result: Result, groups: Sequence[Judged], made: Interpolations, people: People,
    hunts: Sequence[Mapping[str, metrics.Measured]],
) -> None:  # fmt: skip
    said = opinion(people.counts) if len(people.one_by_one) else None
    drawn = times(made.pair, result.seed)
    tested = times(np.arange(groups[0].right.shape[1]), result.seed)
    networks: dict[str, dict[str, metrics.Measured]] = {}
    for group, found in zip(groups, hunts, strict=True):
        others = metrics.against_others(group.nine.said, said, drawn)
        for number, name in enumerate(group.nine.names):
            own = {
                "accuracy": metrics.share(group.right[number], tested),
                "calibration": metrics.calibration(group.right[number], group.sure[number], tested),
            }
            if said is not None:
                known, answers = said.label >= 0, group.nine.said[number]
                own["kappa"] = metrics.kappa(answers[known], said.label[known], drawn[:, known])
                own["majority"] = metrics.share((answers == said.label)[known], drawn[:, known])
            hunt = {"hunt": found[name]} if name in found else {}
            networks[f"{percent(group.nine.target)}, {name}"] = own | others[number] | hunt
    result.rows += metrics.rows_of(networks)
    rows, words = metrics.foretells(networks, result.seed)
    result.rows += rows
    result.notes.append(words)


def _figures(
    result: Result, made: Interpolations, groups: Sequence[Judged], fleets: Sequence[Fleet], people: People, out: Path
) -> None:
    them = walks(made.pair, made.ends, made.alpha)
    counts = people.counts if len(people.one_by_one) else None
    said = None if counts is None else opinion(counts)
    shown = next(
        (row for row, both in enumerate(them.ends.tolist()) if [made.classes[one] for one in both] == ["1", "3"]), 0
    )
    result.figures.append(figures.one_walk(made.images, them, made.classes, shown, out))
    if fleets:
        result.figures.append(figures.with_accuracy(fleets, said, out))
    result.figures.append(figures.sheet(made.images, them, made.classes, counts, out))
    drawn = [one for one in fleets if one.architecture == "CNN"] or fleets[:1]
    if drawn:
        result.figures.append(figures.who_disagrees(drawn[:3], them, made.classes, counts, out))
    top = groups[-1]
    theirs = None if counts is None else of_people(counts, them)
    result.figures.append(
        figures.where_flips(top.nine.names, of_networks(top.logits, them), theirs, them, made.classes, out)
    )
