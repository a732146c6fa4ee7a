"""A deep convolutional GAN (Radford et al. 2015, "Unsupervised representation learning with deep convolutional
generative adversarial networks"), as paper 4 has it: it draws, and cannot encode.

    decoder        five transposed convolutions from a code to 64×64, batch normalisation, ReLU, tanh
    discriminator  five convolutions back, batch normalisation, leaky ReLU

Both begin with weights from N(0, 0.02) and learn by Adam with β₁ = 0.5; the decoder's loss is −log D(g(z)). What is
drawn is averaged over areas to the size of the images, and both are brought to 64×64 for the discriminator: it sees
what will be drawn, and not how it came to its size.

Beyond the paper, the discriminator pays for its slopes at real images. Without that it soon knows all that is drawn,
and the decoder learns no more from it: on MNIST its loss was 0 after twelve epochs. And what is kept is a mean of the
decoder over the last steps: each step follows what the discriminator happens to look at, and the mean does not.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.errors import UserError
from foible.generators.base import Drawer, Shape
from foible.generators.learning import Draw, Optimisers, lower, steepness
from foible.networks.loop import Turn
from foible.networks.repeated import Repeated, set_rate

TIMES, MOST_SIDE = 16, 256  # by how much four of the convolutions enlarge; pixels of a side at most
KEPT = 4  # the last fifth of all steps so far counts for most of the mean that is kept
STEEP, EVERY = 3.0, 16  # what the slopes cost, and after how many steps they are looked at, at so many times the cost


class Dcgan(Drawer):
    """The decoder of `latent` numbers. width: feature maps of its last hidden layer. side: pixels of what it draws,
    before that is brought to the images' size."""

    def __init__(self, shape: Shape, latent: int, *, width: int = 64, side: int = 64) -> None:
        super().__init__()
        if side % TIMES or not TIMES < side <= MOST_SIDE:
            raise UserError(f"generator 'dcgan': side is {side}: expected a multiple of {TIMES}, 32 to {MOST_SIDE}")
        self.shape, self.latent, self.width, self.side = shape, latent, width, side
        layers: list[nn.Module] = [nn.Unflatten(1, (latent, 1, 1))]
        layers += _up(latent, 8 * width, size=side // TIMES, stride=1, padding=0)
        for many in (8, 4, 2):
            layers += _up(many * width, many * width // 2)
        self.decoder = nn.Sequential(*layers, nn.ConvTranspose2d(width, shape[0], 4, 2, 1), nn.Tanh())
        self.apply(_begin)

    def large(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, channels, side, side) in [−1, 1]."""
        images: Tensor = self.decoder(codes)
        return images

    def decode(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, *shape) in [0, 1]; differentiable."""
        images = 0.5 + 0.5 * self.large(codes).float()
        return images if self.shape[1:] == images.shape[2:] else F.interpolate(images, self.shape[1:], mode="area")


def _up(channels: int, out: int, size: int = 4, stride: int = 2, padding: int = 1) -> list[nn.Module]:
    return [nn.ConvTranspose2d(channels, out, size, stride, padding, bias=False), nn.BatchNorm2d(out), nn.ReLU()]


def _begin(layer: nn.Module) -> None:
    if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)


def _discriminator(channels: int, width: int, side: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(channels, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for many in (1, 2, 4):
        layers += [nn.Conv2d(many * width, 2 * many * width, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(2 * many * width), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, side // TIMES), nn.Flatten(0)).apply(_begin)


class DcganLearning:
    """How a `Dcgan` learns: the discriminator first, then the decoder."""

    parts = ("decoder", "discriminator")

    def __init__(self, model: Drawer, rate: float) -> None:
        assert isinstance(model, Dcgan)
        self.model, self.learner = model, deepcopy(model)  # the mean, and what learns
        device = next(model.parameters()).device
        self.discriminator = _discriminator(model.shape[0], model.width, model.side).to(device)
        self.modules = nn.ModuleDict({"model": model, "learner": self.learner, "discriminator": self.discriminator})
        recorded = device.type == "cuda"
        if recorded:
            for module in self.modules.values():
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimisers: Optimisers = {
            name: torch.optim.Adam(
                module.parameters(), torch.tensor(rate, device=device) if recorded else rate, betas=(0.5, 0.999),
                fused=True, capturable=recorded,
            )
            for name, module in (("decoder", self.learner), ("discriminator", self.discriminator))
        }  # fmt: skip
        self.means, self.weights = (  # those of batch normalisation too
            [one for one in module.state_dict().values() if one.is_floating_point()] for module in (model, self.learner)
        )
        self.steps = {steep: Repeated(partial(self._step, steep=steep)) for steep in (False, True)}

    def losses(self, images: Tensor, draw: Draw) -> Tensor:
        """(2,): means over the images (n, *shape): how badly the decoder passes for them, and how badly the
        discriminator tells."""
        made = self._made(self.model, draw("sample"))
        return torch.stack([F.softplus(-self._said(made)).mean(), self._told(self._seen(2 * images - 1), made)])

    def step(self, images: Tensor, draw: Draw, turn: Turn, share: float) -> Tensor:
        """Learn from these images; the losses before each step."""
        del share
        for optimiser in self.optimisers.values():
            set_rate(optimiser, turn.rate)
        losses = self.steps[turn.number % EVERY == 0](images, draw("sample"))
        with torch.no_grad():
            torch._foreach_lerp_(self.means, self.weights, (KEPT + 1) / (KEPT + 1 + turn.number))
        return losses

    def _step(self, images: Tensor, codes: Tensor, *, steep: bool) -> Tensor:
        made, real = self._made(self.learner, codes), self._seen(2 * images - 1)
        told = self._told(real, made.detach())
        costs = EVERY * STEEP * steepness(self.discriminator, real) if steep else 0.0
        lower(told + costs, self.optimisers["discriminator"])
        passing = F.softplus(-self._said(made)).mean()
        lower(passing, self.optimisers["decoder"])
        return torch.stack([passing, told]).detach()

    def _made(self, model: Dcgan, codes: Tensor) -> Tensor:
        with torch.autocast(codes.device.type, torch.bfloat16, enabled=codes.is_cuda):
            large = model.large(codes)
        return self._seen(F.interpolate(large.float(), model.shape[1:], mode="area"))

    def _seen(self, images: Tensor) -> Tensor:
        """Images (n, *shape) in [−1, 1] as the discriminator gets them."""
        side = self.model.side
        return images if images.shape[2:] == (side, side) else F.interpolate(images, (side, side), mode="bilinear")

    def _said(self, images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
            said: Tensor = self.discriminator(images)
        return said.float()

    def _told(self, real: Tensor, made: Tensor) -> Tensor:
        """Real and made images are normalised apart, each batch by its own statistics."""
        return F.softplus(-self._said(real)).mean() + F.softplus(self._said(made)).mean()
