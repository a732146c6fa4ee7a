"""The transfer tensor as heat maps: dark where a judge errs, the percentage in every cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from foible.figures import INK, new, save
from foible.transfer.tables import Grid, decimals, grid

Papers = Mapping[tuple[str, str], float]  # (row, column) -> the paper's percentage
GAP = 0.35  # between networks and controls, in cells
SHADES = ListedColormap(colormaps["Blues"](np.linspace(0.02, 0.9, 256)))


def heat_map(grids: Sequence[Grid], *, papers: Sequence[Papers] = (), across: int = 2, heading: str = "") -> Figure:
    """A panel for each grid. papers: for each grid, figures to print small below ours, "(26.2)"."""
    across = min(across, len(grids))
    down = -(-len(grids) // across)
    rows, columns = max(len(one.rows) for one in grids), max(len(one.columns) for one in grids)
    longest = max(len(name) for one in grids for name in one.rows)
    wide = 0.62 * (columns + 1.2) + 0.075 * longest + 0.2
    tall = 0.44 * (rows + GAP) + 0.062 * max(len(name) for one in grids for name in one.columns) + 0.75
    figure, axes = new(down, across, size=(wide * across + 0.5, tall * down + (0.35 if heading else 0.1)))
    picture: Any = None
    for place, axis in enumerate(axes.flat):
        if place < len(grids):
            picture = _panel(axis, grids[place], papers[place] if place < len(papers) else {})
        else:
            axis.set_axis_off()
    bar = figure.colorbar(picture, ax=list(axes.flat), shrink=0.7, pad=0.015, aspect=25)
    bar.set_label("errors, %" + (" (in brackets: the paper)" if any(papers) else ""))
    bar.outline.set_visible(False)
    apart(figure, down=0.12)
    if heading:
        figure.suptitle(heading, fontsize=11)
    return figure


def apart(figure: Figure, *, down: float = 0.04, across: float = 0.04) -> None:
    """More room between the panels of a figure, in inches on either side."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(h_pad=down, w_pad=across)  # type: ignore[call-arg]


def draw(
    table: pa.Table, out: Path, stem: str = "transfer", *, papers: Mapping[float | None, Papers] | None = None,
    heading: str = "", **options: Any,
) -> str:  # fmt: skip
    """The tensor as STEM.png and STEM.svg in `out`, ready for a report: a panel for each amplification.

    papers: by amplification, figures to print beside ours. options: those of `grid`, such as target="worst".
    """
    found = dict.fromkeys(row["amplification"] for row in table.to_pylist() if row["kind"] == "distortion")
    grids = [grid(table, amplification=size, **options) for size in found]
    beside = [(papers or {}).get(size, {}) for size in found]
    return save(heat_map(grids, papers=beside, heading=heading), out, stem)


def _panel(axis: Axes, one: Grid, papers: Papers) -> Any:
    split = len(one.rows) - one.controls
    edges = [row + (GAP if one.controls and split and row >= split else 0) for row in range(len(one.rows))]
    picture = axis.imshow([[0.0, 100.0]], cmap=SHADES, vmin=0, vmax=100, visible=False)
    aside: Any = {"x": len(one.columns) + 0.12, "ha": "left", "fontsize": 8, "color": "#555555"}
    for row, (name, cells, size) in enumerate(zip(one.rows, one.cells, one.sizes, strict=True)):
        top = edges[row]
        for column, cell in enumerate(cells):
            share = None if cell is None or cell["share"] is None else 100 * cell["share"]
            colour = "#f2f2f2" if share is None else SHADES(share / 100)
            axis.add_patch(Rectangle((column, top), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.2))
            ink = "white" if share is not None and share > 55 else INK
            paper = papers.get((name, one.columns[column]))
            text = "–" if share is None else f"{share:.1f}" if share < 99.95 else "100"
            middle: Any = {"x": column + 0.5, "ha": "center", "va": "center", "color": ink}
            axis.text(y=top + (0.5 if paper is None else 0.37), s=text, fontsize=8.5, **middle)
            if paper is not None:
                axis.text(y=top + 0.75, s=f"({paper:g})", fontsize=6.5, **middle)
        axis.text(y=top + 0.5, s=decimals(size), va="center", **aside)
    axis.text(y=-0.12, s="RMS", va="bottom", **aside)
    axis.set_xlim(0, len(one.columns) + 0.85)
    axis.set_ylim(edges[-1] + 1, 0)
    axis.set_aspect("auto")
    axis.set_xticks(np.arange(len(one.columns)) + 0.5, one.columns, rotation=40, ha="left", rotation_mode="anchor")
    axis.set_yticks([edge + 0.5 for edge in edges], one.rows)
    axis.set_ylabel("distorted for")
    axis.tick_params(length=0)
    axis.xaxis.tick_top()
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.set_title(one.title, fontsize=9.5, loc="left", pad=8)
    return picture
