"""Spaces: where a search can go from a seed image.

Points are a NamedTuple of (n, ...) tensors, one row a lane, the lane's own seed image among them as `image`.
A field that a move leaves alone is handed on as the same tensor, so that nobody copies it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from foible.spaces.affine import Affine
from foible.spaces.chain import Chain
from foible.spaces.corrupt import Corrupt
from foible.spaces.crop import Crop
from foible.spaces.latent import Latent
from foible.spaces.photometric import Photometric
from foible.spaces.pixels import Pixels
from foible.spaces.swaps import Swaps

Points = Any  # a NamedTuple of tensors; each space has its own


class Space(Protocol):
    """`start` puts every seed image at the space's origin; `render` turns points into images (may leave [0, 1])."""

    def start(self, seeds: Tensor) -> Points: ...
    def render(self, points: Points) -> Tensor: ...


class Moves(Space, Protocol):
    """A space that can be walked: `move` takes each point one small random step, from uniforms (n, draws)."""

    @property
    def draws(self) -> int: ...
    def move(self, points: Points, uniforms: Tensor) -> Points: ...


class Box(Moves, Protocol):
    """A space in which one large move leads anywhere: what gradients, ES and PBIL search.

    A uniform u stands for 2u − 1 largest moves. In a box, `move` takes uniforms beyond [0, 1) just as well, and all the
    way from them to the rendered pixels can be differentiated.
    """

    @property
    def kinds(self) -> tuple[str, ...]:
        """A word for each draw: rotation, shift, brightness."""

    @property
    def reaches(self) -> tuple[float, ...]:
        """For each draw, how many largest moves away from the start the box ends."""

    def draws_of(self, points: Points) -> Tensor:
        """(n, draws): the one move from the start that leads to these points."""


def is_box(space: Any) -> bool:
    return getattr(space, "draws_of", None) is not None and bool(getattr(space, "reaches", ()))


def far(space: Any, places: Tensor) -> Tensor:
    """The draws of the one move from the start to places (n, draws) in [-1, 1] of the box."""
    return 0.5 + 0.5 * torch.tensor(space.reaches, device=places.device) * places


def at(space: Any, places: Tensor, seeds: Tensor) -> Points:
    """The points at places (n, draws) in [-1, 1] of the box around each seed image."""
    return space.move(space.start(seeds), far(space, places))


SPACES: dict[str, Any] = {
    "affine": Affine,
    "photometric": Photometric,
    "crop": Crop,
    "corrupt": Corrupt,
    "swaps": Swaps,
    "pixels": Pixels,
    "latent": Latent,
    "+": Chain,
}

__all__ = [
    "SPACES",
    "Affine",
    "Box",
    "Chain",
    "Corrupt",
    "Crop",
    "Latent",
    "Moves",
    "Photometric",
    "Pixels",
    "Points",
    "Space",
    "Swaps",
    "at",
    "far",
    "is_box",
]
