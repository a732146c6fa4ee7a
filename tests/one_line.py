"""A space with one coordinate, and networks whose boundaries on it are known: where searches must go, exactly."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from foible.basket import Basket, Precision
from foible.search import Found, Trials

PER_MOVE = 0.04  # of brightness: a largest move is about ten steps of 8 bits
MARK = 1.0


class LinePoints(NamedTuple):
    image: Tensor


class Line:
    """A move brightens the first pixel by up to ± PER_MOVE; the second pixel is a mark, which stays."""

    draws: ClassVar[int] = 1
    kinds: ClassVar[tuple[str, ...]] = ("brightness",)
    reaches: ClassVar[tuple[float, ...]] = (10.0,)

    def start(self, seeds: Tensor) -> LinePoints:
        return LinePoints(seeds)

    def move(self, points: LinePoints, uniforms: Tensor) -> LinePoints:
        step = torch.zeros_like(points.image)
        step[:, 0, 0, 0] = PER_MOVE * (2 * uniforms[:, 0] - 1)
        return LinePoints(points.image + step)

    def render(self, points: LinePoints) -> Tensor:
        return points.image

    def draws_of(self, points: LinePoints) -> Tensor:
        return 0.5 + 0.5 * (points.image[:, 0, 0, :1] - 0.5) / PER_MOVE


class Threshold(nn.Module):
    """Says class 0 up to `moves` largest moves from the middle, and 1 beyond; NaN on marked images if `breaks`."""

    def __init__(self, moves: float, breaks: bool = False) -> None:
        super().__init__()
        self.at = 0.5 + PER_MOVE * moves
        self.breaks = breaks

    def forward(self, images: Tensor) -> Tensor:
        beyond = 50 * (images[:, 0, 0, 0] - self.at)
        if self.breaks:
            beyond = torch.where(images[:, 0, 0, 1] == MARK, torch.nan, beyond)
        return torch.stack([-beyond, beyond], 1)


class Watched(Basket):
    """Counts the images that each network is asked about, without the padding."""

    seen: int = 0

    def judge(self, images: Tensor, names: Any = None, precision: Precision = "float32") -> Tensor:
        self.seen += len(images) * len(self.names if names is None else names)
        return super().judge(images, names, precision)


def line_basket(*thresholds: float, breaks: str = "") -> Watched:
    """Networks A, B, C, … that change their minds at these numbers of largest moves."""
    networks = {name: Threshold(at, name in breaks) for name, at in zip("ABCDEF", thresholds, strict=False)}
    return Watched(networks, classes=["dark", "bright"], preprocess="inside", shape=(1, 1, 2))


def line_trials(count: int, marked: tuple[int, ...] = ()) -> Trials:
    seeds = torch.full((count, 1, 1, 2), 0.5)
    seeds[:, 0, 0, 1] = 0
    seeds[list(marked), 0, 0, 1] = MARK
    return Trials(torch.arange(count), seeds, torch.zeros(count, dtype=torch.int64))


def ends(found: Found, count: int) -> Tensor:
    """Where each lane's path leads, in largest moves."""
    amounts = 2 * found.accepted.draws[:, 0] - 1
    return torch.zeros(count).index_add(0, found.accepted.row, amounts)
