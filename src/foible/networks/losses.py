"""What training lowers. The last dimensions are those of one batch, (n, …); any in front, as a fleet's K, are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

AUXILIARY_WEIGHT = 0.3  # of each auxiliary classifier's loss, as Szegedy et al. have it
SPARSITY, SPARSITY_WEIGHT = 0.05, 0.1  # of the autoencoder's features: their wanted mean, and how much it counts
Loss = Callable[[Any, Tensor, Tensor], Tensor]  # (outputs, images, labels), each (K, n, …), to (K,)


def cross_entropy(logits: Tensor | tuple[Tensor, ...], images: Tensor, labels: Tensor) -> Tensor:
    """Mean over each member's batch: (K, n, classes) and (K, n) to (K,); labels (K, n, classes) are distributions.

    A network with auxiliary classifiers gives a tuple when it is trained, its own logits first.
    """
    if isinstance(logits, tuple):
        main, *others = (cross_entropy(one, images, labels) for one in logits)
        return main + AUXILIARY_WEIGHT * sum(others)
    labels = labels.flatten(0, -2) if labels.is_floating_point() else labels.flatten()
    return F.cross_entropy(logits.flatten(0, -2), labels, reduction="none").view(logits.shape[:-1]).mean(-1)


def sparse_reconstruction(outputs: tuple[Tensor, Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """An autoencoder's: cross-entropy of the pixels, and features that are active with a mean of SPARSITY."""
    del labels
    logits, features = outputs
    return pixel_cross_entropy(logits, images.flatten(2)) + SPARSITY_WEIGHT * divergence(SPARSITY, features)


def pixel_cross_entropy(logits: Tensor, pixels: Tensor) -> Tensor:
    """Sum over the pixels, mean over the batch: logits and pixels (…, n, pixels), these in [0, 1]."""
    return F.binary_cross_entropy_with_logits(logits, pixels, reduction="none").sum(-1).mean(-1)


def squared_error(logits: Tensor, pixels: Tensor) -> Tensor:
    """Half the sum over the pixels, mean over the batch, of what the sigmoid of the logits is from the pixels."""
    errors: Tensor = (logits.sigmoid() - pixels).square().sum(-1).mean(-1) / 2
    return errors


def divergence(activity: float, features: Tensor) -> Tensor:
    """Σ over features (…, n, units) in [0, 1] of KL(activity ‖ mean of the feature over the batch)."""
    mean = features.mean(-2).clamp(1e-6, 1 - 1e-6)
    kept = activity * (activity / mean).log()
    lost = (1 - activity) * ((1 - activity) / (1 - mean)).log()
    return (kept + lost).sum(-1)


def decay(weights: Sequence[Tensor], amounts: Sequence[float]) -> Tensor:
    """Σ over layers of an amount times the sum of its squared weights, of one network."""
    pairs = zip(weights, amounts, strict=True)
    return torch.stack([amount * weight.square().sum() for weight, amount in pairs]).sum()
