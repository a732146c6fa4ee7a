"""The figures of `foible study searches`: success against inferences, and what each search comes to."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from foible import figures

if TYPE_CHECKING:
    from foible.studies.peer_pressure.searches.study import Costs

COLUMNS = 3


def share_within(costs: Costs, at: np.ndarray) -> np.ndarray:
    """The share of trials that had found after `at` inferences, in percent."""
    within = np.searchsorted(np.sort(costs.found), at, side="right")
    return 100 * within / max(1, len(costs.all))


def curves(measured: dict[str, list[Costs]], budget: int, out: Path) -> str:
    """One panel a suspect and one of their mean; every search a line."""
    suspects = [one.label for one in max(measured.values(), key=len)]
    panels = len(suspects) + (len(suspects) > 1)
    across = min(COLUMNS, panels)
    down = -(-panels // across)
    figure, axes = figures.new(down, across, size=(3.0 * across + 0.4, 2.5 * down + 0.9), sharex=True, sharey=True)
    at = np.unique(np.geomspace(min(20, budget / 2), budget, 400).round())
    highest = max(share_within(one, at[-1:])[0] for costs in measured.values() for one in costs)
    for place, axis in enumerate(axes.flat):
        if place >= panels:
            figures.blank(axis)
            continue
        mean = place == len(suspects)
        for number, (label, costs) in enumerate(measured.items()):
            chosen = costs if mean else costs[place : place + 1]
            found = np.mean([share_within(one, at) for one in chosen], axis=0)
            axis.plot(at, found, color=colour(number), lw=1.8, label=label, ls="--" if number == 0 else "-")
        axis.set_title("mean of all" if mean else f"suspect {suspects[place]}")
        _plain_log(axis.set_xscale, axis.xaxis)
        axis.set_xlim(at[0], budget)
        axis.set_ylim(0, min(100, 20 * math.ceil(1.02 * max(20, highest) / 20)))
        axis.grid(True)
        if place % across == 0:
            axis.set_ylabel("found, % of trials")
        if place + across >= panels:
            axis.set_xlabel("inferences")
            axis.tick_params(axis="x", labelbottom=True, labelsize=8)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figures.save(figure, out, "curves")


def bars(measured: dict[str, list[Costs]], out: Path) -> str:
    """Success as bars, and inferences for each find with failed trials counted in as points on a log scale."""
    figure, axes = figures.new(2, 1, size=(9.0, 6.2))
    above, below = axes[:, 0]
    suspects = [one.label for one in max(measured.values(), key=len)]
    wide = 0.84 / len(measured)
    for number, (label, costs) in enumerate(measured.items()):
        middle = np.arange(len(costs)) - 0.42 + wide * (number + 0.5)
        above.bar(middle, [100 * one.success for one in costs], 0.92 * wide, color=colour(number), label=label)
        each = np.array([one.each or np.nan for one in costs])
        below.plot(middle, each, "o", ms=7, color=colour(number))
        for place in middle[np.isnan(each)]:
            below.text(place, 0.02, "none found", transform=below.get_xaxis_transform(), rotation=90,
                       ha="center", va="bottom", fontsize=8, color=figures.INK)  # fmt: skip
    above.set_ylabel("success, % of trials")
    below.set_ylabel("inferences per find,\nfailures counted")
    _plain_log(below.set_yscale, below.yaxis)
    for axis in (above, below):
        axis.set_xticks(range(len(suspects)), [f"suspect {name}" for name in suspects])
        axis.tick_params(axis="x", length=0)
        axis.set_xlim(-0.6, len(suspects) - 0.4)
        axis.grid(True, axis="y", which="both")
    handles, labels = above.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figures.save(figure, out, "bars")


def _plain_log(set_scale: Callable[[str], None], axis: Axis) -> None:
    """A log scale with numbers as people write them, at 1, 2 and 5 of every decade."""
    set_scale("log")
    axis.set_major_locator(LogLocator(10, (1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def colour(number: int) -> str:
    """The paper's own hill climbing comes first and is grey; every other search has a colour."""
    others = [one for one in figures.COLOURS if one != figures.COLOURS[-1]]
    return figures.PAPER if number == 0 else others[(number - 1) % len(others)]
