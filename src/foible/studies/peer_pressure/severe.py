"""Severe changes that every network survives (paper 1, Fig. 8 left): rotation, lighting, crop, black borders, shear.

Nothing is optimised: for each seed image and each theme some large moves are drawn at random, all networks judge them,
and the most severe of those that all get right is kept. The share that all get right is a figure of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from foible import specs
from foible.basket import Basket
from foible.images import settle, to_floats
from foible.randomness import uniforms
from foible.spaces import SPACES, at

SPACE = "photometric?reach=8+crop?reach=8+affine?reach=8"  # up to 40° of rotation, 8 pixels of shift
# Which kinds of move a theme is made of: 1 and -1 go one way, 0 either. All others move a tenth as far.
THEMES: dict[str, Mapping[str, int]] = {
    "rotation": {"rotation": 0},
    "darker": {"brightness": -1, "gamma": 1},
    "brighter": {"brightness": 1, "gamma": -1},
    "colour": {"hue": 0, "saturation": 0, "cast": 0},
    "crop": {"crop": 0, "aspect": 0},
    "black borders": {"stretch": -1, "shift": 0},
    "shear": {"shear": 0},
    "all together": {},
}
LEAST, MOST = 0.4, 1.0  # of the box: how far a theme's own kinds go
TOGETHER = 0.5  # and how far all kinds go where a theme names none


@dataclass(frozen=True)
class Survivor:
    """An image that all networks get right. change: the whole way, in human units, those of its theme alone."""

    theme: str
    image: Tensor
    change: dict[str, float]


@dataclass(frozen=True)
class Severe:
    """position: of the seed image among those given. survivors: one a theme, and second ones where a theme has none.
    counts: by theme, how many of all images that were drawn all networks got right, and how many were drawn."""

    position: int
    survivors: list[Survivor]
    counts: dict[str, tuple[int, int]]


@torch.no_grad()
def severe(basket: Basket, seeds: Tensor, labels: Tensor, *, seed: int, draws: int) -> Severe:
    """Seeds (n, channels, height, width) that all networks get right; `draws` images for each of them and each theme.

    Of the seed images, that one is taken whose survivors are of the most themes and, among equals, go furthest.
    """
    space = specs.resolve(SPACE, SPACES, "space")
    images = to_floats(seeds.to(basket.device))
    aims = labels.to(basket.device)
    best = torch.zeros(len(seeds), len(THEMES))
    kept: dict[tuple[int, str], Tensor] = {}  # the places of survivors, the most severe first
    right = dict.fromkeys(THEMES, 0)
    for row in range(len(seeds)):
        drawn = [_places(space, kinds, seed, row, column, draws) for column, kinds in enumerate(THEMES.values())]
        everywhere = torch.cat(drawn).to(basket.device)
        pictures = settle(
            space.render(at(space, everywhere, images[row : row + 1].expand(len(everywhere), -1, -1, -1)))
        )
        held = (basket.judge(pictures).argmax(2) == aims[row]).all(0).cpu().split(draws)
        for column, (theme, kinds) in enumerate(THEMES.items()):
            survived = drawn[column][held[column]]
            right[theme] += len(survived)
            if len(survived):
                how_far = _severity(space, kinds, survived)
                best[row, column] = how_far.max()
                kept[row, theme] = survived[how_far.argsort(descending=True, stable=True)]
    position = int((10 * (best > 0).sum(1) + best.sum(1)).argmax())
    chosen = [(theme, rank) for rank in range(draws) for theme in THEMES if len(kept.get((position, theme), ())) > rank]
    survivors = []
    for theme, rank in sorted(chosen[: len(THEMES)], key=lambda one: list(THEMES).index(one[0])):
        points = at(space, kept[position, theme][rank][None].to(basket.device), images[position : position + 1])
        change = {name: float(value[0]) for name, value in space.describe(points).items()}
        own = {name: value for name, value in change.items() if _named(name, THEMES[theme])}
        survivors.append(Survivor(theme, settle(space.render(points))[0].cpu(), own))
    return Severe(position, survivors, {theme: (count, draws * len(seeds)) for theme, count in right.items()})


def _places(space: Any, kinds: Mapping[str, int], seed: int, row: int, column: int, draws: int) -> Tensor:
    """(draws, space.draws) in [-1, 1]: far in the theme's own kinds, near in all others."""
    members = torch.arange(draws)
    count = space.draws
    drawn = uniforms(seed, torch.tensor(row), column, member=members, stream="deep.severe", count=2 * count)
    sizes, signs = drawn.split(count, 1)
    signs = torch.where(signs < 0.5, -1.0, 1.0)
    columns = []
    for place, kind in enumerate(space.kinds):
        if not kinds:
            columns.append(signs[:, place] * sizes[:, place] * TOGETHER)
        elif kind in kinds:
            way = signs[:, place] if kinds[kind] == 0 else torch.full((draws,), float(kinds[kind]))
            columns.append(way * (LEAST + (MOST - LEAST) * sizes[:, place]))
        else:
            columns.append(signs[:, place] * sizes[:, place] * 0.1)
    return torch.stack(columns, 1)


def _severity(space: Any, kinds: Mapping[str, int], places: Tensor) -> Tensor:
    """(n,) from 0 to 1: how far the theme's own kinds go, on average."""
    own = [place for place, kind in enumerate(space.kinds) if not kinds or kind in kinds]
    return places[:, own].abs().mean(1)


def _named(name: str, kinds: Mapping[str, int]) -> bool:
    """Does `describe`'s "rotation °" or "warmth %" belong to these kinds? Without kinds, the best known do."""
    words = {"cast": ("warmth", "tint"), "aspect": ("crop",)}
    wanted = [word for kind in kinds or ("rotation", "brightness", "crop") for word in words.get(kind, (kind,))]
    return name.split()[0] in wanted
