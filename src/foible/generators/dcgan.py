"""A deep convolutional GAN (Radford et al. 2015, "Unsupervised representation learning with deep convolutional
generative adversarial networks"), as paper 4 has it: it draws, and cannot encode.

    decoder        five transposed convolutions from a code to 64×64, batch normalisation, ReLU, tanh
    discriminator  five convolutions back, batch normalisation, leaky ReLU

Both begin with weights from N(0, 0.02) and learn by Adam with β₁ = 0.5; the decoder's loss is −log D(g(z)). Images of
another size are brought to 64×64 for the discriminator, and what is drawn is averaged over areas to their size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.generators.base import Drawer, Shape
from foible.generators.learning import Draw, Optimisers, lower
from foible.networks.loop import Turn

SIDE = 64  # pixels, of what is drawn before it is brought to the images' size


class Dcgan(Drawer):
    """The decoder of `latent` numbers. width: feature maps of its last hidden layer."""

    def __init__(self, shape: Shape, latent: int, *, width: int = 64) -> None:
        super().__init__()
        self.shape, self.latent, self.width = shape, latent, width
        layers: list[nn.Module] = [nn.Unflatten(1, (latent, 1, 1)), *_up(latent, 8 * width, stride=1, padding=0)]
        for many in (8, 4, 2):
            layers += _up(many * width, many * width // 2)
        self.decoder = nn.Sequential(*layers, nn.ConvTranspose2d(width, shape[0], 4, 2, 1), nn.Tanh())
        self.apply(_begin)

    def large(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, channels, 64, 64) in [−1, 1]."""
        images: Tensor = self.decoder(codes)
        return images

    def decode(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, *shape) in [0, 1]; differentiable."""
        images = 0.5 + 0.5 * self.large(codes).float()
        return images if self.shape[1:] == (SIDE, SIDE) else F.interpolate(images, self.shape[1:], mode="area")


def _up(channels: int, out: int, stride: int = 2, padding: int = 1) -> list[nn.Module]:
    return [nn.ConvTranspose2d(channels, out, 4, stride, padding, bias=False), nn.BatchNorm2d(out), nn.ReLU()]


def _begin(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)


def _discriminator(channels: int, width: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(channels, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for many in (1, 2, 4):
        layers += [nn.Conv2d(many * width, 2 * many * width, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(2 * many * width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4), nn.Flatten(0)).apply(_begin)


class DcganLearning:
    """How a `Dcgan` learns: the discriminator first, then the decoder."""

    parts = ("decoder", "discriminator")

    def __init__(self, model: Drawer, rate: float) -> None:
        assert isinstance(model, Dcgan)
        self.model = model
        device = next(model.parameters()).device
        self.discriminator = _discriminator(model.shape[0], model.width).to(device)
        self.modules = nn.ModuleDict({"model": model, "discriminator": self.discriminator})
        if device.type == "cuda":
            for module in self.modules.values():
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimisers: Optimisers = {
            name: torch.optim.Adam(module.parameters(), rate, betas=(0.5, 0.999), fused=True)
            for name, module in (("decoder", model), ("discriminator", self.discriminator))
        }

    def losses(self, images: Tensor, draw: Draw) -> Tensor:
        """(2,): means over the images (n, *shape): how badly the decoder passes for them, and how badly the
        discriminator tells."""
        made = self._made(draw)
        return torch.stack([F.softplus(-self._said(made)).mean(), self._told(images, made)])

    def step(self, images: Tensor, draw: Draw, turn: Turn, share: float) -> Tensor:
        """Learn from these images; the losses before each step."""
        del share
        made = self._made(draw)
        told = self._told(images, made.detach())
        lower(told, self.optimisers["discriminator"], turn.rate)
        passing = F.softplus(-self._said(made)).mean()
        lower(passing, self.optimisers["decoder"], turn.rate)
        return torch.stack([passing, told]).detach()

    def _made(self, draw: Draw) -> Tensor:
        codes = draw("sample")
        with torch.autocast(codes.device.type, torch.bfloat16, enabled=codes.is_cuda):
            return self.model.large(codes)

    def _said(self, images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
            said: Tensor = self.discriminator(images)
        return said.float()

    def _told(self, images: Tensor, made: Tensor) -> Tensor:
        """Real and made images are normalised apart, each batch by its own statistics."""
        real = F.interpolate(2 * images - 1, (SIDE, SIDE), mode="bilinear") if images.shape[2:] != (SIDE, SIDE) else (
            2 * images - 1
        )  # fmt: skip
        return F.softplus(-self._said(real)).mean() + F.softplus(self._said(made)).mean()
