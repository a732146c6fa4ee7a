"""Gradient ascent to a class, from the mean of the data (paper 5, Sec. E, Figs. S5–S9; Nguyen, Yosinski, Clune 2015).

    X ← X + min(early, late·(1 − p)) g / ‖g‖²      p: the class's probability, g its slope; X: the image less the mean
    X ← (1 − decay) X, blurred, its smallest pixels set to 0

A step is as long as would raise p by `early`, or by a share of what is left, were the slope the same all the way. All
rows take as many steps: a row does not stop at a probability. Rows never touch. A climb that was broken off goes on
from a checkpoint as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.basket.matching import Matched
from foible.data import read
from foible.errors import UserError
from foible.images import to_bytes, to_floats
from foible.networks.progress_file import Checkpoint
from foible.objectives import of_class, probabilities
from foible.randomness import normals
from foible.records import COUNT, TEXT

SPREAD = 1 / 255  # deviation of the noise that breaks the symmetry of the start
CLIMBS = ("probability", "log-probability")
AT_ONCE = 1 << 22  # numbers drawn at a time
KEPT = {"steps": COUNT, "width": COUNT, "about": TEXT}  # beside the tensors of a checkpoint: steps of all batches


@dataclass(frozen=True)
class Ascent:
    """How to climb. decay: γ. blur: deviation of the Gaussian, in pixels; it acts on the first step and on every
    `blur_every`-th from there. small_norms, small_contributions: which share of the pixels is set to the mean in every
    step: those whose colours are nearest to it, and those where |X · g| is smallest. early, late: see above.
    most: the longest step, in slopes. climbs: what `g` is the slope of; of the log-probability, a step raises that.
    """

    decay: float = 0.0
    blur: float = 0.0
    blur_every: int = 1
    small_norms: float = 0.0
    small_contributions: float = 0.0
    steps: int = 1500
    early: float = 0.03
    late: float = 0.02
    most: float = 1e12 / 255**2  # the authors', whose pixels go to 255
    climbs: str = "probability"

    def __post_init__(self) -> None:
        for name in ("decay", "small_norms", "small_contributions"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: expected a share, 0 to below 1")
        if self.steps < 1 or self.blur_every < 1 or not 0 <= self.blur < math.inf:
            raise UserError(
                f"steps is {self.steps}, blur_every {self.blur_every}, blur {self.blur}: expected at least 1, at least "
                "1, and a deviation in pixels, 0 or more"
            )
        for name in ("early", "late", "most"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name} is {getattr(self, name)}: expected a number above 0")
        if self.climbs not in CLIMBS:
            raise UserError(f"climbs is {self.climbs!r}: expected {' or '.join(CLIMBS)}")


# What is behind the paper's figures; `plain` is S5 without its regularisation.
PRESETS = {
    "plain": Ascent(),
    "decay": Ascent(decay=0.01),  # S5, S8
    "sparse": Ascent(decay=0.001, blur=0.3, small_norms=0.2, small_contributions=0.2, late=0.05),  # S6
    "blur": Ascent(decay=0.001, blur=0.4, blur_every=2, steps=1000, late=0.05),  # S7, S9
}


@dataclass(frozen=True, eq=False)
class Ascended:
    """Where n rows came to. images: (n, channels, height, width) uint8. logits: (networks, n, classes) of these very
    images in float32, the suspect's first. confidence: (n,) what the suspect gives the class aimed at there.
    steps: after how many steps the way was noted; trace: (steps, n) the confidence then, before rounding to 8 bits.
    invalid: (n,) rows where the suspect, or its slope, was not a number. All on the basket's device.
    """

    images: Tensor
    logits: Tensor
    confidence: Tensor
    steps: tuple[int, ...]
    trace: Tensor
    invalid: Tensor


def starts(mean: Tensor, seed: int, lanes: Tensor, spread: float = SPREAD) -> Tensor:
    """(n, channels, height, width) in [0, 1]: the mean (channels, height, width) and a little noise of each lane."""
    count = mean.numel()
    drawn = [normals(seed, some, stream="ascent.start", count=count) for some in lanes.split(max(1, AT_ONCE // count))]
    noise = torch.cat([*drawn, torch.empty(0, count, device=lanes.device)]).view(len(lanes), *mean.shape)
    return (mean.to(lanes.device) + spread * noise).clamp(0, 1)


def mean_image(matched: Matched, most: int = 50_000) -> Tensor:
    """(channels, height, width) in [0, 1]: the mean of the data on its canvas, of the first `most` images."""
    total, count = torch.zeros(()), 0
    for part in matched.index[:most].split(500):
        seen = read(matched.data, part, [matched.canvas])
        if len(seen.index):
            total = total + to_floats(seen.images[0]).double().sum(0)
            count += len(seen.index)
    if not count:
        raise UserError(f"no image of {matched.data.name!r} can be read: there is no mean to begin with")
    return (total / count).float()


def ascend(
    basket: Basket,
    suspect: str,
    start: Tensor,
    mean: Tensor,
    aims: Tensor,
    how: Ascent,
    *,
    every: int = 10,
    width: int | None = None,
    tick: Callable[[int], None] | None = None,
    kept: Checkpoint | None = None,
    about: str = "",
) -> Ascended:
    """Climb the suspect's probability of `aims` (n,) from `start` (n, channels, height, width) in [0, 1].

    mean: (channels, height, width), what decay leads back to. every: how often the way is noted; the last step always
    is. width: rows in a batch. `tick(k)` hears of every k further rows that are done. kept: where a climb goes on from,
    and is noted from time to time and at its end; about: all that it depends on, as a hash.
    """
    everyone = [suspect, *basket.peers(suspect)]
    classes = len(basket.classes)
    if len(start) != len(aims) or not len(aims):
        raise UserError(f"{len(start)} starts and {len(aims)} aims: expected as many, and at least one")
    if not 0 <= int(aims.min()) <= int(aims.max()) < classes:
        raise UserError(f"aims go from {int(aims.min())} to {int(aims.max())}: expected classes, 0 to {classes - 1}")
    noted = tuple(sorted({*range(0, how.steps, max(1, every)), how.steps}))
    aims, mean = aims.to(basket.device), mean.to(basket.device)
    whole, done, wide = _begun(start.to(basket.device), noted, width or _width(basket, start), kept, about)
    batches, said = torch.arange(len(start)).split(wide), []
    for batch, rows in enumerate(batches):
        first, after = int(rows[0]), int(rows[-1]) + 1
        some, aim = whole.rows(first, after), aims[first:after]
        for step in range(min(max(0, done - batch * how.steps), how.steps), how.steps):
            _step(basket, suspect, some, mean, aim, how, step, noted)
            if kept is not None and kept.due:
                kept.write(whole._asdict, {"steps": batch * how.steps + step + 1, "width": wide, "about": about})
        said.append(_judged(basket, everyone, some, aim))
        if tick is not None:
            tick(len(rows))
    if kept is not None and done < how.steps * len(batches):
        kept.write(whole._asdict, {"steps": how.steps * len(batches), "width": wide, "about": about})
    logits = torch.cat(said, 1)
    confidence = of_class(probabilities(logits[:1]), aims)[0]
    broken = whole.invalid | (answers(logits[:1])[0] < 0)
    return Ascended(to_bytes(whole.image), logits, confidence, noted, whole.trace, broken)


class _State(NamedTuple):
    """Where n rows stand. Steps change it in place."""

    image: Tensor  # (n, channels, height, width)
    trace: Tensor  # (noted, n)
    invalid: Tensor  # (n,) bool

    def rows(self, first: int, after: int) -> _State:
        """A part of the same memory."""
        return _State(self.image[first:after], self.trace[:, first:after], self.invalid[first:after])


def _begun(
    start: Tensor, noted: tuple[int, ...], width: int, kept: Checkpoint | None, about: str
) -> tuple[_State, int, int]:
    """Where a checkpoint of this very climb stands, after how many steps, and how wide its batches are, whatever the
    memory has room for today; else the start."""
    fresh = _State(
        to_floats(start).clone(), torch.zeros(len(noted), len(start), device=start.device),
        torch.zeros(len(start), dtype=torch.bool, device=start.device),
    )  # fmt: skip
    try:
        had = None if kept is None else kept.read()
    except UserError:  # damaged: the climb begins anew, and the file is replaced
        had = None
    if had is None or had[1]["about"] != about or had[1]["width"] < 1:
        return fresh, 0, width
    forms = [{name: (one.shape, one.dtype) for name, one in held.items()} for held in (had[0], fresh._asdict())]
    if forms[0] != forms[1] or had[1]["steps"] > noted[-1] * -(-len(start) // had[1]["width"]):
        return fresh, 0, width
    return _State(**{name: one.to(start.device) for name, one in had[0].items()}), had[1]["steps"], had[1]["width"]


def _width(basket: Basket, start: Tensor) -> int:
    """Rows in a batch: what memory holds of a network's activations."""
    each = 4 * math.prod(start.shape[1:]) * 200
    room = torch.cuda.mem_get_info(basket.device)[0] // 4 if basket.device.type == "cuda" else 1_000_000_000
    return int(max(16, min(16_384 if basket.device.type == "cuda" else 1000, room // each)))


def _step(
    basket: Basket, suspect: str, now: _State, mean: Tensor, aims: Tensor, how: Ascent, step: int,
    noted: tuple[int, ...],
) -> None:  # fmt: skip
    """One step of some rows. Nothing in it waits for the device."""
    logs, slope = _slope(basket, suspect, now.image, aims)
    sound = logs.isfinite() & slope.isfinite().flatten(1).all(1)
    now.invalid.logical_or_(~sound)
    slope = torch.where(sound[:, None, None, None], slope, 0.0)
    if step in noted:
        now.trace[noted.index(step)] = logs.exp()
    apart = now.image - mean + _length(logs, slope, how)[:, None, None, None] * slope
    apart = apart * (1 - how.decay)
    if how.blur and step % how.blur_every == 0:
        across, along = (_gaussian(side, how.blur, apart.device) for side in apart.shape[2:])
        apart = across @ apart @ along.t()
    if how.small_norms:
        apart = _without_smallest(apart, apart.square().sum(1), how.small_norms)
    if how.small_contributions:
        apart = _without_smallest(apart, (apart * slope).sum(1).abs(), how.small_contributions)
    now.image.copy_((apart + mean).clamp(0, 1))


@torch.no_grad()
def _judged(basket: Basket, everyone: list[str], now: _State, aims: Tensor) -> Tensor:
    """Logits of what a PNG will hold; the last mark of the way is of what was climbed."""
    now.trace[-1] = of_class(probabilities(basket.judge(now.image, everyone[:1])), aims)[0]
    return basket.judge(to_floats(to_bytes(now.image)), everyone)


def _slope(basket: Basket, suspect: str, image: Tensor, aims: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities (n,) of the classes aimed at, and their slope by the pixels."""
    with torch.enable_grad():
        at = image.detach().requires_grad_()
        logits = basket.judge(at, [suspect])
        if not logits.requires_grad:
            raise UserError(f"network {suspect!r} gives no gradient: to climb takes a differentiable network")
        logs = of_class(logits.log_softmax(-1), aims)[0]
        [slope] = torch.autograd.grad(logs.sum(), at)
    return logs.detach(), slope


def _length(logs: Tensor, slope: Tensor, how: Ascent) -> Tensor:
    """(n,): the step, in slopes of log p. The slope of p is p times that: so much is put together here that p may be
    smaller than what a float can hold the square of."""
    chance, left = logs.exp().nan_to_num(), -torch.expm1(logs).nan_to_num()
    wanted = (how.late * left).clamp(max=how.early)
    steepness = slope.square().flatten(1).sum(1)
    if how.climbs == "log-probability":
        return (wanted / steepness.clamp_min(1e-30)).clamp(max=how.most)
    return torch.minimum(wanted / (chance * steepness).clamp_min(1e-30), how.most * chance)


def _without_smallest(apart: Tensor, values: Tensor, share: float) -> Tensor:
    """The pixels with the smallest `values` (n, height, width), below that percentile of each row, become 0."""
    ordered = values.flatten(1).sort(1).values
    place = share * (ordered.shape[1] - 1)
    below, above = ordered[:, math.floor(place)], ordered[:, math.ceil(place)]
    limit = below + (above - below) * (place - math.floor(place))
    return torch.where((values < limit[:, None, None])[:, None], 0.0, apart)


@cache
def _gaussian(side: int, deviation: float, device: torch.device) -> Tensor:
    """(side, side): a line of pixels, blurred by samples of a Gaussian out to four deviations, mirrored at the ends.

    The authors' blur, scipy's. Below half a pixel its samples are far narrower than the Gaussian that they are named
    for (of 0.3 pixels, it leaves 99 % of a value in its place on a line, an exact one 92 %): settings are meant for it.
    """
    reach = int(4 * deviation + 0.5)
    offsets = torch.arange(-reach, reach + 1)
    weights = (-0.5 * (offsets / deviation).double().square()).exp()
    place = (torch.arange(side)[:, None] + offsets) % (2 * side)
    place = torch.where(place < side, place, 2 * side - 1 - place)
    matrix = torch.zeros(side, side, dtype=torch.float64)
    return matrix.scatter_add_(1, place, (weights / weights.sum()).expand_as(place)).float().to(device)
