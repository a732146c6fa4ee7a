"""The pictures of the studies of evolved images: sheets, confidence by generation, and what came of retraining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from foible import figures
from foible.images import to_floats
from foible.studies.easily_fooled.evolved import Evolved

MOST_CLASSES, MOST_RUNS = 20, 50  # on a sheet
HALF = 20  # runs, beyond which a sheet has two blocks
GAP = 2  # pixels between images


def fig_s4(made: Evolved, out: Path, stem: str, title: str) -> str:
    """Fig. S4: columns are classes, rows are runs."""
    classes = torch.unique(made.target)[:MOST_CLASSES].tolist()
    runs = made.runs[:MOST_RUNS]
    places = {(run, target): row for row, (run, target) in
              enumerate(zip(made.run.tolist(), made.target.tolist(), strict=True))}  # fmt: skip
    rows = [[places.get((run, target)) for target in classes] for run in runs]
    columns = [_short(made.classes[place]) for place in classes]
    if len(runs) > HALF and len(classes) <= MOST_CLASSES // 2:  # two halves side by side: a sheet, not a ribbon
        half = -(-len(rows) // 2)
        rows = [[*rows[at], None, *(rows[half + at] if half + at < len(rows) else ())] for at in range(half)]
        columns = [*columns, "", *columns]
    return sheet(made.images, rows, out, stem, title, columns=columns)


def sheet(
    images: Tensor, rows: Sequence[Sequence[int | None]], out: Path, stem: str, title: str, *,
    columns: Sequence[str] = (), names: Sequence[str] = (),
) -> str:  # fmt: skip
    """Images (uint8) at these places, row by row, as one picture; None leaves a gap. columns, names: of columns and
    rows."""
    height, width = images.shape[2:]
    across, down = max(map(len, rows)), len(rows)
    board = torch.ones(down, across, 3, height + GAP, width + GAP)
    pixels = to_floats(images)
    for place, row in enumerate(rows):
        for at, one in enumerate(row):
            if one is not None:
                board[place, at, :, :height, :width] = pixels[one].expand(3, height, width)
    whole = board.permute(0, 3, 1, 4, 2).reshape(down * (height + GAP), across * (width + GAP), 3)
    side = 0.4 if down > 12 else 0.62
    figure, axes = figures.new(size=(max(4.2, side * across + 1.0), side * down + 0.8))
    axis = axes[0, 0]
    axis.imshow(whole.numpy(), interpolation="nearest")
    figures.blank(axis)
    size = 9 if max(map(len, columns), default=0) < 7 else 7
    for at, text in enumerate(columns):
        axis.text(at * (width + GAP) + width / 2, -1.5, text, ha="center", va="bottom", fontsize=size)
    for place, text in enumerate(names):
        axis.text(-2, place * (height + GAP) + height / 2, text, ha="right", va="center", fontsize=9)
    figure.suptitle(title, fontsize=10.5)
    return figures.save(figure, out, stem)


def rising(kinds: Mapping[str, Evolved], out: Path, stem: str = "confidence-by-generation") -> str:
    """Confidence by generation: the median of all images, and the middle half of them."""
    figure, axes = figures.new(1, 2, size=(9.6, 3.7))
    for number, (name, made) in enumerate(kinds.items()):
        low, middle, high = torch.quantile(made.trace.double(), torch.tensor([0.25, 0.5, 0.75]).double(), dim=1).numpy()
        colour = figures.COLOURS[number % len(figures.COLOURS)]
        for axis, change in ((axes[0, 0], _same), (axes[0, 1], _missing)):
            axis.plot(made.marks, change(middle), color=colour, lw=1.6, marker=".", label=name)
            axis.fill_between(made.marks, change(low), change(high), color=colour, alpha=0.15, lw=0)
            axis.set_xscale("log")
            axis.set_xlabel("generation")
            axis.grid(True)
    axes[0, 0].set_ylabel("confidence")
    axes[0, 0].set_ylim(0, 1.01)
    axes[0, 0].legend(loc="lower right")
    axes[0, 1].set_yscale("log")
    axes[0, 1].set_ylabel("1 − confidence")
    axes[0, 1].axhline(1e-4, color=figures.INK, lw=0.8, ls=":")
    axes[0, 1].text(1, 1.1e-4, "99.99 %", fontsize=8.5, va="bottom")
    return figures.save(figure, out, stem)


def matrix(pairs: Tensor, names: Sequence[str], out: Path, stem: str, title: str, what: str) -> str:
    """Numbers for pairs of classes or of networks."""
    count = len(pairs)
    long = max(len(_short(name)) for name in names) > 3
    figure, axes = figures.new(size=(0.42 * count + (3.6 if long else 2.4), 0.42 * count + (2.4 if long else 1.4)))
    axis = axes[0, 0]
    shown = axis.imshow(pairs.numpy(), cmap="viridis")
    axis.set_xticks(range(count), [_short(name) for name in names], rotation=90 if long else 0)
    axis.set_yticks(range(count), [_short(name) for name in names])
    if count <= 12:
        middle = float(pairs.min() + pairs.max()) / 2
        for row in range(count):
            for column in range(count):
                value = round(float(pairs[row, column]), 2) + 0.0  # no −0
                axis.text(column, row, f"{value:.2f}".replace("0.", ".").replace("-", "−"), ha="center", va="center",
                          fontsize=7, color="white" if value < middle else "black")  # fmt: skip
    figure.colorbar(shown, ax=axis, label=what, shrink=0.8)
    figure.suptitle(title, fontsize=10.5)
    return figures.save(figure, out, stem)


def retrained(
    scores: Sequence[Tensor], errors: Sequence[tuple[float, float]], paper: Sequence[float], out: Path
) -> str:
    """Table S2: confidence in the images that evolve against each network (all of them, the median, and the paper's),
    and errors in percent (with and without the fooling images)."""
    figure, axes = figures.new(1, 2, size=(9.6, 3.7))
    place = np.arange(1, len(scores) + 1)
    left, right = axes[0]
    left.boxplot([score.numpy() for score in scores], positions=list(place), widths=0.55, showfliers=False,
                 medianprops={"color": figures.MEASURED, "lw": 1.8})  # fmt: skip
    left.plot(place, [float(score.quantile(0.5)) for score in scores], "o", color=figures.MEASURED, label="measured")
    known = np.arange(1, min(len(scores), len(paper)) + 1)
    left.plot(known, np.array(paper[: len(known)]) / 100, "D", color=figures.PAPER, mfc="none", label="paper")
    left.set_ylabel("confidence of new images")
    left.set_ylim(-0.02, 1.02)
    left.legend(loc="lower left")
    for which, (name, style) in enumerate((("with fooling images", "-"), ("original set", "--"))):
        right.plot(place, [pair[which] for pair in errors], style, marker="o", label=name)
    right.set_ylabel("test error, %")
    right.set_ylim(bottom=0)
    right.legend()
    for axis in (left, right):
        axis.set_xlabel("network DNN")
        axis.set_xticks(place, [str(number) for number in place])
        axis.grid(True, axis="y")
    return figures.save(figure, out, "retrained")


def _same(values: Any) -> Any:
    return values


def _missing(values: Any) -> Any:
    return np.maximum(1 - values, 1e-7)


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"
