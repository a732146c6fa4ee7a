"""How much hangs on the ends: the same networks, the same walks, other ends. The paper chose its ten codes once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from foible import figures
from foible.basket import Basket
from foible.recipes.boundary.reading import Interpolations, interpolations
from foible.recipes.boundary.samples import FIRST, SAMPLED, NotShown
from foible.studies.boundary import claims, paper, tables
from foible.studies.boundary.chance import above_nothing
from foible.studies.boundary.figures import MARKS
from foible.studies.boundary.stage import Judged, logits_of, made_between
from foible.studies.boundary.tables import percent
from foible.studies.boundary.types import Floats, pairwise
from foible.studies.common import Row

TABLE = "Other ends: the same networks and walks, mean over sets of ends, % of the images"
RULES = {"samples": "the clearest samples", FIRST: "the first samples", "images": "real images"}
NOTE = (
    "Other ends: the clearest of other samples, or other real images, chosen as ours were; and the first sample that "
    "the networks together take for a class, however sure they are. The standard deviation is over sets."
)


class Apart(NamedTuple):
    """Networks of one accuracy, in %, on sets of ends chosen by one rule: on how many images two of them disagree, the
    mean over pairs, and on how many not all agree; (sets,) each, in %."""

    rule: str
    target: float
    networks: int
    two: Floats
    some: Floats


def other_ends(
    plan: Mapping[str, Any], used: str, out: Path, generator: str, basket: str, how: Mapping[str, Any]
) -> tuple[dict[str, list[Interpolations]], list[str]]:
    """By rule, the same walks between other ends; and which sets there are not, since no sample shows a class."""
    sets, missed = dict[str, list[Interpolations]](), []
    for rule in (plan["ends"], *((FIRST,) if plan["ends"] in SAMPLED else ())):
        for number in range(1, plan["sets"] + 1):
            folder, seeded = out / "ends" / f"{rule}-{number}", {**how, "seed": how["seed"] + number}
            try:
                run = made_between({**plan, "ends": rule}, used, folder, generator, basket, seeded)
            except NotShown as error:
                missed.append(f"Other ends, {rule}, set {number}: {error}")
            else:
                sets.setdefault(rule, []).append(interpolations(run))
    return sets, missed


def apart(groups: Sequence[Judged], sets: Mapping[str, Sequence[Interpolations]], device: str) -> list[Apart]:
    """What the networks of each accuracy say of them."""
    found = []
    for rule, group in product(sets, groups):
        networks = Basket.open(group.folder, device=device)
        said = [logits_of(networks, made).argmax(2) for made in sets[rule]]
        two = np.array([100 * pairwise(one).mean() for one in said])
        some = np.array([100 * tables.disagree(one).mean() for one in said])
        found.append(Apart(rule, group.nine.target, len(networks), two, some))
    return found


def rows_of(found: Sequence[Apart]) -> list[Row]:
    rows = []
    for one in found:
        for words, known, each in (
            ("two networks disagree", paper.PAIRS, one.two),
            (f"not all {one.networks} networks agree", paper.NINE, one.some),
        ):
            name = f"{percent(one.target)}, {RULES[one.rule]}: {words}"
            # The paper's ± is over pairs of networks: it has no other sets.
            rows += tables.repeats_rows(TABLE, name, (known.get(one.target, paper.NOTHING)[0], None), each)
    return rows + _with_accuracy(found)


def _with_accuracy(found: Sequence[Apart]) -> list[Row]:
    """Two networks disagree on fewer images the more accurate they are: the slope on each set of ends."""
    rows = []
    for rule in dict.fromkeys(one.rule for one in found):
        mine = [one for one in found if one.rule == rule]
        if len(mine) > 1:
            each = claims.slopes(np.stack([one.two for one in mine]), [one.target for one in mine])
            name = f"two networks disagree less with accuracy, {RULES[rule]}, over sets of ends"
            rows += claims.rows_for(name, "% of the images for each % of accuracy", above_nothing(each, -1))
    return rows


def drawn(found: Sequence[Apart], groups: Sequence[Judged], out: Path) -> str:
    """A mark a set: on how many images two networks disagree; beside it that of our own ends, and the paper's."""
    figure, axes = figures.new(size=(5.4, 3.3))
    axis, rules = axes[0, 0], list(dict.fromkeys(one.rule for one in found))
    places = {group.nine.target: place for place, group in enumerate(groups)}
    for number, rule in enumerate(rules):
        for one in (one for one in found if one.rule == rule):
            beside = places[one.target] + 0.22 * (number - (len(rules) - 1) / 2)
            axis.plot(beside + np.linspace(-0.06, 0.06, len(one.two)), one.two, ls="none", marker=MARKS[number],
                      color=figures.COLOURS[number], alpha=0.75,
                      label=RULES[rule] if places[one.target] == 0 else None)  # fmt: skip
    for group in groups:
        at, first = places[group.nine.target], places[group.nine.target] == 0
        axis.plot(at, 100 * pairwise(group.nine.said).mean(), ls="none", marker="_", ms=26, mew=2, color=figures.INK,
                  label="the ends of the tables" if first else None)  # fmt: skip
        if group.nine.target in paper.PAIRS:
            axis.plot(at + 0.34, paper.PAIRS[group.nine.target][0], ls="none", marker="*", ms=11,
                      color=figures.COLOURS[3], label="the paper's" if first else None)  # fmt: skip
    axis.set_xticks(range(len(groups)), [percent(group.nine.target) for group in groups])
    axis.set_xlim(-0.6, len(groups) - 0.4)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("two networks disagree, % of the images")
    axis.grid(True, axis="y")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figures.save(figure, out, "ends")
