"""Paper 3's Figs. 5 and 7: originals, differences and distorted images; and what noise looks like beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from foible.figures import blank, new, pixels, save
from foible.transfer.figures import apart

MAGNIFIED = 10  # Fig. 5's differences
EDGE = 0.04  # between images, as a share of their height


@dataclass(frozen=True, eq=False)
class Shown:
    """Some distorted images. images, origins: (n, channels, height, width); words: one for each, or none."""

    title: str
    images: Tensor
    origins: Tensor
    words: tuple[str, ...] = ()


def figure5(blocks: Sequence[Shown], out: Path, stem: str = "figure5", *, rows: int = 6, heading: str = "") -> str:
    """Original | difference × 10 around grey | distorted, a row for each image, a block for each network."""
    rows = min(rows, *(len(block.images) for block in blocks))
    figure, axes = new(1, len(blocks), size=(3.9 * len(blocks) + 0.2, 0.98 * rows + 0.9))
    for axis, block in zip(axes.flat, blocks, strict=True):
        origins, images = block.origins[:rows], block.images[:rows]
        difference = (0.5 + MAGNIFIED * (images - origins)).clamp(0, 1)
        tall, wide = _mosaic(axis, torch.stack([origins, difference, images], 1).flatten(0, 1), 3)
        for column, name in enumerate(("original", f"difference × {MAGNIFIED}", "distorted")):
            axis.text((column + 0.5) * wide, -0.08 * tall, name, ha="center", va="bottom", fontsize=9)
        for row, word in enumerate(block.words[:rows]):
            axis.text(3.06 * wide, (row + 0.5) * tall, word, ha="left", va="center", fontsize=9)
        axis.set_title(block.title, fontsize=10, pad=22)
    if heading:
        figure.suptitle(heading, fontsize=11)
    return save(figure, out, stem)


def figure7(panels: Sequence[Shown], out: Path, stem: str = "figure7", *, rows: int = 6, pairs: int = 3) -> str:
    """A panel for each: odd columns original, even columns distorted."""
    figure, axes = new(1, len(panels), size=(4.1 * len(panels) + 0.2, 0.66 * rows + 0.7))
    for axis, panel in zip(axes.flat, panels, strict=True):
        count = min(rows * pairs, len(panel.images))
        both = torch.stack([panel.origins[:count], panel.images[:count]], 1).flatten(0, 1)
        tall, wide = _mosaic(axis, both, 2 * pairs)
        across = math.ceil(count / pairs)
        for place in range(1, pairs):  # pairs stand together
            axis.plot([2 * place * wide] * 2, [0, across * tall], color="white", linewidth=5)
        axis.set_title(panel.title, fontsize=9.5)
    apart(figure, across=0.12)
    return save(figure, out, stem)


def _mosaic(axis: Axes, images: Tensor, across: int) -> tuple[float, float]:
    """Images in rows of `across`, white between them; gives a cell's height and width, in the axis's units."""
    cells = [pixels(image) for image in images]
    edge = max(1, round(EDGE * cells[0].shape[0]))
    tall, wide = cells[0].shape[0] + edge, cells[0].shape[1] + edge
    down = math.ceil(len(cells) / across)
    sheet: np.ndarray[Any, Any] = np.ones((down * tall, across * wide, *cells[0].shape[2:]))
    for place, cell in enumerate(cells):
        top, left = place // across * tall, place % across * wide
        sheet[top : top + tall - edge, left : left + wide - edge] = cell
    axis.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest", extent=(0, across * wide, down * tall, 0))
    blank(axis)
    return float(tall), float(wide)
