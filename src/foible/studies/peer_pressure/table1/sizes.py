"""Which size of a move comes closest to Table 1? The paper gives none ("a small affine transformation").

All parts of a move grow together, by a factor on our default, in the paper's mode. Nor does it say when the suspect
answers "sufficiently differently", so that is tried two ways too: any other answer, or one of probability 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foible.basket import Basket
from foible.recipes.hunt.recipe import hunt
from foible.spaces.affine import Affine
from foible.studies.common import Row

if TYPE_CHECKING:
    from foible.studies.peer_pressure.table1.study import Counts

FACTORS = (0.5, 1.0, 2.0, 3.0)
LEAST = (0.0, 0.9)  # probability that the peers must give the class, and the suspect its wrong answer
TABLE = "Other sizes of a move, the paper's mode"


def spec_of(factor: float) -> str:
    """The space whose every part is `factor` times our default, resampled each time as the paper did."""
    ours = Affine()
    parts = {name: factor * getattr(ours, name) for name in ("degrees", "percent", "shear", "pixels")}
    return "affine?" + "&".join(f"{name}={value:g}" for name, value in parts.items()) + "&resample=each"


def sweep(basket: Basket, data: str, out: Path, options: Mapping[str, Any]) -> dict[str, Path]:
    """A hunt for each factor and each pair of confidences; where each run lies, by a name for it."""
    runs = {}
    for peers, suspect, factor in product(LEAST, LEAST, FACTORS):
        folder = out / f"sizes-{factor:g}-peers-{peers:g}-suspect-{suspect:g}"
        hunt(
            basket, data, out=folder, space=spec_of(factor), peer_confidence=peers, suspect_confidence=suspect,
            **options,
        )  # fmt: skip
        runs[f"{factor:g} × our sizes, peers ≥ {peers:g}, suspect ≥ {suspect:g}"] = folder
    return runs


def away(counts: Sequence[Counts], paper: Mapping[str, tuple[float, float, float]]) -> float | None:
    """By what factor success, moves and inferences typically differ from the paper's: 1 is the same.

    The exponential of the mean |ln ratio|; None where a suspect had no success, or is not in the paper.
    """
    logs = []
    for one in counts:
        if one.suspect not in paper or not one.moves:
            return None
        measured = (one.success, sum(one.moves) / len(one.moves), sum(one.counted) / len(one.counted))
        logs += [abs(math.log(ours / theirs)) for ours, theirs in zip(measured, paper[one.suspect], strict=True)]
    return math.exp(sum(logs) / len(logs)) if logs else None


def measure(
    hunts: Mapping[str, Sequence[Counts]], paper: Mapping[str, tuple[float, float, float]]
) -> tuple[list[Row], list[str]]:
    """Means over the five networks for each size, and which size is the closest."""
    rows, factors = [], {}
    for name, counts in hunts.items():
        known = [paper[one.suspect] for one in counts if one.suspect in paper]
        theirs = [sum(column) / len(known) for column in zip(*known, strict=True)] if known else [None] * 3
        some = [one for one in counts if one.moves]
        ours: list[float | None] = [sum(one.success for one in counts) / len(counts), None, None]
        if some:
            ours[1] = sum(sum(one.moves) / len(one.moves) for one in some) / len(some)
            ours[2] = sum(sum(one.counted) / len(one.counted) for one in some) / len(some)
        n = sum(one.trials for one in counts)
        for what, printed, value in zip(("success, %", "moves", "inferences"), theirs, ours, strict=True):
            rows.append(Row(TABLE, f"{name}: mean {what}", printed, value, n=n))
        factor = away(counts, paper)
        rows.append(Row(TABLE, f"{name}: typical factor from the paper's figures", None, factor, n=n))
        if factor is not None:
            factors[name] = factor
    if not factors:
        return rows, []
    best = min(factors, key=lambda name: factors[name])
    return rows, [f"Of the sizes tried, {best} comes closest to Table 1: typically a factor {factors[best]:.2f} away."]
