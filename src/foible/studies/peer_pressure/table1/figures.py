"""Table 1 as bars: the paper's figures beside the measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from foible.figures import COLOURS, PAPER, new, save
from foible.studies.common import Row, mean_row, share_row

if TYPE_CHECKING:
    from foible.studies.peer_pressure.table1.study import Counts

PANELS = ("successful trials, %", "moves of a success", "inferences of a success, paper's count")


def bars(
    hunts: Mapping[float, Mapping[str, Sequence[Counts]]],
    paper: Mapping[str, tuple[float, float, float]],
    out: Path,
) -> str:
    """One row of panels for each peer confidence: peer confidence -> name of the mode -> counts. Whiskers are 95 %
    intervals over trials."""
    figure, axes = new(len(hunts), 3, size=(11, 2.9 * len(hunts) + 0.4))
    for number, (line, (confidence, modes)) in enumerate(zip(axes, hunts.items(), strict=True)):
        suspects = [one.suspect for one in next(iter(modes.values()))]
        for place, (axis, title) in enumerate(zip(line, PANELS, strict=True)):
            series: dict[str, list[Row]] = {}
            if all(name in paper for name in suspects):
                series["paper"] = [Row("", "", None, paper[name][place]) for name in suspects]
            for mode, counts in modes.items():
                series[f"measured, {mode}"] = [_rows(one)[place] for one in counts]
            _panel(axis, series, [one.label for one in next(iter(modes.values()))])
            axis.set_title(title if number == 0 else "")
            if place == 0:
                axis.set_ylabel(f"peer confidence {confidence:g}")
                axis.set_ylim(0, 105)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return save(figure, out, "table1")


def _rows(one: Counts) -> tuple[Row, Row, Row]:
    return (
        share_row("", "", None, len(one.moves), one.trials),
        mean_row("", "", None, one.moves, least=0),
        mean_row("", "", None, one.counted, least=0),
    )


def _panel(axis: Axes, series: Mapping[str, Sequence[Row]], labels: Sequence[str]) -> None:
    width = 0.8 / len(series)
    colours = [PAPER, *COLOURS] if "paper" in series else list(COLOURS)
    for number, ((name, rows), colour) in enumerate(zip(series.items(), colours, strict=False)):
        where = np.arange(len(rows)) + (number - (len(series) - 1) / 2) * width
        heights = [row.measured or 0 for row in rows]
        axis.bar(where, heights, width, color=colour, label=name)
        for x, row in zip(where, rows, strict=True):
            if row.measured is not None and row.low is not None and row.high is not None:
                axis.plot([x, x], [row.low, row.high], color="#222222", linewidth=1, solid_capstyle="butt")
            elif row.measured is None:
                axis.text(x, 0, "–", ha="center", va="bottom", fontsize=8)
    axis.set_xticks(range(len(labels)), labels)
    axis.grid(axis="y")
    axis.margins(x=0.02)
    tallest = max((row.measured or 0 for rows in series.values() for row in rows), default=0)
    axis.set_ylim(0, 1.3 * tallest or 1)  # the interval of two or three successes may reach far out of the picture
