"""Figures S5–S9: sheets of ascended images, and how their confidence rises; and the confidence of real images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from foible import figures
from foible.studies.easily_fooled.stage import FIGURES, Climbed

ACROSS = 10  # images in a row of a sheet
MARKS = (0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.999999)


def less_mean(images: Tensor, mean: Tensor) -> Tensor:
    """Images (…, channels, height, width) less the mean, as the paper shows them: grey where they are the mean, each
    stretched to its own largest difference."""
    apart = images - mean.cpu()
    return 0.5 + 0.5 * apart / apart.abs().amax((-3, -2, -1), keepdim=True).clamp_min(1e-6)


def sheet(climbed: Climbed, names: Sequence[str], mean: Tensor, out: Path, stem: str, title: str) -> str:
    """Figs. S5–S7: of each class its first start, less the mean (above) and as it is (below)."""
    images, sure = climbed.images[0], climbed.confidence[0].tolist()
    across = min(ACROSS, len(images))
    down = -(-len(images) // across)
    empty = torch.ones(down * across - len(images), *images.shape[1:])
    rows = [torch.cat([part, empty]).unflatten(0, (down, across)) for part in (less_mean(images, mean), images)]
    above = [_short(names[place]) for place in climbed.classes]
    below = [_confidence(value) for value in sure]
    figure, axes = figures.new(down, 1, size=_size(images, across, 2, down))
    for row, axis in enumerate(axes[:, 0]):
        some = slice(row * across, (row + 1) * across)
        _board(axis, torch.stack([part[row] for part in rows]))
        for column, (over, under) in enumerate(zip(above[some], below[some], strict=True)):
            _write(axis, images, column, 0, over, over=True)
            _write(axis, images, column, 1, under)
    figure.suptitle(title, fontsize=10.5)
    return figures.save(figure, out, stem)


def variety(climbed: Climbed, names: Sequence[str], mean: Tensor, out: Path, stem: str, title: str) -> str:
    """Figs. S8, S9: a column a class, a row a start, less the mean."""
    shown = min(ACROSS, len(climbed.classes))
    images, sure = less_mean(climbed.images, mean)[:, :shown], climbed.confidence
    figure, axes = figures.new(size=_size(images[0], shown, climbed.starts))
    axis = axes[0, 0]
    _board(axis, images)
    for column in range(shown):
        _write(axis, images[0], column, 0, _short(names[climbed.classes[column]]), over=True)
        for start in range(climbed.starts):
            _write(axis, images[0], column, start, _confidence(float(sure[start, column])))
    figure.suptitle(title, fontsize=10.5)
    return figures.save(figure, out, stem)


def _board(axis: Axes, images: Tensor) -> None:
    """Images (rows, columns, channels, height, width) as one picture: as many axes would take seconds."""
    rows, columns, channels, height, width = images.shape
    tall, wide = _cell(images[0])
    whole = torch.ones(rows, columns, 3, tall, wide)
    whole[..., :height, :width] = images.expand(rows, columns, 3, height, width) if channels == 1 else images
    axis.imshow(whole.permute(0, 3, 1, 4, 2).reshape(rows * tall, columns * wide, 3).clamp(0, 1).numpy(),
                interpolation="nearest")  # fmt: skip
    figures.blank(axis)


def _size(images: Tensor, across: int, rows: int, boards: int = 1) -> tuple[float, float]:
    """Inches of a figure with so many boards, one below the other, and a title."""
    tall, wide = _cell(images)
    each = max(1.15, 4.0 / across)  # a title has to fit
    return each * across + 0.1, boards * (each * rows * tall / wide + 0.25) + 0.25


def _cell(images: Tensor) -> tuple[int, int]:
    """Height and width of an image (…, height, width) with room for a line below it, and a gap beside it."""
    height, width = images.shape[-2:]
    return height + max(2, round(0.17 * height)), width + max(1, round(0.05 * width))


def _write(axis: Axes, images: Tensor, column: int, row: int, text: str, *, over: bool = False) -> None:
    """A line below an image of a board, or over it."""
    (tall, wide), (height, width) = _cell(images), images.shape[-2:]
    down = row * tall - 0.5 if over else row * tall + height - 0.3
    axis.text(column * wide + width / 2 - 0.5, down, text, ha="center", va="bottom" if over else "top", fontsize=8)


def rising(climbs: Mapping[str, Climbed], out: Path) -> str:
    """Confidence by step: the median of all images, and between which the middle half lies."""
    figure, axes = figures.new(1, 2, size=(9.6, 3.7))
    for number, (name, climbed) in enumerate(climbs.items()):
        sure = climbed.came.trace.cpu()
        steps = np.array(climbed.came.steps) + 1
        low, middle, high = torch.nanquantile(sure, torch.tensor([0.25, 0.5, 0.75]), dim=1).numpy()
        colour = figures.COLOURS[number]
        for axis, change in ((axes[0, 0], _same), (axes[0, 1], _missing)):
            axis.plot(steps, change(middle), color=colour, lw=1.6, label=FIGURES[name])
            axis.fill_between(steps, change(low), change(high), color=colour, alpha=0.15, lw=0)
            axis.set_xscale("log")
            axis.set_xlabel("step + 1")
            axis.grid(True)
    axes[0, 0].set_ylabel("confidence")
    axes[0, 0].set_ylim(0, 1.01)
    axes[0, 1].set_yscale("log")
    axes[0, 1].set_ylabel("1 − confidence")
    axes[0, 0].legend(loc="lower right")
    return figures.save(figure, out, "confidence-by-step")


def confidences(parts: Mapping[str, Mapping[str, Tensor]], out: Path) -> str:
    """Which share of images has at most so much confidence: real ones, right and wrong, and fooling ones; a panel for
    each data set. Confidence is drawn by its log-odds: fooling images crowd at 1 otherwise."""
    figure, axes = figures.new(1, len(parts), size=(4.9 * len(parts) + 0.6, 3.9))
    for axis, (title, kinds) in zip(axes[0], parts.items(), strict=True):
        for number, (name, values) in enumerate(kinds.items()):
            if len(values):
                seen = _log_odds(values.double().sort().values.numpy())
                axis.plot(
                    np.concatenate([seen[:1], seen]), np.linspace(0, 100, len(seen) + 1), drawstyle="steps-post",
                    color=figures.COLOURS[number], lw=1.6, ls="-" if name.startswith("real") else "--", label=name,
                )  # fmt: skip
        axis.set_xticks(_log_odds(np.array(MARKS)), [f"{100 * mark:.6g}" for mark in MARKS])
        axis.set_xlim(_log_odds(0.08), _log_odds(1.0) + 0.5)
        axis.set_ylim(0, 101)
        axis.set_title(title)
        axis.set_xlabel("confidence, %")
        axis.grid(True)
    axes[0, 0].set_ylabel("images with at most as much, %")
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figures.save(figure, out, "confidences")


def _log_odds(values: Any) -> Any:
    """Of what a float32 softmax can tell from 1."""
    kept = np.clip(values, 1e-3, 1 - 2.0**-24)
    return np.log(kept / (1 - kept))


def _same(values: Any) -> Any:
    return values


def _missing(values: Any) -> Any:
    return np.maximum(1 - values, 1e-7)


def _confidence(value: float) -> str:
    return f"{100 * value:.2f} %" if value == value else "no number"


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:13]}…"
