"""Several spaces, one after another, as one: `photometric+crop+affine`.

A move moves in every one of them. Each keeps its own numbers; the image goes through them from left to right.
Neighbours that only resample (crop, affine) are composed and resample once: beyond the edge of a crop there is more of
the image, and what turns into view is that and no border.
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from foible.errors import UserError
from foible.warping import compose, warp


@lru_cache(maxsize=64)
def _points_of(kinds: tuple[Any, ...]) -> Any:
    """A NamedTuple of the image and of all other fields of these kinds of points, numbered by their place."""
    names = [f"{field}_{place}" for place, kind in enumerate(kinds, 1) for field in kind._fields if field != "image"]
    make: Any = namedtuple  # the fields depend on the chain, which a type checker cannot follow
    made = make("ChainPoints", ["image", *names])
    made.members = kinds
    return made


def _apart(points: Any, image: Tensor) -> list[Any]:
    """Each member's own points, with `image` as the image of all."""
    fields = iter(points[1:])
    return [
        kind(**{name: image if name == "image" else next(fields) for name in kind._fields})
        for kind in type(points).members
    ]


def _together(each: list[Any]) -> Any:
    """One NamedTuple of all members' points; the image is the first's."""
    own = [field for points in each for name, field in zip(points._fields, points, strict=True) if name != "image"]
    return _points_of(tuple(type(points) for points in each))(each[0].image, *own)


@dataclass(frozen=True)
class Chain:
    """spaces: two or more (or one), in the order in which the image goes through them; chains among them are opened.

    Only the first may change its `image` as it moves; all others keep what they did in fields of their own. The chain
    is a box where all its members are.
    """

    spaces: tuple[Any, ...]

    def __post_init__(self) -> None:
        members: list[Any] = []
        for space in self.spaces:
            members += space.spaces if isinstance(space, Chain) else [space]
        if not members:
            raise UserError("a chain of no spaces: give at least one")
        for space in members:
            for name in ("draws", "start", "move", "render"):
                if not hasattr(space, name):
                    raise UserError(f"{space!r} cannot be part of a chain: it has no {name!r}, so it is no space")
        object.__setattr__(self, "spaces", tuple(members))

    @property
    def draws(self) -> int:
        return sum(space.draws for space in self.spaces)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Empty where a member has none."""
        each = [getattr(space, "kinds", ()) for space in self.spaces]
        return tuple(kind for kinds in each for kind in kinds) if all(each) else ()

    @property
    def reaches(self) -> tuple[float, ...]:
        """Empty where a member is no box."""
        each = [getattr(space, "reaches", ()) for space in self.spaces]
        return tuple(reach for reaches in each for reach in reaches) if all(each) else ()

    @property
    def closed(self) -> bool:
        return all(getattr(space, "closed", True) for space in self.spaces)

    @property
    def doubles(self) -> bool:
        return all(getattr(space, "doubles", False) for space in self.spaces)

    def start(self, seeds: Tensor) -> Any:
        return _together([space.start(seeds) for space in self.spaces])

    def move(self, points: Any, uniforms: Tensor) -> Any:
        draws = uniforms.split([space.draws for space in self.spaces], 1)
        here = zip(self.spaces, _apart(points, points.image), draws, strict=True)
        moved = [space.move(own, drawn) for space, own, drawn in here]
        for space, own in zip(self.spaces[1:], moved[1:], strict=True):
            if own.image is not points.image:
                raise UserError(
                    f"{space!r} changes its image as it moves, so it can only stand first in a chain: "
                    "let it keep what it did in a field of its own"
                )
        return _together(moved)

    def render(self, points: Any) -> Tensor:
        image, waiting = points.image, _Resampling()
        for space, own in zip(self.spaces, _apart(points, points.image), strict=True):
            matrix = space.matrix(own) if hasattr(space, "matrix") else None
            if matrix is not None and waiting.joins(space.border):
                waiting.add(space, own, matrix)
                continue
            image = waiting.done(image)
            if matrix is None:
                image = space.render(own._replace(image=image))
            else:
                waiting.add(space, own, matrix)
        return waiting.done(image)

    def draws_of(self, points: Any) -> Tensor:
        """(n, draws): the one move from the start that leads to these points."""
        if not self.reaches:
            raise UserError(
                "a chain is a box only where all its spaces are: this one cannot say one move for its points"
            )
        each = zip(self.spaces, _apart(points, points.image), strict=True)
        return torch.cat([space.draws_of(own) for space, own in each], 1)

    def describe(self, points: Any) -> dict[str, Tensor]:
        """What every member says of the seed image; a name that is taken already gets its member's place."""
        said: dict[str, Tensor] = {}
        for place, (space, own) in enumerate(zip(self.spaces, _apart(points, points.image), strict=True), 1):
            for name, values in (space.describe(own) if hasattr(space, "describe") else {}).items():
                said[f"{place}: {name}" if name in said else name] = values
        return said


class _Resampling:
    """Neighbours that only resample, waiting to be done at once."""

    def __init__(self) -> None:
        self.matrix: Tensor | None = None
        self.border: str | None = None
        self.only: tuple[Any, Any] | None = None

    def joins(self, border: str | None) -> bool:
        return border is None or self.border is None or border == self.border

    def add(self, space: Any, own: Any, matrix: Tensor) -> None:
        self.only = (space, own) if self.matrix is None else None
        self.matrix = matrix if self.matrix is None else compose(self.matrix, matrix)
        self.border = self.border or space.border

    def done(self, image: Tensor) -> Tensor:
        """The image with all that waited done to it; nothing waits afterwards."""
        matrix, border, only = self.matrix, self.border, self.only
        self.matrix = self.border = self.only = None
        if matrix is None:
            return image
        if only is not None:
            space, own = only
            rendered: Tensor = space.render(own._replace(image=image))
            return rendered
        return warp(image, matrix, border or "edge")
