"""Lower and upper frame bounds of every layer of a network: its smallest and largest singular value (paper 3, Table 5).

A layer that is `circular` is exact by Fourier on the smallest torus that encloses it (`fourier.enclosing_torus`), so
that the upper bound holds for the real layer too; `real` values are those of the layer as it is, zero padding and all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.inspect.spectrum.calls import Call, Shape, Trace
from foible.inspect.spectrum.fourier import circular_bounds, enclosing_torus, papers_norm
from foible.inspect.spectrum.lipschitz import constant, norm_scale
from foible.inspect.spectrum.operators import Map, extremes, largest, operator, smallest

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
PAPERS_GRID = 48  # frequencies along an axis for the paper's own form, which is for comparison only
FLOATS = 20_000_000  # multiplications of one application beyond which float32 has to do
EFFORT = 1_000_000_000  # multiplications that a smallest singular value of a real layer may cost


@dataclass(frozen=True)
class Bounds:
    """One layer, or a layer with the batch normalisation that follows it.

    first, last: its calls. lower, upper: its frame bounds; for a layer without weights only `upper`, its Lipschitz
    constant. papers_upper: a strided convolution in the paper's own form. real_lower, real_upper: of the real,
    zero-padded layer; `at_most` says that `real_lower` is only known to be no larger. strict: nothing exceeds `upper`;
    else it was sampled and is a hair too small. None: `note` says why.
    """

    name: str
    kind: str
    size: str
    first: int
    last: int
    weighted: bool
    lower: float | None = None
    upper: float | None = None
    papers_upper: float | None = None
    real_lower: float | None = None
    real_upper: float | None = None
    at_most: bool = False
    strict: bool = True
    note: str = ""


@dataclass(frozen=True)
class Effort:
    """How much is worked out. fold: batch normalisation with the layer before it. real: check on the real layer.
    grid: most frequencies along an axis (None: all). most: largest min(m, n) of a linear layer whose smallest
    singular value is worked out. seed: of the first vectors."""

    fold: bool = True
    real: bool = True
    grid: int | None = None
    most: int = 8192
    seed: int = 0


def network_bounds(
    traced: Trace, effort: Effort | None = None, tick: Callable[[int], None] | None = None
) -> list[Bounds]:
    """The bounds of every call, in order; `tick` is told of every call that is done."""
    effort, found, calls = effort or Effort(), [], traced.calls
    at = 0
    while at < len(calls):
        call, scale, names = calls[at], None, calls[at].name
        if effort.fold and _weighted(call.layer) and at + 1 < len(calls) and calls[at + 1].follows:
            scale = norm_scale(calls[at + 1].layer)
        last = at if scale is None else at + 1
        if scale is not None:
            names = f"{names} + {calls[last].name}"
        found.append(replace(layer_bounds(call, effort, scale), name=names, first=at, last=last))
        if tick:
            tick(last + 1 - at)
        at = last + 1
    return found


@torch.no_grad()
def layer_bounds(call: Call, effort: Effort, scale: Tensor | None = None) -> Bounds:
    """The bounds of one call; `scale` (channels,) multiplies its output channels."""
    layer = call.layer
    plain = Bounds(call.name, type(layer).__name__, "", -1, -1, _weighted(layer))
    if not _weighted(layer):
        own = norm_scale(layer)
        if own is not None:
            return replace(plain, lower=float(own.abs().min()), upper=float(own.abs().max()))
        value, note = constant(layer, call.inputs, call.outputs)
        return replace(plain, upper=value, note=note)
    weight = _scaled(layer, scale)
    plain = replace(plain, size=_size(layer))
    if not bool(weight.isfinite().all()):
        return replace(plain, note="its weights are not all finite")
    if isinstance(layer, nn.Linear):
        return _matrix_bounds(plain, weight, effort)
    return _convolution_bounds(plain, call, weight, effort)


def _matrix_bounds(plain: Bounds, weight: Tensor, effort: Effort) -> Bounds:
    small = min(weight.shape)
    if small <= effort.most:
        low, high = extremes(weight)
        return replace(plain, lower=low, upper=high, real_lower=low, real_upper=high)
    narrow = weight.float()
    made = operator(lambda rows: rows @ narrow.t(), (weight.shape[1],), dtype=torch.float32, device=weight.device)
    high = largest(made, seed=effort.seed).value
    why = f"the lower bound of min(m, n) = {small} was not asked for (most {effort.most}); upper by Lanczos"
    return replace(plain, upper=high, real_upper=high, strict=False, note=why)


def _convolution_bounds(plain: Bounds, call: Call, weight: Tensor, effort: Effort) -> Bounds:
    layer: Any = call.layer
    turned = isinstance(layer, Transposed)
    # A transposed convolution is the adjoint of one from its output to its input: the same singular values.
    sides, outs = (call.outputs[1:], call.inputs[1:]) if turned else (call.inputs[1:], call.outputs[1:])
    stride, dilation = tuple(layer.stride), tuple(layer.dilation)
    pads = [(pad, pad) for pad in layer.padding] if turned else _pads(layer)
    torus, factor, note = _torus(layer, sides, outs, pads, stride)
    whole = torus
    if effort.grid is not None:
        torus = [step * min(side // step, effort.grid) for side, step in zip(torus, stride, strict=True)]
    if torus != whole:
        note = _joined(note, f"on {'×'.join(map(str, torus))} frequencies only: no strict bound")
    how = {"stride": stride, "dilation": dilation, "groups": layer.groups}
    low, high = circular_bounds(weight, torus, **how)
    found = replace(plain, lower=low, upper=factor * high, strict=torus == whole, note=note)
    if max(stride) > 1:
        coarse = [min(side, PAPERS_GRID) for side in torus]
        found = replace(found, papers_upper=papers_norm(weight, coarse, **how))
    return _real(found, layer, weight, call.inputs, effort) if effort.real else found


def _torus(
    layer: Any, sides: Shape, outs: Shape, pads: Sequence[tuple[int, int]], stride: Shape
) -> tuple[list[int], float, str]:
    """Where the layer is circular, what its padding multiplies the upper bound by, and a word on that."""
    mode = getattr(layer, "padding_mode", "zeros")
    if mode == "zeros":
        return enclosing_torus(sides, [max(pair) for pair in pads], stride, outs), 1.0, ""
    if mode == "circular" and all(out * step == side for out, step, side in zip(outs, stride, sides, strict=True)):
        return list(sides), 1.0, ""
    # Other padding copies pixels first, which enlarges by √ of the most copies of one pixel.
    padded = [side + sum(pair) for side, pair in zip(sides, pads, strict=True)]
    ones = torch.zeros(1, 1, *sides, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        copies = torch.autograd.grad(_pad(ones, pads, mode).sum(), ones)[0]
    factor = math.sqrt(float(copies.max()))
    note = f"{mode} padding copies pixels: the upper bound has a factor {factor:.3g}" if factor > 1 else ""
    return enclosing_torus(padded, [0] * len(padded), stride, outs), factor, note


def _real(found: Bounds, layer: Any, weight: Tensor, inputs: Shape, effort: Effort) -> Bounds:
    """The layer as it is, by Lanczos and, for the lower bound, a dense SVD or inverse iteration."""
    spread = math.prod(inputs if isinstance(layer, Transposed) else inputs[1:])
    cost = spread * weight[0].numel() if isinstance(layer, Transposed) else spread * weight.numel()
    cost = max(1, cost // (1 if isinstance(layer, Transposed) else math.prod(layer.stride)))
    dtype = torch.float64 if cost <= FLOATS else torch.float32
    made = operator(linear_part(layer, weight.to(dtype)), inputs, dtype=dtype, device=weight.device)
    high = largest(made, seed=effort.seed)
    low = smallest(made, applications=_applications(cost), seed=effort.seed)
    found = replace(found, real_upper=high.value)
    if not high.settled:
        found = replace(found, note=_joined(found.note, "the real upper bound had not settled: it is too small"))
    if low is None or not math.isfinite(low.value):
        return replace(found, note=_joined(found.note, f"no real lower bound: min(m, n) = {made.small} is too many"))
    return replace(found, real_lower=low.value, at_most=not low.settled)


def _applications(cost: int) -> int:
    """How often a layer may be applied for its lower bound; few applications tell nothing, and are left out."""
    affordable = min(2000, EFFORT // cost)
    return affordable if affordable >= 100 else 0


def linear_part(layer: Any, weight: Tensor) -> Map:
    """A convolution without its bias, with this weight, as a function of (b, channels, *sides)."""
    axes = weight.ndim - 2
    if isinstance(layer, Transposed):
        turn: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
        return lambda rows: turn(
            rows, weight, None, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation
        )
    convolve: Any = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    pads, mode = _pads(layer), layer.padding_mode
    return lambda rows: convolve(_pad(rows, pads, mode), weight, None, layer.stride, 0, layer.dilation, layer.groups)


def _pads(layer: Any) -> list[tuple[int, int]]:
    """(before, after) along each axis."""
    if layer.padding == "same":  # as PyTorch does: the odd pixel goes after
        whole = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
        return [(one // 2, one - one // 2) for one in whole]
    if layer.padding == "valid":
        return [(0, 0)] * len(layer.kernel_size)
    return [(pad, pad) for pad in layer.padding]


def _pad(rows: Tensor, pads: Sequence[tuple[int, int]], mode: str) -> Tensor:
    flat = [side for pair in reversed(pads) for side in pair]
    return F.pad(rows, flat, mode="constant" if mode == "zeros" else mode) if any(flat) else rows


def _scaled(layer: Any, scale: Tensor | None) -> Tensor:
    weight: Tensor = layer.weight.detach().double()
    if scale is None:
        return weight
    if not isinstance(layer, Transposed):
        return weight * scale.view(-1, *[1] * (weight.ndim - 1))
    split = weight.unflatten(0, (layer.groups, -1))  # (groups, in / groups, out / groups, *kernel)
    turned: Tensor = split * scale.view(layer.groups, 1, -1, *[1] * (weight.ndim - 2))
    return turned.flatten(0, 1)


def _weighted(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear | Conv | Transposed)


def _size(layer: Any) -> str:
    """As the paper writes it: inputs × kernel × outputs."""
    if isinstance(layer, nn.Linear):
        return f"{layer.in_features}×{layer.out_features}"
    parts = [layer.in_channels // layer.groups, *layer.kernel_size, layer.out_channels]
    steps = "" if max(layer.stride) == 1 else f", stride {'×'.join(map(str, dict.fromkeys(layer.stride)))}"
    return "×".join(map(str, parts)) + steps + ("" if layer.groups == 1 else f", {layer.groups} groups")


def _joined(before: str, after: str) -> str:
    return f"{before}; {after}" if before else after
