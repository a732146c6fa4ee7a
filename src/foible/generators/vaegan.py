"""A variational autoencoder whose decoder is the generator of a GAN (Larsen et al. 2015, "Autoencoding beyond pixels
using a learned similarity metric"), for photographs.

Three networks, three losses, from one pass over a batch:

    encoder        KL(q(z|x) ‖ N(0, 1)) · β + L
    decoder        γ · L, and adversarial: its reconstructions and its samples, z ~ N(0, 1), should pass for photographs
    discriminator  photographs from reconstructions and samples

L is the negative log-likelihood of the discriminator's hidden layer Dis_l(x) under N(Dis_l(g(z)), 1), in nats, with
the layer scaled to variance 1 over the photographs. The decoder's two slopes, with respect to the images that it made,
are brought to one length before γ weighs them (as Esser et al. 2021 balance theirs): 1 is an even match, whatever the
discriminator's scale.

Differences from the paper: kernels of 4 (they overlap evenly); Adam; no batch normalisation in the discriminator, but a
price on its slopes at photographs (Mescheder et al. 2018, "R1"), so that they go on telling the decoder something. What
is kept are the weights' moving averages (Yazıcı et al. 2019: a GAN goes round in circles, and their middle is better
than any point of them).
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.generators.base import Coder, Drawer, Shape
from foible.generators.learning import Draw, Optimisers, steepness
from foible.networks.loop import Turn
from foible.networks.repeated import set_rate

HALVINGS = 3
STEEP = 0.05  # price of the discriminator's slope at photographs: half of this times its squared length
EVERY = 4  # steps between two times that the price is paid, so many times over: it takes a second pass
MEMORY = 0.999  # of the moving averages, from step to step


class VaeGan(Coder):
    """Convolutions of `width`, 2 and 4 times `width` channels, each halving the image, and a dense layer."""

    def __init__(
        self, shape: Shape, latent: int, *, width: int = 64, beta: float = 1.0, gamma: float = 2.0
    ) -> None:  # fmt: skip
        hidden = 16 * width
        high, wide = (-(-side // 2**HALVINGS) for side in shape[1:])
        encoder = nn.Sequential(
            Padded(2**HALVINGS), *_down(shape[0], width), *_down(width, 2 * width), *_down(2 * width, 4 * width),
            nn.Flatten(), nn.Linear(4 * width * high * wide, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(),
        )  # fmt: skip
        decoder = nn.Sequential(
            nn.Linear(latent, 4 * width * high * wide, bias=False), nn.Unflatten(1, (4 * width, high, wide)),
            nn.BatchNorm2d(4 * width), nn.ReLU(), *_up(4 * width, 4 * width), *_up(4 * width, 2 * width),
            *_up(2 * width, width), nn.Conv2d(width, shape[0], 3, padding=1), Cut(shape[1], shape[2]),
        )  # fmt: skip
        super().__init__(shape, latent, encoder, hidden, decoder, beta)
        self.width, self.gamma = width, gamma


class Padded(nn.Module):
    """Images whose sides are multiples of a number: the last row and column are repeated where they are not."""

    def __init__(self, multiple: int) -> None:
        super().__init__()
        self.multiple = multiple

    def forward(self, images: Tensor) -> Tensor:
        below, right = (-side % self.multiple for side in images.shape[2:])
        return F.pad(images, (0, right, 0, below), mode="replicate") if below or right else images


class Cut(nn.Module):
    """The opposite: the first rows and columns."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width

    def forward(self, images: Tensor) -> Tensor:
        return images[:, :, : self.height, : self.width]


def _down(channels: int, out: int) -> list[nn.Module]:
    return [nn.Conv2d(channels, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]


def _up(channels: int, out: int) -> list[nn.Module]:
    return [nn.ConvTranspose2d(channels, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]


class Discriminator(nn.Module):
    """Logits (n,) of being a photograph, and the hidden layer in which reconstructions are compared."""

    def __init__(self, shape: Shape, width: int) -> None:
        super().__init__()
        high, wide = (-(-side // 2**HALVINGS) for side in shape[1:])
        leaky = nn.LeakyReLU(0.2)
        self.below = nn.Sequential(
            Padded(2**HALVINGS), nn.Conv2d(shape[0], width, 3, 1, 1), leaky,
            nn.Conv2d(width, 2 * width, 4, 2, 1), leaky,
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1), leaky,
            nn.Conv2d(4 * width, 4 * width, 4, 2, 1),
        )  # fmt: skip
        self.above = nn.Sequential(
            leaky, nn.Flatten(), nn.Linear(4 * width * high * wide, 8 * width), leaky,
            nn.Linear(8 * width, 1), nn.Flatten(0),
        )  # fmt: skip

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        hidden: Tensor = self.below(images)
        said: Tensor = self.above(hidden)
        return said.float(), hidden.float()


def _unit(slope: Tensor) -> Tensor:
    """The same direction, of length 1."""
    length: Tensor = slope.square().sum().sqrt()
    return slope / length.clamp(min=1e-20)


class VaeGanLearning:
    """How a `VaeGan` learns: three optimisers, one pass."""

    parts = ("loss", "reconstruction", "divergence", "decoder", "discriminator")

    def __init__(self, model: Drawer, rate: float) -> None:
        assert isinstance(model, VaeGan)
        self.model = model  # the averages
        self.live = copy.deepcopy(model)  # what learns
        device = next(model.parameters()).device
        self.discriminator = Discriminator(model.shape, model.width).to(device)
        self.modules = nn.ModuleDict({"model": model, "live": self.live, "discriminator": self.discriminator})
        if device.type == "cuda":
            for module in self.modules.values():
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        sides = {
            "encoder": [*self.live.encoder.parameters(), *self.live.head.parameters()],
            "decoder": [*self.live.decoder.parameters()],
            "discriminator": [*self.discriminator.parameters()],
        }
        self.optimisers: Optimisers = {
            name: torch.optim.Adam(weights, rate, betas=(0.5, 0.999), fused=True) for name, weights in sides.items()
        }

    def losses(self, images: Tensor, draw: Draw) -> Tensor:
        """(5,): means over the images (n, *shape) of the encoder's loss, its two parts, how badly the decoder passes
        for photographs, and the discriminator's loss."""
        return torch.stack(self._pass(images, draw)[1])

    def _pass(self, images: Tensor, draw: Draw) -> tuple[Tensor, list[Tensor]]:
        """What was made, (2n, *shape): reconstructions and samples; and the losses."""
        n = len(images)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
            posterior = self.live.posterior(images)
            made = self.live.decode(torch.cat([posterior.sample(draw("code")), draw("sample")]))
            said, hidden = self.discriminator(torch.cat([images, made]))
        real = hidden[:n]
        usual = real.detach().var(0, correction=0).mean()  # from image to image, in the same place
        apart = (hidden[n : 2 * n] - real).square().mean() / usual.clamp(min=1e-12)
        missed, divergence = 0.5 * hidden[0].numel() * apart, posterior.divergence().sum(1).mean()
        caught = F.softplus(-said[:n]).mean() + F.softplus(said[n:]).mean()
        return made, [missed + self.model.beta * divergence, missed, divergence, F.softplus(-said[n:]).mean(), caught]

    def step(self, images: Tensor, draw: Draw, turn: Turn, share: float) -> Tensor:
        """Learn from these images; the losses before the step."""
        del share
        made, losses = self._pass(images, draw)
        _, missed, divergence, passing, caught = losses
        for optimiser in self.optimisers.values():
            optimiser.zero_grad()
        [alike] = torch.autograd.grad(missed, made, retain_graph=True)
        [real] = torch.autograd.grad(passing, made, retain_graph=True)
        caught.backward(inputs=self._weights("discriminator"), retain_graph=True)
        if turn.number % EVERY == 0:
            costs = EVERY * STEEP * steepness(lambda seen: self.discriminator(seen)[0], images)
            costs.backward(inputs=self._weights("discriminator"))
        wanted = self.model.gamma * _unit(alike) + _unit(real)
        made.backward(wanted, inputs=self._weights("decoder"), retain_graph=True)
        torch.autograd.backward(
            [made, self.model.beta * divergence], [alike, None], inputs=self._weights("encoder")
        )  # fmt: skip
        for optimiser in self.optimisers.values():  # once all gradients are there: they are of one pass
            set_rate(optimiser, turn.rate)
            optimiser.step()
        self._average(turn.number)
        return torch.stack(losses).detach()

    def _weights(self, name: str) -> list[Tensor]:
        return [weight for group in self.optimisers[name].param_groups for weight in group["params"]]

    @torch.no_grad()
    def _average(self, number: int) -> None:
        """Over few steps at first: the first weights are soon forgotten."""
        both = zip(self.model.state_dict().values(), self.live.state_dict().values(), strict=True)
        pairs = [(average, live) for average, live in both if average.is_floating_point()]
        averages, lives = map(list, zip(*pairs, strict=True))
        torch._foreach_lerp_(averages, lives, 1 - min(MEMORY, (1 + number) / (10 + number)))
