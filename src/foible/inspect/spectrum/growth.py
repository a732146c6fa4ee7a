"""How much each layer really enlarges a change: ‖φ_k(x + r) − φ_k(x)‖ / ‖φ_{k−1}(x + r) − φ_{k−1}(x)‖.

Along found distortions r, and as a control along Gaussian noise of the same length, image by image. What a distortion
gains over noise in a layer is that layer's share of the damage: in a chain the gains multiply to the network's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.errors import UserError
from foible.inspect.spectrum.bounds import Bounds
from foible.inspect.spectrum.calls import watched
from foible.randomness import normals
from foible.search.nearest import length

BATCH = 64
WHOLE = "network"


@dataclass(frozen=True)
class Stage:
    """A layer with weights and, in a chain, all that follows it up to the next one (the paper's φ_k).

    first, last: calls; −1 is what the basket does to the pixels. upper, real_upper: of the whole stage; the rest is of
    the layer with weights alone.
    """

    name: str
    kind: str
    size: str
    first: int
    last: int
    upper: float | None
    lower: float | None = None
    real_upper: float | None = None
    papers_upper: float | None = None
    real_lower: float | None = None


@dataclass(frozen=True)
class Growth:
    """Of one stage, over images: geometric means, which multiply as layers do, with 95 % intervals.

    far, noise_far: the change that comes out of the stage, by the one that went into the network.
    gain: along distortions over along noise. share: of the network's whole gain, in logarithms; None where the network
    is no chain. n: images.
    """

    stage: str
    distortion: float | None
    distortion_low: float | None
    distortion_high: float | None
    noise: float | None
    noise_low: float | None
    noise_high: float | None
    far: float | None
    noise_far: float | None
    gain: float | None
    share: float | None
    n: int


def stages(bounds: Sequence[Bounds], chain: bool) -> list[Stage]:
    """Calls gathered around the layers with weights. Without a chain each of those stands alone."""
    found: list[Stage] = []
    ahead: list[Bounds] = []  # what stands before the first layer with weights belongs to it
    for one in bounds:
        if one.weighted or one.first < 0:
            lead = math.prod([1.0, *(other.upper for other in ahead if other.upper is not None)])
            known = lead if all(other.upper is not None for other in ahead) else None
            first = ahead[0].first if ahead else one.first
            found.append(
                Stage(one.name, one.kind, one.size, first, one.last, _times(one.upper, known), one.lower,
                      _times(one.real_upper, known), one.papers_upper, one.real_lower)
            )  # fmt: skip
            ahead = []
        elif chain and (not found or found[-1].first < 0):
            ahead.append(one)
        elif chain:
            last = found[-1]
            found[-1] = replace(
                last,
                last=one.last,
                upper=_times(last.upper, one.upper),
                real_upper=_times(last.real_upper, one.upper),
            )
    return found


def noise_like(distortions: Tensor, places: Tensor, seed: int) -> Tensor:
    """Gaussian noise (n, …), each row as long as the distortion's; the same for an image in any batch."""
    drawn = normals(seed, places.cpu(), stream="spectrum.noise", count=distortions[0].numel())
    drawn = drawn.view(distortions.shape).to(distortions)
    shape = (-1,) + (1,) * (distortions.ndim - 1)
    return drawn * (length(distortions) / length(drawn)).view(shape)


@torch.no_grad()
def changes(
    basket: Basket, name: str, images: Tensor, moved: Tensor, spans: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor]:
    """How long the change from `images` to `moved` (n, channels, height, width) is before and after calls.

    spans: (first, last) calls, −1 for what the basket does to pixels. Two tensors (spans + 1, n), float64: the change
    that goes into `first`, and the one that comes out of `last`; the last row is the whole network, pixels to logits.
    """
    network = layered(basket, name)
    parts = []
    for here, there in zip(images.split(BATCH), moved.split(BATCH), strict=True):
        into: list[Tensor] = []
        out: list[Tensor] = []

        def seen(
            _name: str, _layer: nn.Module, given: Tensor, output: Tensor,
            into: list[Tensor] = into, out: list[Tensor] = out,
        ) -> None:  # fmt: skip
            into.append(_change(given))
            out.append(_change(output))

        both = torch.cat([here, there])
        prepared = basket.hows[name](both)
        pixels, before = _change(both), _change(prepared)
        with watched(network, seen):
            answers = network(prepared)
        given = [pixels if first < 0 else into[first] for first, _ in spans]
        gave = [before if last < 0 else out[last] for _, last in spans]
        parts.append(torch.stack([torch.stack([*given, pixels]), torch.stack([*gave, _change(answers)])]))
    before, after = torch.cat(parts, 2)
    return before, after


def layered(basket: Basket, name: str) -> nn.Module:
    """The network, or an error where it is a plain function, whose layers nobody can see."""
    network = basket.network(name)
    if not isinstance(network, nn.Module):
        raise UserError(f"network {name!r} is a {type(network).__name__}, not a torch.nn.Module: it shows no layers")
    return network


def growths(
    basket: Basket, name: str, images: Tensor, distorted: Tensor, found: Sequence[Stage], *, chain: bool,
    places: Tensor | None = None, seed: int = 0,
) -> list[Growth]:  # fmt: skip
    """What every stage does to the distortions of images (n, channels, height, width), and to noise as long; last, as
    "network", what the whole does.

    places: (n,) numbers that the noise is drawn by (default: 0 to n − 1).
    """
    places = torch.arange(len(images)) if places is None else places
    spans = [(one.first, one.last) for one in found]
    shaken = images + noise_like(distorted - images, places, seed)
    logs, far = [], []
    for moved in (distorted, shaken):
        before, after = changes(basket, name, images, moved, spans)
        logs.append((after / before).log().cpu())
        far.append((after / before[-1]).log().cpu())
    gains = [_mean(_finite(one)) for one in logs[0] - logs[1]]
    whole = sum(gain[0] for gain in gains[:-1] if gain)
    rows = []
    for place, stage in enumerate([*(one.name for one in found), WHOLE]):
        ours, noise, reached, control = (_mean(_finite(one[place])) for one in (*logs, *far))
        gain = gains[place]
        share = gain[0] / whole if chain and stage != WHOLE and gain and whole and all(gains) else None
        rows.append(
            Growth(stage, *_three(ours), *_three(noise), _three(reached)[0], _three(control)[0],
                   math.exp(gain[0]) if gain else None, share, len(images))
        )  # fmt: skip
    return rows


def _finite(logs: Tensor) -> Tensor:
    return logs[logs.isfinite()]


def _change(both: Tensor) -> Tensor:
    """‖second half − first half‖ of each row, float64."""
    first, second = both.detach().double().flatten(1).chunk(2)
    size: Tensor = torch.linalg.vector_norm(second - first, dim=1)
    return size


def _mean(logs: Tensor) -> tuple[float, float] | None:
    """Mean and half a 95 % interval; None where there is nothing."""
    if not len(logs):
        return None
    if len(logs) == 1:
        return float(logs[0]), math.nan
    from scipy.stats import t

    return float(logs.mean()), float(t.ppf(0.975, len(logs) - 1)) * float(logs.std()) / math.sqrt(len(logs))


def _three(mean: tuple[float, float] | None) -> tuple[float | None, float | None, float | None]:
    if mean is None:
        return None, None, None
    centre, half = mean
    if math.isnan(half):
        return math.exp(centre), None, None
    return math.exp(centre), math.exp(centre - half), math.exp(centre + half)


def _times(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other
