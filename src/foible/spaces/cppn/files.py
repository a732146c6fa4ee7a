"""Genomes as numbers in a row of findings, which may be anybody's, and back.

    version, hidden nodes, outputs, an activation for each of these, then (source, target, weight) of each connection

with the outputs numbered after the last hidden node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from foible.errors import UserError
from foible.spaces.cppn.genome import ACTIVATIONS, INPUTS, Genomes, none

VERSION = 1


def written(genomes: Genomes, outputs: int) -> list[list[float]]:
    """Each genome as a list of numbers."""
    hidden, activation, source, target, weight = (field.cpu().numpy() for field in genomes)
    most = activation.shape[1] - outputs
    lines = []
    for row, count in enumerate(hidden.tolist()):
        kinds = [*activation[row, :count].tolist(), *activation[row, most:].tolist()]
        there = target[row] < none(outputs, most)
        ends = target[row, there].astype(np.int64)
        ends = np.where(ends >= INPUTS + most, ends - most + count, ends)
        links = np.stack([source[row, there], ends, weight[row, there]], 1)
        lines.append([VERSION, count, outputs, *kinds, *links.flatten().tolist()])
    return lines


def genome_in(values: Sequence[float], outputs: int, most: int, places: int, what: str) -> Genomes:
    """The genome that such a list holds, as a batch of one; an error says what is wrong with it."""

    def wrong(why: str) -> UserError:
        return UserError(f"{what} is no genome that can be drawn: {why}")

    numbers = np.asarray(values, np.float64)
    if not len(numbers) or not np.isfinite(numbers).all():
        raise wrong("it is empty, or has NaN or infinity in it")
    if numbers[0] != VERSION:
        raise wrong(f"it is of version {numbers[0]:g}, and this Foible reads {VERSION}")
    if len(numbers) < 3 or not 0 <= numbers[1] <= most or numbers[2] != outputs or numbers[1] % 1:
        raise wrong(f"expected up to {most} hidden nodes and {outputs} outputs, for images of as many channels")
    hidden = int(numbers[1])
    nodes = hidden + outputs
    kinds, links = numbers[3 : 3 + nodes], numbers[3 + nodes :]
    if len(kinds) < nodes or not np.isin(kinds, range(len(ACTIVATIONS))).all():
        raise wrong(f"expected an activation, 0 to {len(ACTIVATIONS) - 1}, for each of its {nodes} nodes")
    if len(links) % 3 or len(links) > 3 * places:
        raise wrong(f"expected source, target and weight of up to {places} connections")
    source, target, weight = links.reshape(-1, 3).T
    if ((source % 1 != 0) | (source < 0) | (source >= INPUTS + hidden)).any():
        raise wrong("a connection comes from a node that there is not, or from an output")
    if ((target % 1 != 0) | (target < INPUTS) | (target >= INPUTS + nodes)).any():
        raise wrong("a connection leads to a node that there is not, or to an input")
    if (source >= target).any():
        raise wrong("it has a cycle: a connection leads back to an earlier node")
    if len({*zip(source.tolist(), target.tolist(), strict=True)}) < len(source):
        raise wrong("two connections join the same nodes")
    target = np.where(target >= INPUTS + hidden, target - hidden + most, target)
    order = np.lexsort((source, target))
    made = Genomes(
        torch.tensor([hidden]),
        torch.zeros(1, most + outputs, dtype=torch.uint8),
        torch.zeros(1, places, dtype=torch.int16),
        torch.full((1, places), none(outputs, most), dtype=torch.int16),
        torch.zeros(1, places),
    )
    made.activation[0, :hidden] = torch.tensor(kinds[:hidden]).byte()
    made.activation[0, most:] = torch.tensor(kinds[hidden:]).byte()
    for field, numbered in ((made.source, source), (made.target, target), (made.weight, weight)):
        field[0, : len(order)] = torch.tensor(numbered[order]).to(field.dtype)
    return made
