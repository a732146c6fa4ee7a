"""Tables 2 to 5 and Fig. 2 of paper 4 as rows, from what networks and people said. Without people: what needs none.

Nine   different networks of one accuracy      → Tables 2, 3, 4
Fleet  one network from 10 seeds, 10 times     → Table 5, Fig. 2
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foible.studies.boundary import paper
from foible.studies.boundary.chance import mean_interval
from foible.studies.boundary.types import Bools, Floats, Ints, Opinion, certainty, opinion, pairwise, types_of, votes
from foible.studies.common import Row, mean_row

TABLE2, TABLE3, TABLE4, TABLE5, FIGURE2, PEOPLE = (
    "Table 2: nine networks of one accuracy, % of the images",
    "Table 3: types, % of the images",
    "Table 4: the largest softmax, over networks and images",
    "Table 5: the certainty of networks that differ by their seed, by that of people, %",
    "Fig. 2: networks that differ by their seed, % of the images",
    "People against people",
)
WORDS = {
    "a": "A: networks disagree, people agree", "both_disagree": "B: both disagree", "both_agree": "B: both agree",
    "c": "C: networks agree, people disagree", "against": "both agree, on different classes",
}  # fmt: skip


class Nine(NamedTuple):
    """Different networks of one accuracy. target: in %. said: (networks, images) classes; sure: (networks, images), the
    largest softmax; accuracy: (networks,) in %, on the test images."""

    target: float
    names: tuple[str, ...]
    said: Ints
    sure: Floats
    accuracy: Floats


class Fleet(NamedTuple):
    """One architecture, trained to one accuracy from several seeds, several times. said: (repeats, seeds, images)."""

    architecture: str
    target: float
    said: Ints
    accuracy: Floats  # (repeats, seeds), in %


def disagree(said: Ints) -> Bools:
    """(…, images): whether not all say the same. said: (…, judges, images)."""
    return np.asarray((said != said[..., :1, :]).any(-2))


def apart(said: Ints) -> Floats:
    """(images,): of all pairs of judges, the share that disagrees. said: (judges, images)."""
    many = len(said)
    return np.asarray(sum((said != own).sum(0) for own in said) / max(1, many * (many - 1)))


def percent(target: float) -> str:
    return f"{target:g} %"


def spread_rows(
    table: str, quantity: str, known: paper.Figure, values: Floats, ends: tuple[float, float] | None, n: int
) -> list[Row]:
    """A mean and its standard deviation, each beside the paper's. ends: the interval of the mean."""
    low, high = ends or (None, None)
    return [
        Row(table, quantity, known[0], float(values.mean()), low, high, n),
        Row(table, f"{quantity}: standard deviation", known[1],
            float(values.std(ddof=1)) if len(values) > 1 else None, n=len(values)),
    ]  # fmt: skip


def table2(nine: Nine, people: Opinion | None, drawn: Floats) -> list[Row]:
    """drawn: (draws, images), whole walks, as `chance.times` gives it."""
    at, n = percent(nine.target), nine.said.shape[1]
    rows = []
    if people is not None:
        wrong = (nine.said != people.label) & people.agree
        rows += spread_rows(TABLE2, f"{at}: people agree, a network says something else",
                            paper.PER_MODEL.get(nine.target, paper.NOTHING), 100 * wrong.mean(1),
                            _percent(wrong.mean(0), drawn), n)  # fmt: skip
        rows.append(_share(TABLE2, f"{at}: people agree, some network says something else",
                           paper.ACROSS.get(nine.target, paper.NOTHING)[0], wrong.any(0), drawn))  # fmt: skip
    rows += spread_rows(TABLE2, f"{at}: two networks disagree", paper.PAIRS.get(nine.target, paper.NOTHING),
                        100 * pairwise(nine.said), _percent(apart(nine.said), drawn), n)  # fmt: skip
    rows.append(_share(TABLE2, f"{at}: not all {len(nine.said)} networks agree",
                       paper.NINE.get(nine.target, paper.NOTHING)[0], disagree(nine.said), drawn))  # fmt: skip
    return rows


def table3(nine: Nine, counts: Ints, one_by_one: Ints, drawn: Floats) -> list[Row]:
    """counts: (images, classes), people; one_by_one: (people, images)."""
    at = percent(nine.target)
    types = types_of(nine.said, opinion(counts))._asdict()
    rows = [
        _share(TABLE3, f"{at}: {WORDS[name]}", paper.TYPES.get(name, {}).get(nine.target), mask, drawn)
        for name, mask in types.items()
    ]
    for name, left in leave_one_out(nine.said, one_by_one, counts.shape[1]).items():
        if len(left):
            mean, least, most = (100 * float(value) for value in (left.mean(), left.min(), left.max()))
            quantity = f"{at}: {name.upper()}, one person left out in turn (from the least to the most)"
            rows.append(Row(TABLE3, quantity, None, mean, least, most, len(left)))
    return rows


def leave_one_out(said: Ints, one_by_one: Ints, classes: int) -> dict[str, Floats]:
    """(people,) the shares of types A and C without each person in turn; none where fewer than two would be left."""
    everyone = votes(one_by_one, classes)
    found: dict[str, list[float]] = {"a": [], "c": []}
    for own in one_by_one if len(one_by_one) > 2 else []:
        types = types_of(said, opinion(everyone - votes(own[None], classes)))
        found["a"].append(float(types.a.mean()))
        found["c"].append(float(types.c.mean()))
    return {name: np.array(values) for name, values in found.items()}


def table4(nine: Nine, people: Opinion | None, drawn: Floats) -> list[Row]:
    """By type; without people, by whether the networks agree."""
    at, rows = percent(nine.target), []
    if people is None:
        split = disagree(nine.said)
        parts = {"networks disagree": (split, paper.NOTHING), "networks agree": (~split, paper.NOTHING)}
    else:
        parts = {
            WORDS[name]: (mask, paper.SOFTMAX.get(name, {}).get(nine.target, paper.NOTHING))
            for name, mask in types_of(nine.said, people)._asdict().items()
        }
    for words, (mask, known) in parts.items():
        if not mask.any():
            rows.append(Row(TABLE4, f"{at}: {words}", known[0], None, n=0))
            continue
        rows += spread_rows(TABLE4, f"{at}: {words}", known, nine.sure[:, mask].ravel(),
                            _of_some(nine.sure.mean(0), mask, drawn), int(mask.sum()))  # fmt: skip
    return rows


def table5(fleet: Fleet, counts: Ints) -> list[Row]:
    """By the paper's levels: the share of people who chose the commonest class, to the nearest ten percent."""
    sure = 100 * certainty(fleet.said)  # (repeats, images)
    known = paper.CERTAINTY.get((fleet.target, fleet.architecture), {})
    rows = []
    for level, mask in levels(counts).items():
        name = f"{percent(fleet.target)}, {fleet.architecture}: people {level} % certain"
        each = sure[:, mask].mean(1) if mask.any() else np.zeros(0)
        rows += repeats_rows(TABLE5, name, known.get(level, paper.NOTHING), each)
    return rows


def levels(counts: Ints) -> dict[int, Bools]:
    """By level, in %: which images (images,) so many people are certain of, as far as people disagree on them."""
    people = opinion(counts)
    nearest = np.round(10 * people.share).astype(np.int64) * 10
    return {level: (nearest == level) & ~people.agree & (counts.sum(1) > 0) for level in paper.LEVELS}


def figure2(fleet: Fleet, people: Opinion | None, drawn: Floats) -> list[Row]:
    """Types A and C of ten seeds, over repeats, or over images where there is one; without people, on how many images
    they disagree."""
    name, types = f"{fleet.architecture}, {percent(fleet.target)}", fleet_types(fleet, people)
    if len(fleet.said) == 1:
        return [_share(FIGURE2, f"{name}: {words}", None, mask[0], drawn) for words, mask in types.items()]
    return [
        row
        for words, mask in types.items()
        for row in repeats_rows(FIGURE2, f"{name}: {words}", paper.NOTHING, 100 * mask.mean(1))
    ]


def fleet_types(fleet: Fleet, people: Opinion | None) -> dict[str, Bools]:
    """(repeats, images) each: which are of type A, and of C; without people, on which the seeds "disagree"."""
    split = disagree(fleet.said)
    if people is None:
        return {"disagree": split}
    return {"A": split & people.agree, "C": ~split & ~people.agree}


def fleet_shares(fleet: Fleet, people: Opinion | None) -> dict[str, Floats]:
    """(repeats,) each, in %: types A and C; without people, "disagree"."""
    return {name: 100 * mask.mean(1) for name, mask in fleet_types(fleet, people).items()}


def people_rows(one_by_one: Ints, counts: Ints, drawn: Floats) -> list[Row]:
    """How often two people disagree, and how many images people are how certain of."""
    n = one_by_one.shape[1]
    rows = spread_rows(PEOPLE, "two people disagree, % of the images", paper.PEOPLE_APART,
                       100 * pairwise(one_by_one), _percent(apart(one_by_one), drawn), n)  # fmt: skip
    rows.append(_share(PEOPLE, f"not all {len(one_by_one)} people agree, % of the images", None,
                       disagree(one_by_one), drawn))  # fmt: skip
    return rows + [
        Row(PEOPLE, f"images that people are {level} % certain of", paper.IMAGES_AT[level], float(mask.sum()), n=n)
        for level, mask in levels(counts).items()
    ]


def repeats_rows(table: str, quantity: str, known: paper.Figure, each: Floats) -> list[Row]:
    """A mean over repeats with Student's interval, and its standard deviation, each beside the paper's."""
    spread = float(np.std(each, ddof=1)) if len(each) > 1 else None
    return [
        mean_row(table, quantity, known[0], each.tolist(), least=0, most=100),
        Row(table, f"{quantity}: standard deviation", known[1], spread, n=len(each)),
    ]


def _share(table: str, quantity: str, known: float | None, mask: Bools, drawn: Floats) -> Row:
    return Row(table, quantity, known, 100 * float(mask.mean()), *_percent(mask, drawn), len(mask))


def _percent(values: Bools | Floats, drawn: Floats) -> tuple[float, float]:
    return mean_interval(100 * np.asarray(values, np.float64), drawn)


def _of_some(values: Floats, mask: Bools, drawn: Floats) -> tuple[float, float]:
    """The interval of a mean over some of the images, of which a draw has more or fewer."""
    kept = drawn * mask
    return mean_interval(values, kept[kept.sum(1) > 0])
