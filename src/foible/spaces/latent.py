"""The latent space of a generator (paper 2): x′ = g(z + e) + x − g(z).

z is the code that the encoder gives the image x, and a point is its shift e. What the generator cannot draw (x − g(z))
stays as it is, so at e = 0 the image is the very one, and whatever a shift changes is something that the generator
knows how to draw: a stroke, a smile. A box, in units of the code: every search works in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from foible.errors import UserError
from foible.permission import Permission

if TYPE_CHECKING:
    from foible.generators import Generator


class LatentPoints(NamedTuple):
    """image: (n, channels, height, width) in [0, 1], x. code: (n, latent), z. rest: as the image, x − g(z).
    shift: (n, latent), e."""

    image: Tensor
    code: Tensor
    rest: Tensor
    shift: Tensor


@dataclass(frozen=True)
class Latent:
    """generator: a folder that `foible generator train` wrote, FILE.py:NAME, hf:FOLDER, or a generator in memory.
    step: the largest change of a number of the code in one move. reach: how many such moves from the start the box
    ends. clip: cut what leaves [0, 1] off, as a PNG will; paper 2 does not."""

    generator: Any = ""
    step: float = 0.3
    reach: float = 10.0
    clip: bool = True
    may: Permission | None = field(default=None, repr=False, compare=False, metadata={"spec": False})

    derived: ClassVar[tuple[str, ...]] = ("code", "rest")  # fields that follow from the image: no part of a row

    def __post_init__(self) -> None:
        for name in ("step", "reach"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise UserError(f"latent: {name} is {value}: expected a number above 0")
        if not self.generator:
            raise UserError(
                "the space latent needs a generator: latent?generator=FOLDER, which `foible generator train vae:10 "
                "--data … --out FOLDER` makes"
            )

    @classmethod
    def permitted(cls, may: Permission | None, **options: Any) -> Latent:
        """From a spec, whose generator may name a file to run."""
        return cls(**options, may=may or Permission())

    @cached_property
    def opened(self) -> Generator:
        if not isinstance(self.generator, str):
            given: Generator = self.generator
            return given
        from foible.generators import open_generator  # with all that trains them: only where there is one

        return open_generator(self.generator, may=self.may or Permission.typed(self.generator))

    @cached_property
    def _moved(self) -> dict[torch.device, Generator]:
        return {}

    def on(self, device: torch.device) -> Generator:
        """The generator, on this device."""
        if device not in self._moved:
            self._moved[device] = self.opened.to(device)
        return self._moved[device]

    @property
    def draws(self) -> int:
        return self.opened.latent

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("latent",) * self.draws

    @property
    def reaches(self) -> tuple[float, ...]:
        return (self.reach,) * self.draws

    def start(self, seeds: Tensor) -> LatentPoints:
        generator = self.on(seeds.device)
        if tuple(seeds.shape[1:]) != tuple(generator.shape):
            raise UserError(
                f"the generator draws images of {_size(generator.shape)} and the images are {_size(seeds.shape[1:])}: "
                "train one on this data, or give --canvas"
            )
        with torch.no_grad():
            code = generator.encode(seeds)
            return LatentPoints(seeds, code, seeds - generator.decode(code), torch.zeros_like(code))

    def move(self, points: LatentPoints, uniforms: Tensor) -> LatentPoints:
        return points._replace(shift=points.shift + self.step * (2 * uniforms - 1))

    def render(self, points: LatentPoints) -> Tensor:
        drawn = self.on(points.image.device).decode(points.code + points.shift) + points.rest
        return drawn.clamp(0, 1) if self.clip else drawn

    def draws_of(self, points: LatentPoints) -> Tensor:
        """(n, latent): the one move from the start that leads to these points."""
        return 0.5 + 0.5 * points.shift / self.step

    def describe(self, points: LatentPoints) -> dict[str, Tensor]:
        """How far the code was shifted, and how far the pixels: (n,) each."""
        with torch.no_grad():
            changed = (self.render(points) - points.image).flatten(1)
        return {"latent distance": points.shift.norm(dim=1), "pixel distance": changed.norm(dim=1)}


def _size(shape: Any) -> str:
    channels, height, width = shape
    return f"{channels} channel{'' if channels == 1 else 's'}, {height}×{width}"
