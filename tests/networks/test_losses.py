"""Losses against their definitions; a fleet's K in front changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from foible.networks.losses import (
    AUXILIARY_WEIGHT,
    SPARSITY,
    SPARSITY_WEIGHT,
    cross_entropy,
    decay,
    divergence,
    pixel_cross_entropy,
    sparse_reconstruction,
    squared_error,
)

DRAWN = torch.Generator().manual_seed(0)
LOGITS, PIXELS = torch.randn(2, 5, 9, generator=DRAWN), torch.rand(2, 5, 9, generator=DRAWN)
FEATURES, LABELS = torch.rand(2, 5, 4, generator=DRAWN), torch.randint(0, 9, (2, 5), generator=DRAWN)


def test_cross_entropy_is_each_members_own_mean() -> None:
    found = cross_entropy(LOGITS, PIXELS, LABELS)
    assert found.shape == (2,)
    for row in range(2):
        assert float(found[row]) == pytest.approx(float(F.cross_entropy(LOGITS[row], LABELS[row])), rel=1e-6)
        assert torch.allclose(cross_entropy(LOGITS[row], PIXELS[row], LABELS[row]), found[row])
    both = cross_entropy((LOGITS, -LOGITS), PIXELS, LABELS)
    assert torch.allclose(both, found + AUXILIARY_WEIGHT * cross_entropy(-LOGITS, PIXELS, LABELS))


def test_pixels_are_added_and_images_averaged() -> None:
    chance = LOGITS.double().sigmoid()
    pixels = PIXELS.double()
    expected = -(pixels * chance.log() + (1 - pixels) * (1 - chance).log()).sum(2).mean(1)
    assert torch.allclose(pixel_cross_entropy(LOGITS, PIXELS).double(), expected)
    assert torch.allclose(squared_error(LOGITS, PIXELS).double(), ((chance - pixels) ** 2).sum(2).mean(1) / 2)
    assert squared_error(LOGITS[0], PIXELS[0]).shape == ()


def test_divergence_of_activities() -> None:
    assert float(divergence(0.1, torch.tensor([[0.0, 0.1], [0.2, 0.1]]))) == pytest.approx(0, abs=1e-7)
    expected = 0.1 * np.log(0.1 / 0.5) + 0.9 * np.log(0.9 / 0.5)
    assert float(divergence(0.1, torch.tensor([[0.5, 0.1, 0.5]]))) == pytest.approx(2 * expected, rel=1e-6)
    assert divergence(0.1, torch.tensor([[0.0, 1.0]])).isfinite()


def test_a_sparse_reconstruction_is_both() -> None:
    found = sparse_reconstruction((LOGITS, FEATURES), PIXELS.view(2, 5, 1, 3, 3), LABELS)
    expected = pixel_cross_entropy(LOGITS, PIXELS) + SPARSITY_WEIGHT * divergence(SPARSITY, FEATURES)
    assert torch.equal(found, expected)


def test_every_layer_has_its_own_decay() -> None:
    layers = [torch.tensor([1.0, 2.0]), torch.tensor([[3.0]])]
    assert float(decay(layers, [10.0, 1.0])) == 59
    with pytest.raises(ValueError, match="zip"):
        decay(layers, [1.0])
