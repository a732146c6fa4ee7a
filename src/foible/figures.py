"""How studies draw: one sober style, the same bytes each time, every figure as PNG and SVG."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter
from torch import Tensor

from foible.disk import write_with_folder

DPI = 150
# Okabe and Ito's colours: told apart by colour-blind readers too, and in grey.
INK, PAPER, MEASURED, SUSPECT, PEER = "#222222", "#8f9aa3", "#0072b2", "#0072b2", "#009e73"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")

STYLE: Any = {
    "font.family": "DejaVu Sans",  # it comes with matplotlib: the same letters on every machine
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "foible",  # ids in an SVG are random otherwise
    "svg.fonttype": "path",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this: matplotlib's own defaults with our style on top, whatever the user's are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


def new(
    rows: int = 1, columns: int = 1, *, size: tuple[float, float] | None = None, **options: Any
) -> tuple[Figure, np.ndarray[Any, Any]]:
    """A figure and its axes, always (rows, columns). `size` is in inches; `options` go to `Figure.subplots`.

    It belongs to no window and to no global state, so that studies can draw in any process and any thread.
    """
    with style():
        figure = Figure(figsize=size or (2.6 * columns + 0.4, 2.4 * rows + 0.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def save(figure: Figure, out: Path, stem: str) -> str:
    """Write STEM.png (150 dots an inch) and STEM.svg into `out`, without a date inside; returns the stem."""
    _as_written(figure)
    with style():
        for kind, about in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            data = io.BytesIO()
            figure.savefig(data, format=kind, dpi=DPI, metadata=about)
            write_with_folder(out / f"{stem}.{kind}", data.getvalue())
    return stem


def _as_written(figure: Figure) -> None:
    """Show every text as it is: dollar signs in the name of a network or a class would be read as a formula.
    Only what a logarithmic axis writes, powers of ten, is one."""
    powers = [
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        if isinstance(axis.get_major_formatter(), LogFormatter)
        for label in axis.get_ticklabels(which="both")
    ]
    for text in figure.findobj(Text):
        if isinstance(text, Text) and not any(text is power for power in powers):
            text.set_parse_math(False)


def pixels(image: Tensor | np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An image (channels, height, width) or (height, width), uint8 or in [0, 1], as matplotlib takes it."""
    array = np.asarray(image.detach().cpu() if isinstance(image, Tensor) else image)
    array = array / 255 if array.dtype == np.uint8 else array.clip(0, 1)
    if array.ndim == 3:
        array = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    return array


def show_image(axis: Axes, image: Tensor | np.ndarray[Any, Any], title: str = "", *, note: str = "") -> None:
    """One image with square pixels and no ticks; `title` above it and `note` below."""
    axis.imshow(pixels(image), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
    if title:
        axis.set_title(title, fontsize=9, pad=3)
    if note:
        axis.set_xlabel(note, fontsize=8.5, labelpad=3)


def blank(axis: Axes) -> None:
    """Nothing there: a cell of a grid that has no picture."""
    axis.set_axis_off()


def strip(
    images: Sequence[Tensor | np.ndarray[Any, Any]],
    titles: Sequence[str] = (),
    *,
    columns: int | None = None,
    each: float = 0.9,
    heading: str = "",
) -> Figure:
    """Images side by side, `columns` in a row, `each` inches wide."""
    across = min(len(images), columns or len(images))
    down = -(-len(images) // across)
    tall = each + (0.25 if titles else 0.05)
    figure, axes = new(down, across, size=(each * across + 0.1, tall * down + (0.35 if heading else 0.1)))
    for place, axis in enumerate(axes.flat):
        if place < len(images):
            show_image(axis, images[place], titles[place] if place < len(titles) else "")
        else:
            blank(axis)
    if heading:
        figure.suptitle(heading, fontsize=10.5)
    return figure
