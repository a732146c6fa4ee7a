"""How many images networks are shown in place of those that were asked about: bits and speed depend on the number."""

from __future__ import annotations

import torch
from torch import Tensor

from foible.images import LEAST_ROWS

# On a CPU, images of so many values are shown to a network a few at a time, always as many: to pad a batch to 16 would
# make the last trial of a search as dear as sixteen, and a larger batch is no quicker.
LARGE, FEW = 3 * 96 * 96, 2
CACHED = 128  # on a CPU, images that a deep network is shown at once: of more, what it computes is in no cache
MANY = 4096  # rows from which on a GPU is shown them as they come


def padded(images: Tensor, least: int = LEAST_ROWS) -> Tensor:
    """At least so many rows, so that the last bits of an answer do not change with the size of the batch."""
    rows = len(images)
    if rows >= least:
        return images
    return torch.cat([images, images[-1:].expand(least - rows, *images.shape[1:])])


def rounded(rows: int, device: torch.device) -> int:
    """How many rows a GPU is shown in place of so many: a library plans anew for every size that it has not met,
    which takes longer than an eighth more rows, and searches come in all sizes."""
    if device.type != "cuda" or rows > MANY:
        return rows
    step = max(LEAST_ROWS, (1 << rows.bit_length()) >> 4)
    return -(-rows // step) * step
