"""CPPNs as images: node by node, with the rows that share an activation together; on a GPU one kernel (`kernel.py`).

x and y are the pixel's column and row as they are, as in the authors' program, and only the distance from the centre is
scaled: from 0 to 1 at the middle of an edge. At another size than the one a genome was evolved at, columns and rows are
rescaled, so that it shows the same picture, finer. An output v shows as |v|: as brightness, or three of them as hue,
lightness and saturation.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.spaces.cppn import kernel
from foible.spaces.cppn.genome import INPUTS, Genomes

ROWS = 128  # genomes drawn together on a CPU: what they work on stays in the cache


def coordinates(shape: tuple[int, int, int], size: tuple[int, int], device: torch.device) -> Tensor:
    """(4, height · width): what the inputs are at each pixel of an image of this size, of genomes made for `shape`."""
    sides = []
    for own, wanted in zip(shape[1:], size, strict=True):
        place = torch.arange(wanted, dtype=torch.float64)
        sides.append((place + 0.5) * own / wanted - 0.5)
    y, x = (side.flatten() for side in torch.meshgrid(*sides, indexing="ij"))
    middle_y, middle_x = ((side - 1) / 2 for side in shape[1:])
    far = ((x - middle_x) / max(middle_x, 0.5)).square() + ((y - middle_y) / max(middle_y, 0.5)).square()
    return torch.stack([x, y, far.sqrt(), torch.ones_like(x)]).float().to(device)


def render(genomes: Genomes, shape: tuple[int, int, int], size: tuple[int, int] | None = None) -> Tensor:
    """(n, channels, height, width) in [0, 1]. shape: of the images that the genomes were made for; size: (height,
    width) to draw, where it is another."""
    height, width = size or shape[1:]
    grid = coordinates(shape, (height, width), genomes.weight.device)
    most = genomes.activation.shape[1] - shape[0]
    drawn = kernel.draw(genomes, grid, shape[0]) if kernel.works(grid) else _draw(genomes, grid, shape[0], most)
    shown = drawn.abs_().clamp_(max=1).view(-1, shape[0], height, width)
    return from_hls(shown) if shape[0] == 3 else shown


def _draw(genomes: Genomes, grid: Tensor, outputs: int, most: int) -> Tensor:
    """(n, outputs, pixels): what the outputs are. Hidden nodes that no output hears of are left out."""
    n = len(genomes.hidden)
    weights = grid.new_zeros(n, most + outputs + 1, INPUTS + most)  # the last row: what is written at free places
    row = torch.arange(n)[:, None].expand_as(genomes.source)
    weights[row, genomes.target.long() - INPUTS, genomes.source.long()] = genomes.weight
    feeds = weights[:, :, INPUTS:] != 0
    heard = feeds[:, most : most + outputs].any(1)
    for node in range(int(genomes.hidden.max()) - 1, 0, -1):
        heard |= feeds[:, node] & heard[:, node : node + 1]
    count, order = heard.sum(1), (~heard).byte().argsort(dim=1, stable=True)
    drawn = grid.new_empty(n, outputs, grid.shape[1])
    together = max(1, ROWS * 784 // grid.shape[1])
    for alike in count.argsort(stable=True).split(torch.bincount(count).tolist()):
        for some in alike.split(together):  # of as many nodes: sums are in one order, whoever is beside
            if len(some):
                nodes = order[some, : int(count[some[0]])]
                drawn[some] = _block(weights[some], genomes.activation[some], nodes, grid, outputs)
    return drawn


def _block(weights: Tensor, activation: Tensor, hidden: Tensor, grid: Tensor, outputs: int) -> Tensor:
    """The same of a few genomes with as many hidden nodes each, `hidden` (n, nodes): those that are heard."""
    n, before = hidden.shape
    last = activation.shape[1] - outputs + torch.arange(outputs)
    nodes = torch.cat([hidden, last.expand(n, -1)], 1)
    weights = weights.gather(1, nodes[..., None].expand(-1, -1, weights.shape[2]))
    activation = activation.gather(1, nodes)
    inner = weights[..., INPUTS:].gather(2, hidden[:, None].expand(-1, nodes.shape[1], -1))
    values = torch.bmm(weights[..., :INPUTS], grid.expand(n, -1, -1))  # what comes from the inputs
    kinds = activation.sort(dim=0, stable=True)  # of each node the rows that share a function stand together
    order, counts = kinds.indices.t().contiguous(), F.one_hot(kinds.values.long(), len(FUNCTIONS)).sum(0).tolist()
    for node in range(nodes.shape[1]):
        place, known = values[:, node], min(node, before)
        value = place + torch.bmm(inner[:, node : node + 1, :known], values[:, :known])[:, 0] if known else place
        for function, rows in zip(FUNCTIONS, order[node].split(counts[node]), strict=True):
            if len(rows):
                place.index_copy_(0, rows, function(value.index_select(0, rows)))
    return values[:, before:]


FUNCTIONS: tuple[Callable[[Tensor], Tensor], ...] = (  # in the order of `genome.ACTIVATIONS`; each in place
    lambda values: values.sin_(),
    lambda values: values.div_(2).tanh_(),  # 2 / (1 + e^−v) − 1
    lambda values: values.square_().neg_().exp_(),
    lambda values: values.clamp_(-1, 1),
)


def from_hls(values: Tensor) -> Tensor:
    """(n, 3, height, width) of hue, lightness and saturation in [0, 1] as red, green and blue."""
    hue, light, saturation = values.unbind(1)
    reach = saturation * torch.minimum(light, 1 - light)
    parts = []
    for shift in (0, 8, 4):
        at = (shift + 12 * hue) % 12
        parts.append(light - reach * torch.minimum(at - 3, 9 - at).clamp(-1, 1))
    return torch.stack(parts, 1).clamp_(0, 1)
