"""How much the layers without weights can enlarge a change, in the l2 norm (Lipschitz constants)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from foible.inspect.spectrum.operators import largest, operator
from foible.networks.zoo.alexnet import ResponseNorm
from foible.networks.zoo.layers import Dropout

SAME = (
    nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, Dropout, nn.Flatten,
    nn.Unflatten,
)  # fmt: skip
CONTRACTIVE = (nn.ReLU, nn.ReLU6, nn.Tanh, nn.Hardtanh, nn.Softplus, nn.LogSigmoid, nn.Softsign, nn.Softmax)
SLOPES: dict[type[nn.Module], float] = {  # the steepest slope of each
    nn.Sigmoid: 0.25,
    nn.GELU: 1.129,
    nn.SiLU: 1.0999,
    nn.Hardswish: 1.5,
    nn.Hardsigmoid: 1 / 6,
    nn.Mish: 1.089,
    nn.SELU: 1.0507009873554805 * 1.6732632423543772,
}
MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
MEAN_POOLS = (
    nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d
)  # fmt: skip


def constant(layer: nn.Module, inputs: Sequence[int], outputs: Sequence[int]) -> tuple[float | None, str]:
    """The constant, or None where we know none; and a word on it where it needs one.

    inputs, outputs: shapes without the row of images, of a network in eval mode.
    """
    if isinstance(layer, SAME):
        return 1.0, ""
    if isinstance(layer, CONTRACTIVE):
        return 1.0, ""
    if type(layer) in SLOPES:
        return SLOPES[type(layer)], "the steepest slope"
    if isinstance(layer, nn.LeakyReLU):
        return max(1.0, abs(layer.negative_slope)), ""
    if isinstance(layer, nn.PReLU):
        return max(1.0, float(layer.weight.abs().max())), ""
    if isinstance(layer, nn.ELU | nn.CELU):
        return (max(1.0, layer.alpha) if isinstance(layer, nn.ELU) else 1.0), ""
    if isinstance(layer, MAX_POOLS):
        return _max_pool(layer, outputs)
    if isinstance(layer, nn.AdaptiveMaxPool1d | nn.AdaptiveMaxPool2d | nn.AdaptiveMaxPool3d):
        apart = all(side % out == 0 for side, out in zip(inputs[1:], outputs[1:], strict=True))
        return (1.0, "") if apart else (None, f"the windows of {type(layer).__name__} overlap unevenly")
    if isinstance(layer, MEAN_POOLS):
        return _mean_pool(layer, inputs), "mean pooling, by Lanczos"
    if isinstance(layer, ResponseNorm):
        return response_norm(layer.maps, layer.power, layer.bias), "a crude bound of the normalisation's derivative"
    if isinstance(layer, nn.LocalResponseNorm):
        return response_norm(layer.size, layer.beta, layer.k), "a crude bound of the normalisation's derivative"
    return None, f"no bound is known for {type(layer).__name__}"


def _max_pool(layer: nn.Module, outputs: Sequence[int]) -> tuple[float, str]:
    """√ of the most windows that one pixel can win; the paper calls max pooling contractive, which overlapping windows
    are not: a pixel that wins four of them is counted four times."""
    windows = 1
    for axis, out in enumerate(outputs[1:]):
        size, step, apart = (_along(getattr(layer, key), axis) for key in ("kernel_size", "stride", "dilation"))
        windows *= min(out, math.ceil(size / (step // math.gcd(step, apart))))
    said = "" if windows == 1 else f"windows overlap: one pixel can win {windows} (the paper counts 1)"
    return math.sqrt(windows), said


def _along(value: int | Sequence[int], axis: int) -> int:
    return value if isinstance(value, int) else int(value[axis])


def _mean_pool(layer: nn.Module, inputs: Sequence[int]) -> float:
    pool: Callable[[Tensor], Tensor] = layer
    return largest(operator(pool, (1, *inputs[1:])), tolerance=1e-8).value


def response_norm(size: int, beta: float, k: float) -> float:
    """A bound of y_i = x_i / s_i^β, s_i = k + α/size Σ x_j² over `size` neighbours, whatever α.

    Its derivative is diag(s^−β), at most k^−β, less a band of `size` whose rows are at most 2β (s−k) s^(−β−1) long;
    a band's norm is at most √size times that.
    """
    worst = k * (beta + 1) / beta
    row = 2 * beta * (worst - k) * worst ** (-beta - 1)
    return float(k**-beta + math.sqrt(size) * row)


def norm_scale(layer: nn.Module) -> Tensor | None:
    """What a batch normalisation in eval mode multiplies each channel by, (channels,); None for any other layer."""
    if not isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) or layer.running_var is None:
        return None
    scale = torch.rsqrt(layer.running_var.double() + layer.eps)
    return scale if layer.weight is None else scale * layer.weight.detach().double()
