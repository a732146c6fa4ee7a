"""Does a space keep its promises?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.images import settle
from foible.objectives import Dissent
from foible.search.climb.hill_climb import hill_climb
from foible.search.shrink import shrink
from foible.search.task import FOUND, Trials
from foible.spaces import at, is_box
from foible.testing.linear import SHAPE
from foible.testing.promises import require


def _same(ours: Any, theirs: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def _rows(points: Any, index: Tensor) -> Any:
    return type(points)(*(field[index] for field in points))


def _copy(points: Any) -> Any:
    return type(points)(*(field.clone() for field in points))


def check_space(space: Any, images: Tensor | None = None) -> None:
    """A space that can be walked: `draws`, `start`, `move`, `render`, `describe` where it has one, and where it is a
    box what a box promises."""
    if images is None:
        images = settle(torch.rand(20, *SHAPE, generator=torch.Generator().manual_seed(0)))
    count = len(images)
    require(isinstance(space.draws, int) and space.draws > 0, "draws must be a positive int: uniforms per move")
    points = space.start(images)
    require(isinstance(points, tuple) and hasattr(points, "_fields"), "start must return a NamedTuple of tensors")
    require("image" in points._fields, "points must hold the image of their lane as `image`")
    for name, field in zip(points._fields, points, strict=True):
        require(isinstance(field, Tensor), f"points.{name} must be a tensor")
        require(len(field) == count, f"points.{name} must have one row a lane")
    rendered = space.render(points)
    require(
        rendered.shape == images.shape,
        f"render must keep the shape {tuple(images.shape)}, got {tuple(rendered.shape)}",
    )
    require(
        torch.equal(settle(rendered), settle(images)),
        "rendering the start must give the seed images back (to 8 bits)",
    )
    draws = torch.rand(count, space.draws, generator=torch.Generator().manual_seed(1))
    before = _copy(points)
    moved = space.move(points, draws)
    require(_same(points, before), "move must not change the points it is given")
    require(isinstance(moved, type(points)), "move must return points of the same kind")
    require(_same(moved, space.move(points, draws)), "move must depend on its arguments alone: the same twice")
    further = space.move(moved, draws.flip(0))
    shown = space.render(further)
    require(bool(shown.isfinite().all()), "render must give finite pixels")
    require(torch.equal(shown, space.render(further)), "render must depend on its argument alone: the same twice")
    order = torch.arange(count).flip(0)
    shuffled = space.render(space.move(_rows(moved, order), draws.flip(0)[order]))
    require(torch.equal(shuffled[order], shown), "lanes must not touch: another order of rows gave other images")
    part = space.render(space.move(_rows(moved, order[:17]), draws.flip(0)[order[:17]]))
    require(
        torch.allclose(part, shuffled[:17], atol=1e-6),
        "lanes must not touch: part of the rows gave other images",
    )
    for extreme in (0.0, 1.0 - 2**-24):
        edge = space.render(space.move(points, torch.full_like(draws, extreme)))
        require(bool(edge.isfinite().all()), f"a move with all uniforms at {extreme} must give finite pixels")
    if hasattr(space, "describe"):
        for name, values in space.describe(further).items():
            require(values.shape == (count,), f"describe()[{name!r}] must be one number a lane")
            require(bool(values.isfinite().all()), f"describe()[{name!r}] must be finite")
    if is_box(space):
        _check_box(space, images, further)
    _check_hunted(space, images)


class Watched:
    """A space that notes the smallest batch it is handed, and is otherwise the space itself."""

    def __init__(self, space: Any) -> None:
        self.space, self.least = space, 10**9

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.space, name)
        if name not in ("start", "move", "render", "describe", "draws_of"):
            return found

        def watched(given: Any, *more: Any) -> Any:
            self.least = min(self.least, len(given if isinstance(given, Tensor) else given[0]))
            return found(given, *more)

        return watched


def _check_hunted(space: Any, images: Tensor) -> None:
    """It can be climbed and what is found there be shrunk, as in a hunt; and no empty batch reaches it on the way."""
    shape = (images.shape[1], images.shape[2], images.shape[3])
    away = images.flatten(1).mean()  # half of the images are on each side of it
    network = _Brightness(float(away))
    basket = Basket({"A": network, "B": _Brightness(-1.0)}, classes=("dark", "light"), preprocess="inside", shape=shape)
    seeds = (images * 255).round().to(torch.uint8)
    right = (basket.predict(seeds)[0].argmax(1) == 1).nonzero()[:, 0]
    trials = Trials(right, seeds[right], torch.ones_like(right))
    watched = Watched(space)
    found = hill_climb(watched, Dissent(), basket, trials, suspect="A", patience=10)
    rows = (found.outcome == FOUND).nonzero()[:, 0]
    if len(rows):
        paths = [found.accepted.draws[found.accepted.row == row] for row in rows.tolist()]
        shrink(watched, Dissent(), basket, trials.seeds[rows], trials.aims[rows], paths, suspect="A")
    require(watched.least > 0, "a search must hand no empty batch to a space")


class _Brightness(nn.Module):
    """Light above a mean, dark below it."""

    def __init__(self, middle: float) -> None:
        super().__init__()
        self.middle = middle

    def forward(self, images: Tensor) -> Tensor:
        light = 50 * (images.flatten(1).mean(1) - self.middle)
        return torch.stack([-light, light], 1)


def _check_box(space: Any, images: Tensor, walked: Any) -> None:
    """One large move leads anywhere, says where it leads, and can be differentiated."""
    count = len(images)
    for name, kind in (("kinds", str), ("reaches", float)):
        values = getattr(space, name)
        fits = isinstance(values, tuple) and len(values) == space.draws and all(isinstance(v, kind) for v in values)
        require(fits, f"{name} must be a tuple of one {kind.__name__} a draw")
    require(all(reach >= 1 for reach in space.reaches), "a box must reach at least one largest move each way")
    stay = space.draws_of(space.start(images))
    require(stay.shape == (count, space.draws), "draws_of must give one row of draws a lane")
    require(torch.allclose(stay, torch.full_like(stay, 0.5), atol=1e-4), "draws_of must call the start no move: 0.5")
    generator = torch.Generator().manual_seed(3)
    places = (2 * torch.rand(count, space.draws, generator=generator) - 1).requires_grad_()
    far_off = at(space, places, images)
    shown = space.render(far_off)
    require(bool(shown.isfinite().all()), "every place in the box must give finite pixels")
    (slope,) = torch.autograd.grad(shown.square().sum(), places, allow_unused=True)
    require(slope is not None and bool(slope.isfinite().all()), "pixels must be differentiable by places in the box")
    with torch.no_grad():
        reached = [far_off] + ([walked] if getattr(space, "closed", True) else [])
        for points in reached:
            back = space.render(space.move(space.start(images), space.draws_of(points)))
            require(
                torch.allclose(back, space.render(points), atol=1e-3),
                "draws_of must give the one move from the start that leads to the same image "
                "(say closed = False where several moves can do what no one move does)",
            )
