"""Images as small networks that grow: compositional pattern-producing networks (paper 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from foible.errors import UserError
from foible.spaces.cppn.files import genome_in, written
from foible.spaces.cppn.genome import INPUTS, Draw, Genomes, fresh, mutated, sound
from foible.spaces.cppn.render import render

__all__ = ["Cppn", "Genomes"]

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Cppn:
    """Genomes of at most so many hidden nodes and connections: one that has as many grows no further."""

    nodes: int = 32
    connections: int = 96

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 120:
            raise UserError(f"nodes is {self.nodes}: expected 1 to 120 hidden nodes")
        if not INPUTS * 3 <= self.connections <= 2000:
            raise UserError(f"connections is {self.connections}: expected {INPUTS * 3} to 2000")

    def fresh(self, draw: Draw, shape: Shape) -> Genomes:
        """The first genomes of images of this shape, as many as `draw` draws for."""
        return fresh(draw, shape[0], self.nodes, self.connections)

    def children(self, parents: Genomes, mates: Genomes, draw: Draw, shape: Shape) -> Genomes:
        """One of each parent; mates have no part in it."""
        del mates
        return mutated(parents, draw, shape[0], self.nodes)

    def render(self, genomes: Genomes, shape: Shape, size: tuple[int, int] | None = None) -> Tensor:
        """(n, channels, height, width) in [0, 1]; `size` (height, width) for another size than the shape's."""
        return render(genomes, shape, size)

    def written(self, genomes: Genomes, shape: Shape) -> list[list[float]]:
        """Each as numbers that a row of findings can hold."""
        return written(genomes, shape[0])

    def sound(self, genomes: Genomes, shape: Shape) -> bool:
        """Whether these can be drawn: they may be anybody's."""
        return sound(genomes, shape[0], self.nodes)

    def read(self, values: Sequence[float], shape: Shape, what: str) -> Genomes:
        """What `written` wrote, as a batch of one; checked, since it may be anybody's."""
        return genome_in(values, shape[0], self.nodes, self.connections, what)
