"""Robust accuracy on the page of a distortion: the whole curve, share still right against ε, as SVG geometry."""

from __future__ import annotations

from typing import Any

import numpy as np

from foible.recipes.distort.robust import in_words
from foible.statistics import wilson

WIDE, HIGH = 640, 160


def robust_of(summary: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each source whose images were distorted: its figures, in words and as a curve."""
    told = [(row["source"], row["robust"]) for row in summary if row["robust"]]
    return [
        {**robust, "source": source, "words": in_words(robust), "drawing": _drawing(robust)} for source, robust in told
    ]


def ticks(top: float) -> list[tuple[float, str]]:
    """Where numbers stand on an axis from 0 to `top`, in percent of its length, and the numbers."""
    unit = 10 ** np.floor(np.log10(top / 4))
    unit *= next(m for m in (1, 2, 5, 10) if top / (m * unit) <= 6)
    return [(round(100 * value / top, 2), f"{value:g}") for value in np.arange(0, top, unit).round(6)]


def _drawing(robust: dict[str, Any]) -> dict[str, Any] | None:
    """The curve as a path of steps, the band of its intervals, and lines at the distances of the table."""
    curve = robust["curve"]
    if len(curve) < 2 or not curve[-1][0]:
        return None
    top = 1.05 * curve[-1][0]
    ends = [wilson(round(share * robust["n"]), robust["n"]) for _, share in curve]
    places = [place for place, _ in curve]
    low, high = ([one[k] for one in ends] for k in (0, 1))
    return {
        "width": WIDE, "height": HIGH, "line": "M" + _steps(places, [share for _, share in curve], top),
        "band": f"M{_steps(places, high, top)} L{_steps(places, low, top, back=True)} Z",
        "marks": [round(WIDE * line["eps"] / top, 1) for line in robust["at"] if line["eps"] <= top],
        "ticks": ticks(top),
    }  # fmt: skip


def _steps(places: list[float], shares: list[float], top: float, *, back: bool = False) -> str:
    """A way along steps that begin at these places, from left to right, or back."""
    corners = []
    for place, end, share in zip(places, [*places[1:], top], shares, strict=True):
        corners += [(place, share), (end, share)]
    return " ".join(f"{WIDE * x / top:.1f},{HIGH * (1 - y):.1f}" for x, y in (corners[::-1] if back else corners))
