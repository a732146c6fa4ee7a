"""Paper 3's sparse autoencoder: sigmoid features of the pixels, learnt without labels and never tuned to any.

Sigmoid features and a sigmoid decoder, half the squared error of the pixels, weight decay, and a penalty (a KL
divergence, β times) that holds each feature's mean activity at ρ: the recipe of Ng's lecture notes on sparse
autoencoders, of the paper's time. It ends in pen strokes, the "very high quality first layer filters" of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.networks.fresh import fresh_module
from foible.networks.lbfgs import Advance
from foible.networks.losses import decay, divergence, squared_error
from foible.networks.zoo.dense import Autoencoder
from foible.studies.intriguing.networks.training import Course, descend

SMALL = 0.2  # first weights: what is left of them in a feature that has learnt is noise to the eye


@dataclass(frozen=True)
class Sparse:
    """What the features are to be like: ρ their mean activity, β how much that counts, decay half of each w²."""

    activity: float = 0.1
    weight: float = 3.0
    decay: float = 3e-3


def encoder_for(
    spec: str, images: Tensor, seed: int, course: Course, advance: Advance, how: Sparse | None = None
) -> dict[str, Tensor]:
    """Weights and bias of the encoder of `spec` (as `ae:400`), learnt from images (n, channels, height, width) in
    [0, 1] and from no label."""
    how = how or Sparse()
    shape = (int(images.shape[1]), int(images.shape[2]), int(images.shape[3]))
    autoencoder = fresh_module(spec, shape, 2, seed, phase="autoencode").to(images.device)
    assert isinstance(autoencoder, Autoencoder)
    with torch.no_grad():
        for layer in (autoencoder.encoder, autoencoder.decoder):
            layer.weight *= SMALL
        autoencoder.encoder.bias.fill_(math.log(how.activity / (1 - how.activity)))
    pixels = images.flatten(1)

    layers = [autoencoder.encoder.weight, autoencoder.decoder.weight]

    def loss(rows: Tensor) -> Tensor:
        logits, found = autoencoder(pixels[rows])
        kept = squared_error(logits, pixels[rows]) + decay(layers, [how.decay / 2] * 2)
        return kept + how.weight * divergence(how.activity, found)

    descend(list(autoencoder.parameters()), loss, course.schedule(len(pixels)), seed, advance)
    return {name: value for name, value in autoencoder.state_dict().items() if name.startswith("encoder.")}
