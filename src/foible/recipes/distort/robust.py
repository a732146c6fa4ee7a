"""Robust accuracy: of all images drawn, the share that a network gets right and nothing found within ε makes wrong.

A method may miss what is there, so that each figure is an upper bound. Distances are those in floats, before 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from foible.errors import UserError
from foible.findings.tally import Ints, distinct, floats, numbers, whole
from foible.statistics import wilson

EPS = {"l2": ("0.25", "0.5", "1.0"), "linf": ("2/255", "4/255", "8/255")}  # that are told of every run
POINTS = 100  # of a curve, at most
COLUMNS = ("lane", "outcome", "truth", "consensus", "target", "before", "distance", "distance_exact")

Floats = NDArray[np.float64]


def read_eps(given: str | float) -> float:
    """A distance, from a number or from a text such as 0.03 or 8/255."""
    try:
        value = float(Fraction(given.replace(" ", ""))) if isinstance(given, str) else float(given)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UserError(f"eps is {given!r}: expected a distance such as 0.5 or 8/255")
    return value


@dataclass
class Standing:
    """What the rows of one source came to, image by image."""

    lanes: list[Ints] = field(default_factory=list)
    far: list[Floats] = field(default_factory=list)  # how near a row made it wrong; infinity where it did not
    right: list[NDArray[np.bool_]] = field(default_factory=list)  # whether the source had it right before

    def add(self, table: pa.Table) -> None:
        """Rows of that source, with `COLUMNS`."""
        label = numbers(pc.coalesce(table.column("truth"), table.column("consensus")))
        target = numbers(table.column("target"))
        hit = np.isin(np.array(table.column("outcome").to_pylist(), object), ("found", "unsettled")) & (target != label)
        far = floats(pc.coalesce(table.column("distance_exact"), table.column("distance")))
        self.lanes.append(numbers(table.column("lane")))
        self.far.append(np.where(hit & ~np.isnan(far), far, np.inf))
        self.right.append(_said(table.column("before")) == label)

    def images(self) -> tuple[Floats, int]:
        """Of each image that was right how near the nearest of its rows made it wrong, in order; and how many images
        there are."""
        far, right = np.concatenate(self.far), np.concatenate(self.right)
        first, image = distinct(np.concatenate(self.lanes))
        nearest = np.full(len(first), np.inf)
        np.minimum.at(nearest, image, far)
        return np.sort(nearest[right[first]]), len(first)

    def as_row(self, settings: dict[str, Any], eps: Sequence[str | float] = ()) -> dict[str, Any] | None:
        """Figures for a table or JSON; None where a layer was distorted, whose distances are its own."""
        if settings.get("layer") is not None or not self.lanes:
            return None
        norm = str(settings.get("norm", "l2"))
        far, images = self.images()
        drawn = _drawn(settings, images)
        n = images if drawn is None else drawn
        given = {read_eps(one): str(one) for one in (*EPS.get(norm, ()), *eps)}
        return {
            "norm": norm,
            "of": "images drawn" if drawn is not None else "images that it gets right",
            "n": n,
            "target": settings.get("target"),
            "at": [{"eps": at, "text": given[at], **_standing(far, at, n)} for at in sorted(given)],
            "curve": _curve(far, n),
        }


def _said(before: pa.ChunkedArray) -> Ints:
    """(n,): the class that the first network of each row finds likeliest; -1 where a probability is not a number."""
    first = whole(pc.list_element(before, 0))
    values = floats(first.flatten()).reshape(len(first), -1)
    return np.where(np.isnan(values).any(1), -1, np.nan_to_num(values, nan=0.0).argmax(1))


def _drawn(settings: dict[str, Any], images: int) -> int | None:
    """How many images were drawn for these, those passed over because the source gets them wrong among them; of an
    unfinished run in proportion. None where the settings, which are of an earlier version, do not say it."""
    drawn, chosen = settings.get("drawn"), settings.get("chosen")
    if settings.get("wrong") is True:
        return images
    if not isinstance(drawn, int) or not isinstance(chosen, int) or not 0 < chosen <= drawn <= 2**53:
        return None
    return max(images, round(images * drawn / chosen))


def _standing(far: Floats, eps: float, n: int) -> dict[str, Any]:
    """far: sorted. Distances are float32, and are compared as such."""
    right = len(far) - int(np.searchsorted(far, float(np.float32(eps)), "right"))
    low, high = wilson(right, n)
    return {"right": right, "share": right / n if n else None, "low": low, "high": high}


def _curve(far: Floats, n: int) -> list[list[float]]:
    """(ε, share) where the share has just fallen, from ε = 0 on; of many such places some, evenly spread."""
    steps = far[np.isfinite(far)]
    some = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), POINTS - 1)).round().astype(int))
    places = np.unique(np.concatenate([[0.0], steps[some]]))
    still = len(far) - np.searchsorted(far, places, "right")
    return [[float(place), int(count) / n] for place, count in zip(places, still, strict=True)] if n else []


def in_words(robust: dict[str, Any]) -> str:
    """What the figures are, for people."""
    told = f"of the {robust['of']}, those that it gets right and that no change found of at most ε makes wrong"
    if robust["target"] not in ("best", "any", "each"):
        told += f"; only “{robust['target']}” was asked for, and another label may be nearer"
    return f"An upper bound: {told}"
