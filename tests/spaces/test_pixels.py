"""The pixels as a space: exact additions, clipping, slopes that come back, and a hunt by gradients."""

from __future__ import annotations

import pytest
import torch

from foible.errors import UserError
from foible.images import settle
from foible.objectives import Dissent
from foible.search.climb.gradient import gradient
from foible.search.task import FOUND
from foible.spaces import SPACES, Chain, Photometric, Pixels, at, is_box
from foible.specs import resolve, spec_of
from foible.testing import CLASSES, SHAPE, check_search, check_space, linear_basket, linear_trials

SHAPE_HERE = "x".join(map(str, SHAPE))


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 5, 7)])
@pytest.mark.parametrize("options", [{}, {"percent": 60, "reach": 1}, {"percent": 0}])
def test_conforms(shape: tuple[int, int, int], options: dict[str, float]) -> None:
    images = settle(torch.rand(20, *shape, generator=torch.Generator().manual_seed(0)))
    space = Pixels("x".join(map(str, shape)), **options)
    check_space(space, images)
    assert is_box(space)


def test_a_move_adds_and_the_image_is_clipped() -> None:
    space = Pixels("1x1x3", percent=10, reach=5)
    images = torch.tensor([0.05, 0.5, 0.9]).view(1, 1, 1, 3)
    points = space.move(space.start(images), torch.tensor([[0.0, 0.75, 1.0]]))
    assert space.render(points).flatten().tolist() == pytest.approx([0, 0.55, 1.0], abs=1e-6)
    back = space.move(points, torch.tensor([[1.0, 0.25, 0.0]]))
    assert torch.allclose(space.render(back), images, atol=1e-6)  # there and back, even through clipping
    assert points.image is images
    said = {name: float(value[0]) for name, value in space.describe(points).items()}
    assert said == pytest.approx({"pixel rms %": ((25 + 25 + 100) / 3) ** 0.5, "pixel max %": 10}, abs=1e-3)


def test_the_box_ends_where_it_is_said_to_end() -> None:
    space, images = Pixels("1x2x2", percent=2, reach=5), torch.full((1, 1, 2, 2), 0.5)
    shown = space.render(at(space, torch.tensor([[1.0, -1.0, 0.5, 0.0]]), images))
    assert shown.flatten().tolist() == pytest.approx([0.6, 0.4, 0.55, 0.5], abs=1e-6)
    assert Pixels("1x2x2", percent=40, reach=5).reaches == (2.5,) * 4  # not past 100 %


def test_slopes_are_one_even_where_a_pixel_is_clipped() -> None:
    space, images = Pixels("1x1x2", percent=2, reach=5), torch.tensor([0.0, 0.5]).view(1, 1, 1, 2)
    places = torch.tensor([[-0.5, 0.5]], requires_grad=True)
    shown = space.render(at(space, places, images))
    assert shown.flatten().tolist() == pytest.approx([0, 0.55], abs=1e-6)
    (slope,) = torch.autograd.grad(shown.sum(), places)
    assert slope.tolist() == [pytest.approx([0.1, 0.1])]


def test_a_spec_and_a_chain() -> None:
    space = resolve("pixels?shape=3x4x5&percent=1", SPACES, "space")
    assert space == Pixels("3x4x5", percent=1)
    assert spec_of(space, SPACES) == "pixels?shape=3x4x5&percent=1.0"
    images = settle(torch.rand(20, 3, 4, 5, generator=torch.Generator().manual_seed(0)))
    check_space(Chain((Photometric(), space)), images)
    assert Chain((space, Photometric())).draws == 60 + 7


def test_shapes_that_do_not_meet_are_named() -> None:
    with pytest.raises(UserError, match=r"shape 1x28x28, the images 3x4x4: say pixels\?shape=3x4x4"):
        Pixels().start(torch.zeros(2, 3, 4, 4))
    for wrong in ("28x28", "1x28x28x1", "1x0x4", "ax2x2", ""):
        with pytest.raises(UserError, match="expected channels x height x width"):
            Pixels(wrong)
    with pytest.raises(UserError, match="percent is 101"):
        Pixels(percent=101)


def test_gradients_hunt_in_it() -> None:
    basket = linear_basket()
    trials = linear_trials(basket, 30)
    assert len(basket.classes) == CLASSES
    space = Pixels(SHAPE_HERE)
    found = gradient(space, Dissent(), basket, trials, suspect="A", seed=1)
    assert (found.outcome == FOUND).float().mean() > 0.3
    last = torch.stack(
        [found.accepted.draws[found.accepted.row == row][-1] for row in range(30) if found.outcome[row] == FOUND]
    )
    assert ((2 * last - 1).abs() * 0.02).max() <= 0.1 + 1e-5  # within the box


def test_a_search_keeps_its_promises_there() -> None:
    check_search(gradient, Pixels(SHAPE_HERE))
