"""Pixel swaps against exchanging by hand."""

from __future__ import annotations

import pytest
import torch

from foible.images import settle
from foible.spaces import Swaps, is_box
from foible.testing import check_space


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 9, 14)])
def test_conforms(shape: tuple[int, int, int]) -> None:
    check_space(Swaps(), settle(torch.rand(20, *shape, generator=torch.Generator().manual_seed(0))))


def test_the_same_as_exchanging_pixels_one_by_one() -> None:
    images, space = torch.rand(5, 3, 4, 6), Swaps()
    points, expected = space.start(images), images.clone()
    for _ in range(30):
        draws = torch.rand(5, 2)
        points = space.move(points, draws)
        for row in range(5):
            flat = expected[row].view(3, 24)
            one, other = (int(u * 24) for u in draws[row].tolist())
            flat[:, [one, other]] = flat[:, [other, one]]
    assert torch.equal(space.render(points), expected)
    assert points.image is images


def test_a_pixel_with_itself_and_two_alike_are_moves_all_the_same() -> None:
    image = torch.zeros(1, 1, 2, 2)
    image[0, 0, 0, 0] = 1
    space = Swaps()
    itself = space.move(space.start(image), torch.tensor([[0.3, 0.3]]))
    alike = space.move(space.start(image), torch.tensor([[0.3, 0.8]]))
    seen = space.move(space.start(image), torch.tensor([[0.0, 0.8]]))
    said = [[int(value[0]) for value in space.describe(points).values()] for points in (itself, alike, seen)]
    assert said == [[0, 0], [2, 0], [2, 2]]
    assert list(space.describe(seen)) == ["moved px", "changed px"]


def test_every_place_is_drawn_and_the_last_uniform_is_the_last_place() -> None:
    space, places = Swaps(), torch.arange(28.0 * 28) / 1000
    start = space.start(places.view(1, 1, 28, 28))
    last = space.move(start, torch.tensor([[0.0, 1 - 2**-24]]))
    assert last.order[0, 0] == 783
    rows = torch.arange(784)
    drawn = torch.stack([torch.zeros(784), (rows + 0.5) / 784], 1)
    moved = space.move(space.start(start.image.expand(784, -1, -1, -1)), drawn)
    assert torch.equal(moved.order[:, 0], rows)


def test_no_single_move_stands_for_many() -> None:
    assert not is_box(Swaps())
