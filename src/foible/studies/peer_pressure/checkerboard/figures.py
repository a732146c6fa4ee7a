"""The pictures of the checkerboard study: paper 1, Figures 2, 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from foible.figures import new, save
from foible.studies.peer_pressure.checkerboard import board

RED, BLACK = "#c8382e", "#262626"
PALE_RED, PALE_BLACK = "#f5d9d6", "#d6d6d6"


def _bare(axis: Axes, title: str = "") -> None:
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])
    axis.spines[:].set_visible(True)
    if title:
        axis.set_title(title)


def _plane(axis: Axes, classes: Tensor, side: int, colours: Sequence[str]) -> None:
    axis.imshow(
        classes.view(side, side).numpy(), cmap=ListedColormap(list(colours)), vmin=0, vmax=1, origin="lower",
        extent=(0, 1, 0, 1), interpolation="nearest",
    )  # fmt: skip


def _lines(axis: Axes, squares: int, colour: str) -> None:
    for place in range(1, squares):
        axis.axhline(place / squares, color=colour, linewidth=0.8, linestyle=(0, (4, 3)))
        axis.axvline(place / squares, color=colour, linewidth=0.8, linestyle=(0, (4, 3)))


def task(squares: int, points: Tensor, out: Path) -> str:
    """Figure 2: the board, and the points that networks learn from."""
    figure, axes = new(1, 2, size=(6.4, 3.5))
    left, right = axes[0]
    centres = (np.arange(squares) + 0.5) / squares
    classes = board.squares_of(torch.tensor([(x, y) for y in centres for x in centres]), squares)
    _plane(left, classes, squares, (RED, BLACK))
    _bare(left, f"The task: {squares} × {squares} squares")
    label = board.squares_of(points, squares)
    for value, colour, mark in ((0, RED, "o"), (1, BLACK, "s")):
        x, y = points[label == value].t().numpy()
        right.scatter(x, y, s=14, c=colour, marker=mark, linewidths=0, label=board.CLASSES[value])
    _lines(right, squares, "#bbbbbb")
    _bare(right, f"{len(points)} samples, {int((label == 0).sum())} of each class")
    return save(figure, out, "figure2")


def boundaries(said: Tensor, side: int, squares: int, right: Sequence[float], out: Path) -> str:
    """Figure 3: what each network answers over the plane. `right`: percent of the plane that each gets right."""
    figure, axes = _five()
    for place, (axis, units) in enumerate(zip(axes, board.SIZES, strict=True)):
        _plane(axis, said[place], side, (RED, BLACK))
        _lines(axis, squares, "#ffffff")
        _bare(axis, f"{units} units a layer")
        axis.set_xlabel(f"{right[place]:.0f} % of the plane right")
    return save(figure, out, "figure3")


def dissent(said: Tensor, dissents: Tensor, side: int, squares: int, out: Path) -> str:
    """Figure 4: in colour where a network disagrees with all its peers (the colour is its own answer), over a pale map
    of its answers; dashed, the true boundaries."""
    figure, axes = _five(3.0)
    for place, (axis, units) in enumerate(zip(axes, board.SIZES, strict=True)):
        _plane(axis, said[place], side, (PALE_RED, PALE_BLACK))
        mask = dissents[place].view(side, side).numpy()
        strong = np.ma.masked_where(~mask, said[place].view(side, side).numpy())
        axis.imshow(
            strong, cmap=ListedColormap([RED, BLACK]), vmin=0, vmax=1, origin="lower", extent=(0, 1, 0, 1),
            interpolation="nearest",
        )  # fmt: skip
        _lines(axis, squares, "#999999")
        _bare(axis, f"{units} units a layer")
        axis.set_xlabel(f"{100 * mask.mean():.1f} % of the plane")
    figure.supxlabel(
        "Strong colours: what this network alone says there, red or black; all four peers say the other. "
        "Pale: its answers elsewhere. Dashed: the true boundaries.",
        fontsize=9,
    )
    return save(figure, out, "figure4")


def _five(tall: float = 2.75) -> tuple[Figure, Sequence[Axes]]:
    figure, axes = new(1, len(board.SIZES), size=(11, tall))
    return figure, list(axes[0])
