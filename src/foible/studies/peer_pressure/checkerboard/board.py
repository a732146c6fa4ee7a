"""Paper 1's toy task (Fig. 2): is a point of the plane on a red or a black square? And networks that learn it.

A point is an "image" of two channels and one pixel: (x, y) in [0, 1], so that baskets take it as they take any image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.basket import Basket
from foible.networks.preprocess import Preprocess
from foible.processes import one_thread
from foible.progress import progress
from foible.randomness import uniforms

CLASSES = ("red", "black")
SIZES = (10, 12, 14, 16, 18)  # units in each of the two hidden layers
# Coordinates as networks like them: mean 0 and spread 1 over the whole square.
CENTRED = Preprocess((0.5, 0.5), (12**-0.5, 12**-0.5))


def squares_of(points: Tensor, squares: int) -> Tensor:
    """The class of points (n, 2) on a board of squares × squares: 0 red, 1 black; the first square is red."""
    return (points * squares).floor().clamp(0, squares - 1).sum(-1).long() % 2


def to_boundary(points: Tensor, squares: int) -> Tensor:
    """The distance of points (n, 2) from the nearest line between two squares, in sides of a square.

    The board's own edge is no boundary: nothing lies beyond it.
    """
    lines = torch.arange(1, squares) / squares
    return squares * (points[..., None] - lines).abs().amin((-1, -2))


def samples(squares: int, each: int, seed: int, replicate: int) -> Tensor:
    """Training points (2 · each, 2): drawn evenly from the board, `each` of them red and as many black."""
    drawn = uniforms(seed, torch.tensor(replicate), stream="checkerboard.points", count=80 * each).view(-1, 2)
    label = squares_of(drawn, squares)
    return torch.cat([drawn[label == 0][:each], drawn[label == 1][:each]])


def as_images(points: Tensor) -> Tensor:
    """Points (n, 2) as images (n, 2, 1, 1)."""
    return points[:, :, None, None]


def first_weights(sizes: Sequence[int], seed: int, replicates: int) -> list[Tensor]:
    """Weights and biases of every network, replicate by replicate: (networks, inputs, outputs), (networks, 1, outputs).

    All are stored as wide as the widest. What a narrower network lacks is zero, and stays so: a unit without weights
    in and out has no gradient either. So one batched product serves networks of all sizes.
    """
    widest = max(sizes)
    layers = []
    for layer, (inputs, outputs) in enumerate(((2, widest), (widest, widest), (widest, 1))):
        count = (inputs + 1) * outputs
        lanes, members = torch.arange(replicates)[:, None], 3 * torch.tensor(sizes) + layer
        drawn = uniforms(seed, lanes, member=members, stream="checkerboard.weights", count=count)
        drawn = (2 * drawn - 1).view(-1, inputs + 1, outputs)
        for row in range(len(drawn)):
            units = sizes[row % len(sizes)]
            fan, reach = (inputs if layer == 0 else units), (outputs if layer == 2 else units)
            drawn[row] *= fan**-0.5
            drawn[row, fan:inputs] = 0
            drawn[row, :, reach:] = 0
        layers += [drawn[:, :inputs].clone(), drawn[:, inputs:].clone()]
    return layers


def forward(layers: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """Logits (networks, n) of centred points (networks, n, 2)."""
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        inputs = torch.baddbmm(bias, inputs, weight).tanh()
    return torch.baddbmm(layers[-1], inputs, layers[-2]).squeeze(2)


def train(
    points: Sequence[Tensor],
    squares: int,
    *,
    sizes: Sequence[int] = SIZES,
    seed: int,
    steps: int,
    rate: float,
    quiet: bool = True,
) -> list[Basket]:
    """A basket of one network of each size for every set of training points; all learn at the same time.

    Full batches, Adam, the cross-entropy of one output node; the networks are called `10`, `12`, ….
    """
    layers = [layer.requires_grad_() for layer in first_weights(sizes, seed, len(points))]
    shown = torch.stack([CENTRED(as_images(one)).flatten(1) for one in points]).repeat_interleave(len(sizes), 0)
    labels = torch.stack([squares_of(one, squares) for one in points]).repeat_interleave(len(sizes), 0).float()
    with progress("Training", steps, quiet=quiet) as bar, one_thread():
        fit(layers, shown, labels, steps, rate, bar.advance)
    return [
        _basket([_network(layers, place * len(sizes) + row, units) for row, units in enumerate(sizes)], sizes)
        for place in range(len(points))
    ]


def fit(layers: list[Tensor], shown: Tensor, labels: Tensor, steps: int, rate: float, tick: Callable[[], None]) -> None:
    """Train in place: centred points (networks, n, 2) and their classes (networks, n)."""
    optimiser = torch.optim.Adam(layers, lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        losses = F.binary_cross_entropy_with_logits(forward(layers, shown), labels, reduction="none").mean(1)
        losses.sum().backward()
        optimiser.step()
        tick()


@torch.no_grad()
def _network(layers: Sequence[Tensor], row: int, units: int) -> nn.Sequential:
    """One network as an ordinary module, with its own number of units."""
    network = nn.Sequential(nn.Flatten())
    for number in range(3):
        weight, bias = layers[2 * number][row], layers[2 * number + 1][row, 0]
        inputs, outputs = (2 if number == 0 else units), (1 if number == 2 else units)
        linear = nn.Linear(inputs, outputs)
        linear.weight.copy_(weight[:inputs, :outputs].t())
        linear.bias.copy_(bias[:outputs])
        network.extend([linear] if number == 2 else [linear, nn.Tanh()])
    return network


def _basket(networks: Sequence[nn.Module], sizes: Sequence[int]) -> Basket:
    named = {str(units): network for units, network in zip(sizes, networks, strict=True)}
    return Basket(named, classes=CLASSES, preprocess=CENTRED, shape=(2, 1, 1))
