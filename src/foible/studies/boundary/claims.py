"""What paper 4 claims, tested: an effect with its interval, then p and the verdict, for each claim.

p is one-sided, for the claim; that of "no correlation" is two-sided. Nothing is corrected for the number of claims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from foible.studies.boundary import paper
from foible.studies.boundary.chance import (
    Effect,
    above_nothing,
    differ,
    interval,
    over_images,
    rank_correlation,
    two_way,
    verdict,
)
from foible.studies.boundary.tables import Fleet, Nine, apart, fleet_types, percent
from foible.studies.boundary.types import Floats, Ints, Opinion, certainty, opinion, types_of
from foible.studies.common import Row, mean_row

CLAIMS, FACTORIAL = "Claims", "Architecture × recipe"
OVER_IMAGES = ", over images"  # of the same networks; without these words over repeats, where there are any
MLP = paper.ARCHITECTURES["mlp4"]
DIGITS = "0123456789"


def rows_for(claim: str, effect: str, found: Effect, said: str | None = None) -> list[Row]:
    """The effect, and p with the verdict. said: another verdict than that of a one-sided p."""
    low, high = (value if math.isfinite(value) else None for value in (found.low, found.high))
    measured, p = (value if math.isfinite(value) else None for value in (found.effect, found.p))
    return [
        Row(CLAIMS, f"{claim}: {effect}", None, measured, low, high, found.n),
        Row(CLAIMS, f"{claim}: p ({said or verdict(found)})", None, p, n=found.n),
    ]


def with_accuracy(fleets: Sequence[Fleet], people: Opinion | None, drawn: Floats) -> list[Row]:
    """A falls and C rises with accuracy, by architecture: the slope of each repeat over the accuracies it reached, and
    of each image. Without people: ten seeds disagree on fewer images."""
    rows, effect = [], "% of the images for each % of accuracy"
    signs = {"A": -1, "C": 1} if people is not None else {"disagree": -1}
    for name in _architectures(fleets):
        mine = sorted((one for one in fleets if one.architecture == name), key=lambda one: one.target)
        types = [fleet_types(one, people) for one in mine]
        repeats, targets = min(len(one.said) for one in mine), [one.target for one in mine]
        for key, sign in signs.items():
            table = 100 * np.stack([one[key][:repeats] for one in types]).astype(
                np.float64
            )  # (targets, repeats, images)
            words = {"A": "A falls with accuracy", "C": "C rises with accuracy",
                     "disagree": "networks disagree less with accuracy"}[key]  # fmt: skip
            claim = f"{words}, {name}"
            if repeats > 1 or len(targets) < 2:
                rows += rows_for(claim, effect, above_nothing(slopes(table.mean(2), targets), sign))
            if len(targets) > 1:
                found = over_images(slopes(table.mean(1), targets), drawn, sign)
                rows += rows_for(claim + OVER_IMAGES * (repeats > 1), effect, found)
    return rows


def slopes(table: Floats, targets: Sequence[float]) -> Floats:
    """(n,) by least squares, of values (targets, n), a column a repeat or an image; none for a single target."""
    at = np.asarray(targets, np.float64) - np.mean(targets)
    return np.asarray(at @ table / (at @ at)) if len(targets) > 1 else np.zeros(0)


def of_mlps(fleets: Sequence[Fleet], people: Opinion | None, drawn: Floats) -> list[Row]:
    """MLPs have the fewest of type A and the most of type C, at each accuracy: against the nearest other one, over
    repeats where both have some, and over images. Without people: their seeds disagree least."""
    rows, effect = [], "difference from the nearest other, % of the images"
    wanted = {"A": -1, "C": 1} if people is not None else {"disagree": -1}
    for target in sorted({one.target for one in fleets}):
        types = {one.architecture: fleet_types(one, people) for one in fleets if one.target == target}
        if MLP not in types or len(types) < 2:
            continue
        for key, sign in wanted.items():
            words = {"A": "MLPs have least of type A", "C": "MLPs have most of type C",
                     "disagree": "MLPs disagree least"}[key]  # fmt: skip
            claim = f"{words}, {percent(target)}"
            mine, others = types[MLP][key], [other[key] for name, other in types.items() if name != MLP]
            repeated = min(len(one) for one in (mine, *others)) > 1
            if repeated:
                found = [differ(100 * mine.mean(1), 100 * other.mean(1), sign) for other in others]
                rows += rows_for(claim, effect, _least(found, sign))
            found = [over_images(100 * (mine.mean(0) - other.mean(0)), drawn, sign) for other in others]
            rows += rows_for(claim + OVER_IMAGES * repeated, effect, _least(found, sign))
    return rows


def _least(tests: Sequence[Effect], sign: int) -> Effect:
    """A claim about all others holds where it holds against the one that speaks most against it."""
    return max(tests, key=lambda one: (one.p if math.isfinite(one.p) else 2.0, -sign * one.effect))


def softmax_order(nine: Nine, people: Opinion) -> list[Row]:
    """Table 4: A lies below C, and below images on which both disagree. A value an image, its mean over networks."""
    types, sure = types_of(nine.said, people), nine.sure.mean(0)
    at = percent(nine.target)
    return [
        *rows_for(f"largest softmax lower for A than for C, {at}", "difference",
                  differ(sure[types.a], sure[types.c], -1)),
        *rows_for(f"largest softmax lower for A than where both disagree, {at}", "difference",
                  differ(sure[types.a], sure[types.both_disagree], -1)),
    ]  # fmt: skip


def certainties(fleet: Fleet, counts: Ints, drawn: Floats) -> list[Row]:
    """No correlation of the certainty of people and of networks, over the images that people disagree on."""
    people = opinion(counts)
    own = certainty(fleet.said).mean(0)
    mask = ~people.agree
    some = drawn[:, mask]
    some = some[some.sum(1) > 0]
    claim = f"certainty of people and networks is not correlated, {fleet.architecture}, {percent(fleet.target)}"
    if mask.sum() < 3 or not len(some):
        return rows_for(claim, "rank correlation", Effect(math.nan, math.nan, math.nan, math.nan, int(mask.sum())))
    found = rank_correlation(own[mask], people.share[mask], some)
    said = (
        "cannot be told" if not math.isfinite(found.p) else "there is one" if found.p < 0.05 else
        "none is seen, which does not prove that there is none"
    )  # fmt: skip
    return rows_for(claim, "rank correlation", found, said)


def like_people(nine: Nine, one_by_one: Ints, drawn: Floats) -> list[Row]:
    """Two people disagree as often as two networks: the difference, over walks drawn again; p is two-sided."""
    gap = apart(one_by_one) - apart(nine.said)
    again = drawn @ gap / drawn.sum(1)
    side = min(float((again <= 0).mean()), float((again >= 0).mean()))
    low, high = interval(again)
    p = min(1.0, 2 * max(side, 1 / (len(again) + 1)))
    found = Effect(100 * float(gap.mean()), 100 * low, 100 * high, p, len(gap))
    said = "they differ" if p < 0.05 else "no difference is seen"
    return rows_for(f"two people disagree as often as two networks, {percent(nine.target)}",
                    "people less networks, % of the images", found, said)  # fmt: skip


def factorial(each: Mapping[str, Floats], what: str) -> list[Row]:
    """A two-way table with the means of its cells, rows and columns, and what values differ by; none where a cell is
    missing.

    each: by network, called after architecture and recipe (MLP1 … ViT3), values (n,), one a seed.
    """
    kinds = list(dict.fromkeys(name.rstrip(DIGITS) for name in each))
    recipes = sorted({name[len(name.rstrip(DIGITS)) :] for name in each})
    n = min(map(len, each.values()), default=0)
    if len(kinds) * len(recipes) != len(each) or len(each) < 4 or not n:
        return []
    values = np.array([[each[f"{kind}{recipe}"][:n] for recipe in recipes] for kind in kinds])
    columns = [f"recipe {recipe}" for recipe in recipes]
    rows = [
        mean_row(FACTORIAL, f"{kind}, {column}: {what}", None, values[i, j], least=0, most=100)
        for i, kind in enumerate(kinds)
        for j, column in enumerate(columns)
    ]
    rows += [
        Row(FACTORIAL, f"{name}, mean: {what}", None, float(mean), n=values.size // len(names))
        for names, axis in ((kinds, (1, 2)), (columns, (0, 2)))
        for name, mean in zip(names, values.mean(axis), strict=True)
    ]
    for name, (share, p) in zip(("architectures", "recipes", "both together"), two_way(values), strict=True):
        said = "cannot be told" if not math.isfinite(p) else "they differ" if p < 0.05 else "no difference is seen"
        # Of one value a cell, what both do together is not to be told from what chance does.
        if math.isfinite(share) and (n > 1 or math.isfinite(p)):
            rows.append(Row(FACTORIAL, f"{name}: share of the variance, %", None, 100 * share, n=values.size))
        rows.append(Row(FACTORIAL, f"{name}: p ({said})", None, p if math.isfinite(p) else None, n=values.size))
    return rows


def _architectures(fleets: Sequence[Fleet]) -> list[str]:
    return list(dict.fromkeys(one.architecture for one in fleets))
