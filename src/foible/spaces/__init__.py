"""Spaces: where a search can go from a seed image.

Points are a NamedTuple of (n, ...) tensors, one row a lane, the lane's own seed image among them as `image`.
A field that a move leaves alone is handed on as the same tensor, so that nobody copies it.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor

from foible.spaces.affine import Affine

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


SPACES = {"affine": Affine}

__all__ = ["SPACES", "Affine", "Moves", "Points", "Space"]
