"""The highest scores of any number of images, batch by batch: what is kept is as large as the answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from foible.randomness import words


@dataclass(frozen=True, eq=False)
class Top:
    """For each of k directions the `m` images that excite it most, best first.

    keys: (k, m) int64, a score and, below it, a number drawn for the image. index: (k, m) positions in the data.
    lowest: (k,) score of all images seen. broken: images whose score was not a number.
    """

    keys: Tensor
    index: Tensor
    lowest: Tensor
    broken: int

    @staticmethod
    def of(scores: Tensor, index: Tensor, most: int, seed: int) -> Top:
        """scores: (n, k); index: (n,) on the CPU. Equal scores are ordered by a number drawn for each image, which is
        the same however images come in batches, and has nothing to do with their order in the data."""
        drawn = words(seed, index, stream="inspect.ties", count=1).to(scores.device)
        good = scores.isfinite()
        scores = torch.where(good, scores.float() + 0.0, -torch.inf)  # + 0.0: there is one zero only
        keys = ((_ordered(scores) << 32) | drawn).t()
        best = keys.topk(min(most, len(index)), dim=1)
        lowest = torch.where(good, scores, torch.inf).amin(0)
        return Top(best.values.cpu(), index[best.indices.cpu()], lowest.cpu(), int((~good).any(1).sum()))

    def merge(self, other: Top, most: int) -> Top:
        """The best of both."""
        keys = torch.cat([self.keys, other.keys], 1)
        best = keys.topk(min(most, keys.shape[1]), dim=1)
        index = torch.cat([self.index, other.index], 1).gather(1, best.indices)
        return Top(best.values, index, torch.minimum(self.lowest, other.lowest), self.broken + other.broken)

    @property
    def scores(self) -> Tensor:
        """(k, m) float32."""
        bits = self.keys >> 32
        return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int32).view(torch.float32)

    @property
    def alive(self) -> Tensor:
        """(k,) bool: directions along which images differ, and every image on top has a value."""
        scores = self.scores
        return scores.isfinite().all(1) & (scores[:, 0] > self.lowest)


def _ordered(scores: Tensor) -> Tensor:
    """int64 that compare as the floats do."""
    bits = scores.contiguous().view(torch.int32)
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int64)
