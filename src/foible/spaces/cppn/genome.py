"""Genomes of compositional pattern-producing networks (CPPNs), many at once, and how they change (paper 5).

A CPPN is a small network from the coordinates of a pixel to its brightness. Its nodes are numbered

    0 x · 1 y · 2 distance from the centre · 3 bias | 4 … hidden nodes | the outputs, from `4 + most` on

and each feeds later ones only, so that no genome has a cycle. Connections stand in order of (target, source), the free
places after them.

Rates are those of the authors' program. A node that is put into a connection gets what came through it at weight 1, and
hands it on at the connection's weight. There is no crossover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

INPUTS = 4
ACTIVATIONS = ("sine", "sigmoid", "gaussian", "linear")
RANGE = 10.0  # weights are in [−10, 10]
ADD_CONNECTION, REMOVE_CONNECTION, ADD_NODE, REMOVE_NODE = 0.5, 0.3, 0.5, 0.2
CHANGE = 0.1  # share of the weights, and of the activations, that change
ETA = 15.0  # of polynomial mutation: larger changes less

Draw = Callable[[str, int], Tensor]  # (what for, count) -> uniforms (n, count)


class Genomes(NamedTuple):
    """n genomes of at most `most` hidden nodes; one that is missing or free has target `none`."""

    hidden: Tensor  # (n,) int64: how many hidden nodes
    activation: Tensor  # (n, most + outputs) uint8: of hidden nodes, and from `most` on of outputs
    source: Tensor  # (n, connections) int16
    target: Tensor  # (n, connections) int16
    weight: Tensor  # (n, connections) float32


def none(outputs: int, most: int) -> int:
    """The target of a free place: after every node."""
    return INPUTS + most + outputs


def sound(genomes: Genomes, outputs: int, most: int) -> bool:
    """Whether every number stands for something: each connection leads from a node to a later one, and is in order."""
    hidden, activation, source, target, weight = genomes
    free = target == none(outputs, most)
    key = torch.where(free, 1 << 24, target.int() * (none(outputs, most) + 1) + source)
    right = [
        (hidden >= 0) & (hidden <= most), activation < len(ACTIVATIONS), weight.abs() <= RANGE,
        free | ((source >= 0) & (source < target) & (source < INPUTS + hidden[:, None])),
        free | ((target >= INPUTS) & (target < INPUTS + hidden[:, None]))
        | ((target >= INPUTS + most) & (target < none(outputs, most))),
        (key[:, 1:] > key[:, :-1]) | free[:, 1:],
    ]  # fmt: skip
    return all(bool(part.all()) for part in right)


def moves(drawn: Tensor) -> Tensor:
    """Polynomial mutation (Deb and Agrawal) of a tenth of the values: by how much each changes, in widths of its range.
    drawn: uniforms; one below 0.1 says that a value changes, and its place there by how much."""
    power, amount = 1 / (ETA + 1), (drawn / CHANGE).clamp(max=1)
    near = torch.where(amount < 0.5, 2 * amount, 2 - 2 * amount).pow(power)
    return torch.where(drawn < CHANGE, torch.where(amount < 0.5, near - 1, 1 - near), 0.0)


def fresh(draw: Draw, outputs: int, most: int, connections: int) -> Genomes:
    """Every input connected with every output, no hidden nodes."""
    count, device = INPUTS * outputs, draw("cppn.activations", 1).device
    n = len(draw("cppn.activations", 1))
    source, target = torch.zeros(2, connections, dtype=torch.int16, device=device)
    target += none(outputs, most)
    source[:count] = torch.arange(INPUTS, device=device).repeat(outputs)
    target[:count] = INPUTS + most + torch.arange(outputs, device=device).repeat_interleave(INPUTS)
    weight = torch.zeros(n, connections, device=device)
    weight[:, :count] = (2 * draw("cppn.weights", count) - 1) * RANGE
    activation = (draw("cppn.activations", most + outputs) * len(ACTIVATIONS)).byte()
    return Genomes(
        torch.zeros(n, dtype=torch.int64, device=device), activation, source.repeat(n, 1), target.repeat(n, 1), weight
    )


def mutated(parents: Genomes, draw: Draw, outputs: int, most: int) -> Genomes:
    """One child of each."""
    edit = _Edit(parents, draw("cppn.structure", 12), outputs, most)
    edit.remove_connection()
    edit.remove_node()
    edit.add_node()
    edit.add_connection()
    hidden, activation, source, target, weight = edit.sorted()
    moved = (weight + moves(draw("cppn.weights", weight.shape[1])) * (2 * RANGE)).clamp(-RANGE, RANGE)
    weight = torch.where(target < edit.none, moved, 0.0)
    drawn = draw("cppn.activations", activation.shape[1])
    activation = torch.where(drawn < CHANGE, (drawn / CHANGE * len(ACTIVATIONS)).byte(), activation)
    return Genomes(hidden, activation, source, target, weight)


class _Edit:
    """Genomes while nodes and connections come and go. Rows where a change does not happen stay as they are."""

    def __init__(self, parents: Genomes, drawn: Tensor, outputs: int, most: int) -> None:
        self.hidden, self.activation, self.source, self.target, self.weight = parents
        self.drawn, self.outputs, self.most = drawn, outputs, most
        self.first_output, self.none = INPUTS + most, none(outputs, most)
        self.place = torch.arange(most + outputs, device=drawn.device)

    @property
    def there(self) -> Tensor:
        """(n, connections): which places hold a connection."""
        return self.target < self.none

    def _one_of(self, some: Tensor, drawn: Tensor) -> Tensor:
        """Of the marked places of each row one, by a uniform (n,): itself marked (n, connections)."""
        rank = some.cumsum(1)
        return some & (rank == (drawn * rank[:, -1]).long()[:, None] + 1)

    def _put(self, where: Tensor, source: Tensor, target: Tensor, weight: Tensor) -> None:
        """Write one connection a row, (n,) each, to the marked place."""
        self.source = torch.where(where, source[:, None].short(), self.source)
        self.target = torch.where(where, target[:, None].short(), self.target)
        self.weight = torch.where(where, weight[:, None], self.weight)

    def _free(self) -> Tensor:
        """The first free place of each row, marked."""
        empty = ~self.there
        return empty & (empty.cumsum(1) == 1)

    def _renumber(self, from_: Tensor, by: int) -> None:
        """Hidden nodes from `from_` (n,) on are moved up or down by one; a row where it is `none` stays."""
        edge = from_[:, None].short()
        for name in ("source", "target"):
            nodes = getattr(self, name)
            setattr(self, name, nodes + by * ((nodes >= edge) & (nodes < self.first_output)).short())

    def remove_connection(self) -> None:
        gone = self._one_of(self.there, self.drawn[:, 1]) & (self.drawn[:, :1] < REMOVE_CONNECTION)
        self.target = torch.where(gone, self.none, self.target)

    def remove_node(self) -> None:
        happens = (self.drawn[:, 2] < REMOVE_NODE) & (self.hidden > 0)
        node = INPUTS + (self.drawn[:, 3] * self.hidden).long()
        node = torch.where(happens, node, self.none)
        at = node[:, None].short()
        self.target = torch.where((self.source == at) | (self.target == at), self.none, self.target)
        self._renumber(node + 1, -1)
        kept = self.place + ((self.place >= node[:, None] - INPUTS) & (self.place < self.most - 1)).long()
        self.activation = self.activation.gather(1, kept)
        self.hidden = self.hidden - happens.long()

    def add_node(self) -> None:
        split = self._one_of(self.there, self.drawn[:, 5])
        count, places = self.there.sum(1), self.weight.shape[1]
        happens = (self.drawn[:, 4] < ADD_NODE) & (self.hidden < self.most) & (count > 0) & (count < places)
        split = split & happens[:, None]
        source, target = ((nodes * split).sum(1) for nodes in (self.source, self.target))
        weight = (self.weight * split).sum(1)
        low = torch.clamp(source + 1, min=INPUTS)
        high = torch.where(target < self.first_output, target, INPUTS + self.hidden)
        node = low + (self.drawn[:, 6] * (high - low + 1)).long()
        node = torch.where(happens, node, self.none)
        target = target + ((target >= node) & (target < self.first_output)).long()
        self._renumber(node, 1)
        self._put(split, source, node, torch.ones_like(weight))
        self._put(self._free() & happens[:, None], node, target, weight)
        at = node[:, None] - INPUTS
        moved = self.place - ((self.place > at) & (self.place < self.most)).long()
        activation = self.activation.gather(1, moved)
        own = (self.drawn[:, 7:8] * len(ACTIVATIONS)).byte()
        self.activation = torch.where(self.place == at, own, activation)
        self.hidden = self.hidden + happens.long()

    def add_connection(self) -> None:
        source = (self.drawn[:, 9] * (INPUTS + self.hidden)).long()
        first = torch.clamp(source + 1, min=INPUTS)
        later = INPUTS + self.hidden - first  # hidden nodes that come after the source
        which = (self.drawn[:, 10] * (later + self.outputs)).long()
        target = torch.where(which < later, first + which, self.first_output + which - later)
        double = ((self.source == source[:, None]) & (self.target == target[:, None])).any(1)
        happens = (self.drawn[:, 8] < ADD_CONNECTION) & ~double
        weight = (2 * self.drawn[:, 11] - 1) * RANGE
        self._put(self._free() & happens[:, None], source, target, weight)

    def sorted(self) -> Genomes:
        """Connections in order of target and source, free places last."""
        key = torch.where(self.there, self.target.int() * (self.none + 1) + self.source, 1 << 24)
        key, order = key.sort(1)
        there = key < 1 << 24
        source = torch.where(there, key % (self.none + 1), 0).short()
        target = torch.where(there, key // (self.none + 1), self.none).short()
        return Genomes(self.hidden, self.activation, source, target, self.weight.gather(1, order))
