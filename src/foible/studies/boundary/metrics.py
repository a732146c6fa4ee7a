"""Which metric? What each network is worth by several measures, with intervals, and which of them foretells a hunt.

Test accuracy is one column of this table; the others are what it hides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from foible.studies.boundary.chance import Effect, interval, rank_correlation, times
from foible.studies.boundary.types import Bools, Floats, Ints, Opinion
from foible.studies.common import Row

BINS = 15
FEW = 8  # trainings; below, a rank correlation over their networks says next to nothing
TABLE, FORETELLS = (
    "Which metric? Each network by several",
    "Which metric? Rank correlation with the hunt's success rate, over networks",
)
WORDS = {
    "accuracy": "accuracy, %",
    "calibration": "calibration error (15 bins), %",
    "kappa": "κ with people",
    "majority": "says what most people say, %",
    "a": "type A of it and another network, mean over the others, %",
    "c": "type C of it and another network, mean over the others, %",
    "apart": "disagrees with another network, mean over the others, %",
    "hunt": "hunt: share of trials that find a mistake, %",
}


class Measured(NamedTuple):
    value: float
    low: float
    high: float
    n: int


def share(values: Bools | Floats, drawn: Floats) -> Measured:
    """A mean over images (images,), in percent."""
    seen = np.asarray(values, np.float64)
    return Measured(100 * float(seen.mean()), *interval(100 * (drawn @ seen) / drawn.sum(1)), len(seen))


def calibration(right: Bools, sure: Floats, drawn: Floats) -> Measured:
    """Expected calibration error (Naeini et al. 2015) in percent: |accuracy − mean confidence| of 15 bins of equal
    width, weighed by their images. right, sure: (images,)."""
    place = np.clip(np.ceil(sure * BINS).astype(np.int64) - 1, 0, BINS - 1)
    gaps = np.zeros((len(right), BINS))
    gaps[np.arange(len(right)), place] = right - sure
    error = 100 * np.abs(drawn @ gaps).sum(1) / drawn.sum(1)
    return Measured(100 * float(np.abs(gaps.sum(0)).sum()) / len(right), *interval(error), len(right))


def kappa(one: Ints, other: Ints, drawn: Floats) -> Measured:
    """Cohen's κ of two judges' answers (images,), whatever they are: classes, or whether each is right (then it is
    error consistency). NaN where chance alone would have them agree on everything."""
    known = np.unique(np.concatenate([one, other]))
    first, second = (np.asarray(answers[:, None] == known, np.float64) for answers in (one, other))

    def of(weights: Floats) -> Floats:
        total = weights.sum(1)
        observed = weights @ np.asarray(one == other, np.float64) / total
        expected = ((weights @ first) * (weights @ second)).sum(1) / total**2
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(expected < 1 - 1e-12, (observed - expected) / (1 - expected), np.nan)

    return Measured(float(of(np.ones((1, len(one))))[0]), *interval(of(drawn)), len(one))


def with_another(said: Ints) -> Floats:
    """(networks, images): the share of the other networks that say something else than this one."""
    many = len(said)
    return np.stack([(said != own).sum(0) / max(1, many - 1) for own in said])


def against_others(said: Ints, people: Opinion | None, drawn: Floats) -> list[dict[str, Measured]]:
    """A network: its types A and C with another one, mean over the others; without people, how often the two disagree.

    said: (networks, images).
    """
    found = []
    for apart in with_another(said):
        parts: dict[str, Floats] = {"apart": apart}
        if people is not None:
            parts = {"a": apart * people.agree, "c": (1 - apart) * ~people.agree}
        found.append({name: share(values, drawn) for name, values in parts.items()})
    return found


def rows_of(networks: Mapping[str, Mapping[str, Measured]]) -> list[Row]:
    """A row for each network and measure."""
    return [
        Row(TABLE, f"{name}: {WORDS[key]}", None, one.value, one.low, one.high, one.n)
        for name, measures in networks.items()
        for key, one in measures.items()
    ]


def foretells(networks: Mapping[str, Mapping[str, Measured]], seed: int) -> tuple[list[Row], str]:
    """For each measure its rank correlation with the hunt's success rate, and in words which one foretells it best.

    networks: by name; "97.5 %, MLP1" and "98 %, MLP1" are one training at two moments, and are drawn together.
    """
    hunted = {name: measures for name, measures in networks.items() if "hunt" in measures}
    keys = [key for key in WORDS if key != "hunt" and all(key in measures for measures in hunted.values())]
    if len(hunted) < 3 or not keys:
        return [], f"{len(hunted)} networks were hunted: which measure foretells the hunt takes at least three."
    rate = np.array([measures["hunt"].value for measures in hunted.values()])
    trainings = np.unique([name.rpartition(", ")[2] for name in hunted], return_inverse=True)[1]
    drawn = times(trainings, seed)
    found = {key: rank_correlation(np.array([one[key].value for one in hunted.values()]), rate, drawn) for key in keys}
    many = int(trainings.max()) + 1
    rows = []
    for key, one in found.items():
        # Few trainings, drawn again, are the same ones again: an interval of them would claim too much.
        low, high = (one.low, one.high) if many >= FEW else (None, None)
        rows.append(Row(FORETELLS, WORDS[key].removesuffix(", %"), None, one.effect, low, high, one.n))
    return rows, _in_words(found, len(hunted), many, int((rate == 0).sum()))


def _in_words(found: Mapping[str, Effect], many: int, trainings: int, nothing: int) -> str:
    sound = [key for key in found if math.isfinite(found[key].effect)]
    if not sound:
        return "The hunt's rate is the same for all networks: no measure can foretell it."
    best = max(sound, key=lambda key: abs(found[key].effect))
    one = found[best]
    sure = f", {one.low:.2f} to {one.high:.2f}" if trainings >= FEW else ""
    told = (
        f"Of {len(found)} measures, “{WORDS[best].removesuffix(', %')}” goes with the hunt's rate most closely (rank "
        f"correlation {one.effect:.2f}{sure}, over {many} networks of {trainings} trainings, {nothing} of them without "
        "a find; the best of several looks better than it is)"
    )
    if trainings < FEW:
        return f"{told}. But {trainings} trainings are too few to say so: at least {FEW} are needed."
    if one.low <= 0 <= one.high:
        return f"{told}. Its interval holds 0: none of them is seen to foretell it."
    return f"{told}."
