"""A line between two codes of a generator (paper 4): z_α = (1 − α) z_i + α z_j, drawn as images g(z_α).

No space to search in: every point of it is looked at. `straight` is the paper's line. `spherical` goes along the arc
(White 2016, "Sampling generative networks"), where codes keep the length that those of a GAN were learnt with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from foible.basket.padding import padded
from foible.errors import UserError
from foible.images import LEAST_ROWS
from foible.permission import Permission
from foible.text import did_you_mean

if TYPE_CHECKING:
    from foible.generators.base import Draws, Shape

PATHS = ("straight", "spherical")
FLAT = 1e-6  # sine of the angle of two codes below which there is no arc between them


@dataclass(frozen=True)
class Line:
    """generator: a folder that `foible generator train` wrote, FILE.py:NAME, hf:FOLDER, pixels, or one in memory."""

    generator: Any = ""
    path: str = "straight"
    may: Permission | None = field(default=None, repr=False, compare=False, metadata={"spec": False})

    def __post_init__(self) -> None:
        if self.path not in PATHS:
            raise UserError(f"path is {self.path!r}{did_you_mean(self.path, PATHS)}: expected {' or '.join(PATHS)}")
        if not self.generator:
            raise UserError(
                "boundary needs what draws the images: give --generator FOLDER, which `foible generator train dcgan "
                "--data … --out FOLDER` makes (or vae:10, to begin from real images), or --generator pixels, a "
                "cross-fade"
            )

    @classmethod
    def permitted(cls, may: Permission | None, **options: Any) -> Line:
        """From a spec, whose generator may name a file to run."""
        return cls(**options, may=may or Permission())

    @cached_property
    def _opened(self) -> dict[Any, Draws]:
        return {}

    def on(self, device: torch.device, shape: Shape) -> Draws:
        """The generator, on this device; one that draws images of another shape is refused."""
        if device not in self._opened:
            made: Draws = self.generator
            if isinstance(self.generator, str):
                from foible.generators.opening import open_drawing  # with all that trains them: only where there is one

                made = open_drawing(self.generator, may=self.may or Permission.typed(self.generator), shape=shape)
            self._opened[device] = made.to(device)
        drawn = tuple(self._opened[device].shape)
        if drawn != tuple(shape):
            raise UserError(
                f"the generator {self.generator!r} draws images of {drawn} (channels, height, width), and the "
                f"networks' images are {tuple(shape)}: train one on this data, or give --canvas"
            )
        return self._opened[device]

    def between(self, first: Tensor, second: Tensor, steps: int) -> Tensor:
        """(n, latent) twice to (n, steps, latent): evenly spaced in α from the first codes to the second ones, which
        are the ends themselves."""
        alpha = torch.linspace(0, 1, steps, dtype=torch.float64, device=first.device)[:, None]
        one, other = first.double()[:, None], second.double()[:, None]
        near, far = (1 - alpha).expand(len(first), -1, -1), alpha.expand(len(first), -1, -1)
        if self.path == "spherical":
            cosine = torch.nn.functional.cosine_similarity(one, other, dim=2)[..., None].clamp(-1, 1)
            angle = cosine.arccos()
            arc = angle.sin() > FLAT
            share = torch.where(arc, angle.sin(), 1.0)
            near = torch.where(arc, (near * angle).sin() / share, near)
            far = torch.where(arc, (far * angle).sin() / share, far)
        return (near * one + far * other).float()

    def encode(self, images: Tensor) -> Tensor:
        """Codes (n, latent) of images (n, channels, height, width) in [0, 1]."""
        generator: Any = self.on(images.device, (images.shape[1], images.shape[2], images.shape[3]))
        if not hasattr(generator, "encode"):
            raise UserError(
                f"the generator {self.generator!r} draws and does not encode: it has no code for an image that is "
                "there; take one of vae:N or vaegan:N, or begin from its samples"
            )
        with torch.no_grad(), _the_same_bits():
            return torch.cat([generator.encode(padded(some))[: len(some)] for some in images.split(LEAST_ROWS)])

    def draw(self, codes: Tensor, shape: Shape) -> Tensor:
        """Images (n, *shape) of codes (n, latent), always 16 at once: a code gives the same bits in any company."""
        generator = self.on(codes.device, shape)
        if codes.shape[1] != generator.latent:
            raise UserError(
                f"a code of {codes.shape[1]} numbers, and those of the generator {self.generator!r} have "
                f"{generator.latent}: it is of another generator"
            )
        with torch.no_grad(), _the_same_bits():
            return torch.cat([generator.decode(padded(some))[: len(some)] for some in codes.split(LEAST_ROWS)])


def _the_same_bits() -> Any:
    """A GPU may add up a transposed convolution in any order, and a pixel would round otherwise when drawn again."""
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
