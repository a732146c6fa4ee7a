"""A variational autoencoder for small images (Kingma and Welling 2013, "Auto-encoding variational Bayes").

e(x) gives mean and variance of a normal q(z|x), g(z) the probability of each pixel. What is lowered is the negative
evidence lower bound in nats an image,

    −log p(x|z) + β KL(q(z|x) ‖ N(0, 1)),     z = mean + noise · standard deviation,

with one z an image and step. β = 1 is the paper's. It rises from nothing over the first fifth of the training: from the
start, it would switch dimensions off before they are of use (Sønderby et al. 2016, "Ladder variational autoencoders").
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.generators.base import Coder, Drawer, Shape
from foible.generators.learning import Draw, Optimisers, lower
from foible.networks.loop import Turn
from foible.networks.repeated import set_rate

WARM = 0.2  # of the training, until β is whole


class Vae(Coder):
    """Two hidden layers of `width` units on either side."""

    def __init__(self, shape: Shape, latent: int, *, width: int = 400, beta: float = 1.0) -> None:
        pixels = math.prod(shape)
        encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(pixels, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
        )  # fmt: skip
        decoder = nn.Sequential(
            nn.Linear(latent, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, pixels),
            nn.Unflatten(1, shape),
        )  # fmt: skip
        super().__init__(shape, latent, encoder, width, decoder, beta)


class VaeLearning:
    """How a `Vae` learns: one optimiser, one loss."""

    parts = ("loss", "reconstruction", "divergence")

    def __init__(self, model: Drawer, rate: float) -> None:
        assert isinstance(model, Vae)
        self.model = model
        self.modules = nn.ModuleDict({"model": model})
        self.optimisers: Optimisers = {"adam": torch.optim.Adam(model.parameters(), rate, fused=True)}

    def losses(self, images: Tensor, draw: Draw) -> Tensor:
        """(3,): means over the images (n, *shape) of the loss, −log p(x|z) and the divergence."""
        posterior = self.model.posterior(images)
        logits = self.model.logits(posterior.sample(draw("code")))
        missed = F.binary_cross_entropy_with_logits(logits, images, reduction="sum") / len(images)
        divergence = posterior.divergence().sum() / len(images)
        return torch.stack([missed + self.model.beta * divergence, missed, divergence])

    def step(self, images: Tensor, draw: Draw, turn: Turn, share: float) -> Tensor:
        """Learn from these images; the losses before the step."""
        losses = self.losses(images, draw)
        set_rate(self.optimisers["adam"], turn.rate)
        lower(losses[1] + self.model.beta * min(1.0, share / WARM) * losses[2], self.optimisers["adam"])
        return losses.detach()
