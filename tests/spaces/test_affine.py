"""Affine moves against torch's own grid, scipy's resampling and exact cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import ndimage
from slopes import check_slopes

from foible.errors import UserError
from foible.images import settle
from foible.spaces import Affine, is_box
from foible.spaces.affine import compose, warp
from foible.testing import blobs, check_space

MIDDLE = torch.full((1, 6), 0.5)


def _uniforms(**parts: float) -> torch.Tensor:
    """Uniforms of a move with these parts as shares of their bounds, in [-1, 1]."""
    order = ["rotation", "stretch_x", "stretch_y", "shear", "shift_x", "shift_y"]
    return torch.tensor([[(parts.get(name, 0.0) + 1) / 2 for name in order]])


@pytest.mark.parametrize(
    "space", [Affine(), Affine(resample="each"), Affine(degrees=30, percent=20, shear=20, pixels=3)]
)
@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 9, 14)])
def test_conforms(space: Affine, shape: tuple[int, int, int]) -> None:
    check_space(space, settle(torch.rand(20, *shape, generator=torch.Generator().manual_seed(0))))


def test_a_move_of_size_zero_returns_the_parent() -> None:
    images = torch.rand(3, 1, 28, 28)
    space = Affine(0, 0, 0, 0)
    moved = space.move(space.start(images), torch.rand(3, 6))
    assert torch.allclose(space.render(moved), images, atol=1e-5)


def test_a_whole_pixel_shift_moves_every_pixel() -> None:
    image = torch.rand(1, 1, 6, 8)
    space = Affine(pixels=2)
    right = space.render(space.move(space.start(image), _uniforms(shift_x=1.0)))
    assert torch.allclose(right[..., 2:], image[..., :-2], atol=1e-5)
    assert torch.allclose(right[..., :2], torch.zeros(1, 1, 6, 2), atol=1e-5)
    down = space.render(space.move(space.start(image), _uniforms(shift_y=0.5)))
    assert torch.allclose(down[..., 1:, :], image[..., :-1, :], atol=1e-5)


def test_a_quarter_turn_on_a_grid_is_exact() -> None:
    image = torch.rand(1, 1, 7, 7)
    space = Affine(degrees=90)
    turned = space.render(space.move(space.start(image), _uniforms(rotation=1.0)))
    assert torch.allclose(turned, torch.rot90(image, -1, (2, 3)), atol=1e-4)


def test_warp_agrees_with_scipy() -> None:
    image = torch.rand(1, 1, 15, 21)
    matrix = Affine(degrees=20, percent=10, shear=10, pixels=2).matrix_of(torch.rand(1, 6))
    ours = warp(image, matrix)[0, 0].numpy()
    a = matrix[0].double().numpy()
    swapped = np.array([[a[1, 1], a[1, 0]], [a[0, 1], a[0, 0]]])  # scipy counts (row, column)
    centre = np.array([7.0, 10.0])
    offset = np.array([a[1, 2], a[0, 2]]) + centre - swapped @ centre
    theirs = ndimage.affine_transform(image[0, 0].numpy(), swapped, offset, order=1, mode="grid-constant")
    assert np.abs(ours - theirs).max() < 1e-4


def test_warp_agrees_with_torch_affine_grid() -> None:
    images, matrix = torch.rand(5, 3, 16, 16), Affine().matrix_of(torch.rand(5, 6))
    theta = matrix.clone()
    theta[:, :, 2] *= 2 / 16
    grid = torch.nn.functional.affine_grid(theta, [5, 3, 16, 16], align_corners=False)
    theirs = torch.nn.functional.grid_sample(images, grid, align_corners=False)
    assert torch.allclose(warp(images, matrix), theirs, atol=1e-4)


def test_composing_is_one_transform_after_another() -> None:
    first, second = Affine().matrix_of(torch.rand(2, 4, 6).flatten(0, 1)).chunk(2)
    square = lambda m: torch.cat([m, torch.tensor([0.0, 0, 1]).expand(len(m), 1, 3)], 1)  # noqa: E731
    assert torch.allclose(square(compose(first, second)), square(first) @ square(second), atol=1e-6)


def test_composed_moves_do_not_blur_and_repeated_resampling_does() -> None:
    image = torch.zeros(1, 1, 28, 28)
    image[..., 10:18, 10:18] = 1
    there, back = _uniforms(rotation=1.0), _uniforms(rotation=-1.0)
    ends = {}
    for way in ("once", "each"):
        space = Affine(degrees=7, resample=way)
        points = space.start(image)
        for _ in range(5):
            points = space.move(space.move(points, there), back)
        ends[way] = (space.render(points) - image).abs().max()
    assert ends["once"] < 1e-4
    assert ends["each"] > 0.2


def test_describe_gives_back_the_move_in_human_units() -> None:
    space = Affine(degrees=10, percent=8, shear=6, pixels=3)
    points = space.move(
        space.start(torch.rand(1, 1, 28, 28)),
        _uniforms(rotation=0.5, stretch_x=-1, stretch_y=0.25, shear=0.5, shift_x=1, shift_y=-1 / 3),
    )
    described = {name: float(values[0]) for name, values in space.describe(points).items()}
    expected = [5.0, -8.0, 2.0, 3.0, 3.0, -1.0]
    assert list(described) == [
        "rotation °",
        "stretch x %",
        "stretch y %",
        "shear %",
        "shift x px",
        "shift y px",
    ]
    assert list(described.values()) == pytest.approx(expected, abs=1e-3)


def test_positive_rotation_is_clockwise_as_seen() -> None:
    image = torch.zeros(1, 1, 21, 21)
    image[0, 0, 10, 20] = 1  # three o'clock
    space = Affine(degrees=90)
    turned = space.render(space.move(space.start(image), _uniforms(rotation=1.0)))
    assert math.isclose(float(turned[0, 0, 20, 10]), 1, abs_tol=1e-3)  # six o'clock


@pytest.mark.parametrize("options", [{"degrees": -1}, {"percent": 95}, {"resample": "twice"}])
def test_sizes_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Affine(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("border", "numpy_mode"), [("black", "constant"), ("edge", "edge"), ("reflect", "symmetric")])
def test_borders_are_those_of_a_padded_image(border: str, numpy_mode: str) -> None:
    image = torch.rand(1, 2, 6, 8)
    space = Affine(pixels=2, border=border)
    shifted = space.render(space.move(space.start(image), _uniforms(shift_x=1.0, shift_y=-1.0)))
    padded = np.pad(image.numpy(), [(0, 0), (0, 0), (2, 2), (2, 2)], mode=numpy_mode)
    assert np.allclose(shifted.numpy(), padded[:, :, 4:10, 0:8], atol=1e-5)


@pytest.mark.parametrize("border", ["black", "edge", "reflect"])
def test_every_border_conforms(border: str) -> None:
    check_space(Affine(border=border))


def test_a_large_move_is_taken_apart_into_its_draws() -> None:
    space = Affine(degrees=10, percent=8, shear=6, pixels=3)
    draws = 0.5 + 3 * (torch.rand(50, 6) - 0.5)  # three largest moves either way
    points = space.move(space.start(torch.rand(50, 1, 9, 9)), draws)
    assert torch.allclose(space.draws_of(points), draws, atol=1e-4)


def test_many_small_moves_are_one_large_one() -> None:
    images = torch.rand(30, 1, 28, 28)
    space = Affine()
    points = space.start(images)
    for _ in range(12):
        points = space.move(points, torch.rand(30, 6))
    once = space.move(space.start(images), space.draws_of(points))
    assert torch.allclose(once.matrix, points.matrix, atol=1e-5)


def test_what_two_moves_do_and_no_one_move_does_is_said() -> None:
    one, other = _uniforms(rotation=1.0), _uniforms(stretch_x=1.0, shear=1.0)
    for space, closed in ((Affine(shear=0), False), (Affine(percent=0), False), (Affine(percent=0, shear=0), True)):
        points = space.move(space.move(space.start(torch.rand(1, 1, 9, 9)), one), other)
        once = space.move(space.start(points.image), space.draws_of(points))
        assert space.closed == closed
        assert torch.allclose(once.matrix, points.matrix, atol=1e-5) == closed
        check_space(space)


def test_the_box_ends_where_moves_stop_making_sense() -> None:
    assert Affine().reaches == (6, 6, 6, 6, 6, 6)
    assert Affine(degrees=60, percent=19, shear=200, reach=9).reaches == (3, 5, 5, 1, 9, 9)
    assert Affine(resample="each").reaches == ()
    assert is_box(Affine())
    assert not is_box(Affine(resample="each"))
    with pytest.raises(UserError, match=r"reach is 0\.5"):
        Affine(reach=0.5)
    with pytest.raises(UserError, match="border is 'white'"):
        Affine(border="white")


def test_pixels_have_the_slopes_that_finite_differences_say() -> None:
    image = blobs(3).sum(0, keepdim=True).repeat(6, 1, 1, 1)
    check_slopes(Affine(degrees=10, percent=8, shear=6, pixels=1), image)
