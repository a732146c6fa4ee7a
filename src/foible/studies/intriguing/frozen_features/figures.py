"""Paper 3's Fig. 6: original | distorted | magnified absolute difference; and the features' weights as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.basket import Basket
from foible.figures import blank, new, pixels, save

if TYPE_CHECKING:
    from foible.studies.intriguing.frozen_features.study import Flipped

ROWS = 5
LEAST = 3  # how much a difference is magnified, at least
GAP = 2  # white pixels between pictures


def sheet(images: Tensor, across: int) -> Tensor:
    """Pictures (n, channels, height, width) in rows of `across`, white between and around them: one picture."""
    down = math.ceil(len(images) / across)
    spare = images.new_ones(down * across - len(images), *images.shape[1:])
    framed = F.pad(torch.cat([images, spare]), (0, GAP, 0, GAP), value=1.0)
    channels, tall, wide = framed.shape[1:]
    laid = framed.view(down, across, channels, tall, wide).permute(2, 0, 3, 1, 4)
    return laid.reshape(channels, down * tall, across * wide)


def figure6(blocks: Sequence[Flipped], name: str, out: Path) -> str:
    """A block of three columns for each kind; the difference is magnified so that few pixels shown are white."""
    rows = min(ROWS, min(int(block.found.sum()) for block in blocks))
    figure, axes = new(1, len(blocks), size=(3.7 * len(blocks) + 0.3, 1.0 * rows + 0.9))
    for axis, block in zip(axes.flat, blocks, strict=True):
        picked = block.found.nonzero()[:rows, 0]
        origins, images, sizes = block.origins[picked], block.images[picked], block.sizes[picked]
        away = (images - origins).abs()
        times = max(LEAST, math.floor(1 / float(away.flatten().quantile(0.99).clamp_min(1e-3))))
        cells = torch.stack([origins, images, (times * away).clamp(0, 1)], 1).flatten(0, 1)
        tall, wide = cells.shape[2] + GAP, cells.shape[3] + GAP
        axis.imshow(
            pixels(sheet(cells, 3)), cmap="gray", vmin=0, vmax=1, interpolation="nearest",
            extent=(0, 3 * wide, rows * tall, 0),
        )  # fmt: skip
        blank(axis)
        for column, title in enumerate(("original", "distorted", f"|difference| × {times}")):
            axis.text((column + 0.5) * wide, -0.06 * tall, title, ha="center", va="bottom", fontsize=8.5)
        for row, size in enumerate(sizes.tolist()):
            axis.text(3.03 * wide, (row + 0.5) * tall, f"RMS\n{size:.3f}", ha="left", va="center", fontsize=8.5)
        axis.set_title(block.kind, fontsize=9.5, pad=20)
    figure.suptitle(f"{name!r} against the rest, on features that never saw a label", fontsize=10.5)
    return save(figure, out, "figure6")


def filters(network: Basket, out: Path, most: int = 100) -> str:
    """Weights of the first features, each by its own largest around grey, in the shape of an image."""
    module, shape = network.network(network.names[0]), network.shape
    assert isinstance(module, nn.Module)
    assert shape is not None
    weight = module.get_parameter("encoder.weight").detach().cpu()[:most]
    pictures = (0.5 + 0.5 * weight / weight.abs().amax(1, keepdim=True).clamp_min(1e-12)).view(-1, *shape)
    across = math.ceil(math.sqrt(len(pictures)))
    down = math.ceil(len(pictures) / across)
    figure, axes = new(1, 1, size=(0.55 * across, 0.55 * down + 0.3))
    axes[0, 0].imshow(pixels(sheet(pictures, across)), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    blank(axes[0, 0])
    figure.suptitle(f"{len(pictures)} of the features, learnt without labels", fontsize=10)
    return save(figure, out, "filters")
