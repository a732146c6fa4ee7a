"""Crops against plain slices of the image."""

from __future__ import annotations

import pytest
import torch
from slopes import check_slopes

from foible.errors import UserError
from foible.images import settle
from foible.spaces import Crop
from foible.testing import blobs, check_space


@pytest.mark.parametrize("space", [Crop(), Crop(40, 40, 100), Crop(aspect=0, shift=0)])
@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 9, 14)])
def test_conforms(space: Crop, shape: tuple[int, int, int]) -> None:
    check_space(space, settle(torch.rand(20, *shape, generator=torch.Generator().manual_seed(0))))


def test_half_the_image_at_its_corner_is_that_slice_enlarged() -> None:
    image = torch.rand(1, 3, 8, 12)
    space = Crop(percent=50, shift=100)
    for x, y, part in ((0.0, 0.0, image[..., :4, :6]), (1.0, 0.0, image[..., :4, 6:]), (1.0, 1.0, image[..., 4:, 6:])):
        shown = space.render(space.move(space.start(image), torch.tensor([[1.0, 0.5, x, y]])))
        middle = torch.nn.functional.interpolate(part, size=(8, 12), mode="bilinear", align_corners=False)
        # Inside, an enlarged slice is the crop; its outermost pixels lack the neighbours that the crop still has.
        assert torch.allclose(shown[..., 1:-1, 1:-1], middle[..., 1:-1, 1:-1], atol=1e-5)


def test_an_edge_shows_the_image_and_nothing_else() -> None:
    white = torch.ones(40, 1, 10, 14)
    space = Crop(30, 30, 100)
    points = space.start(white)
    for _ in range(5):
        points = space.move(points, torch.rand(40, 4))
        assert torch.allclose(space.render(points), white, atol=1e-5)


def test_either_sign_cuts_and_the_sum_counts() -> None:
    space = Crop(percent=10, aspect=0, shift=0)
    up, down = torch.tensor([[1.0, 0.5, 0.5, 0.5]]), torch.tensor([[0.0, 0.5, 0.5, 0.5]])
    start = space.start(torch.rand(1, 1, 10, 10))
    cut = lambda points: float(space.describe(points)["crop width %"][0])  # noqa: E731
    assert cut(space.move(start, up)) == pytest.approx(10, abs=1e-4)
    assert cut(space.move(start, down)) == pytest.approx(10, abs=1e-4)
    assert cut(space.move(space.move(start, up), down)) == pytest.approx(0, abs=1e-4)


def test_describe_says_how_much_and_where() -> None:
    space = Crop(percent=20, aspect=50, shift=50)
    points = space.move(space.start(torch.rand(1, 1, 10, 20)), torch.tensor([[1.0, 1.0, 1.0, 0.0]]))
    said = {name: float(value[0]) for name, value in space.describe(points).items()}
    # 80 % of the height; 80 % · 50 % = 40 % of the width. Half of the room: 0.5 · 12/2 right, 0.5 · 2/2 up.
    expected = {"crop width %": 60, "crop height %": 20, "crop x px": 3, "crop y px": -0.5}
    assert said == pytest.approx(expected, abs=1e-4)


def test_a_window_keeps_a_little_however_often_it_is_cut() -> None:
    space = Crop(percent=50)
    points = space.start(torch.rand(1, 1, 10, 10))
    for _ in range(5):
        points = space.move(points, torch.tensor([[1.0, 0.5, 0.5, 0.5]]))
    assert float(space.describe(points)["crop width %"][0]) == pytest.approx(95, abs=1e-3)


def test_pixels_have_the_slopes_that_finite_differences_say() -> None:
    check_slopes(Crop(), blobs(3).sum(0, keepdim=True).repeat(4, 1, 1, 1))


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match="shift is 120"):
        Crop(shift=120)
    assert Crop(percent=19, aspect=95).reaches == (5, 1, 4, 4)
