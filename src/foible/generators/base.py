"""What a generator is: an encoder from images to codes, and a decoder back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

Shape = tuple[int, int, int]


class Draws(Protocol):
    """A decoder. Opened, it is in eval mode, and its weights ask for no gradients."""

    shape: Shape
    """Channels, height and width of its images."""
    latent: int
    """Numbers in a code."""
    fingerprint: str
    """Hash of what it is, its weights and their description: part of a run's settings."""
    spec: str
    """What opens it again."""

    def decode(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, *shape) in [0, 1]; differentiable."""

    def to(self, device: str | torch.device) -> Any:
        """Itself, on this device."""


class Generator(Draws, Protocol):
    """One that encodes too."""

    def encode(self, images: Tensor) -> Tensor:
        """(n, *shape) in [0, 1] to codes (n, latent): the mean of what the encoder says."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """What an encoder says of n images: a normal distribution of codes each. mean, log_variance: (n, latent)."""

    mean: Tensor
    log_variance: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """Codes (n, latent), for standard normal noise of that shape."""
        return self.mean + noise * (0.5 * self.log_variance).exp()

    def divergence(self) -> Tensor:
        """(n, latent): Kullback-Leibler divergence from the standard normal, in nats."""
        return 0.5 * (self.mean.square() + self.log_variance.exp() - 1 - self.log_variance)


class Drawer(nn.Module, ABC):
    """The generators that are trained here: they draw images from codes, and some make codes of images (`Coder`)."""

    fingerprint = ""
    spec = ""
    shape: Shape
    latent: int

    @abstractmethod
    def decode(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, *shape) in [0, 1]; differentiable."""


class Coder(Drawer):
    """One that encodes too: an `encoder` up to its last hidden layer, a `head` that makes mean and log
    variance of that, and a `decoder` to logits of pixels (n, *shape)."""

    def __init__(
        self, shape: Shape, latent: int, encoder: nn.Module, width: int, decoder: nn.Module, beta: float
    ) -> None:
        super().__init__()
        self.shape, self.latent, self.beta = shape, latent, beta
        self.encoder, self.head, self.decoder = encoder, nn.Linear(width, 2 * latent), decoder

    def features(self, images: Tensor) -> Tensor:
        """(n, *shape) in [0, 1] to the encoder's last hidden layer, (n, width)."""
        hidden: Tensor = self.encoder(images)
        return hidden

    def posterior(self, images: Tensor) -> Posterior:
        said: Tensor = self.head(self.features(images))
        return Posterior(*said.float().chunk(2, 1))

    def encode(self, images: Tensor) -> Tensor:
        """(n, *shape) in [0, 1] to the means (n, latent)."""
        return self.posterior(images).mean

    def logits(self, codes: Tensor) -> Tensor:
        """(n, latent) to the logits of pixels (n, *shape)."""
        said: Tensor = self.decoder(codes)
        return said.float()

    def decode(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, *shape) in [0, 1]."""
        return self.logits(codes).sigmoid()


def check_images(generator: Generator, images: Tensor) -> None:
    """Refuse images that are not of the generator's shape."""
    from foible.errors import UserError

    if tuple(images.shape[1:]) != tuple(generator.shape):
        raise UserError(
            f"images have shape {tuple(images.shape[1:])}, the generator {generator.spec!r} is of "
            f"{tuple(generator.shape)} (channels, height, width): give a generator that was trained on such images, or "
            "images of its size"
        )
