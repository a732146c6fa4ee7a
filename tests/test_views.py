"""A view: known sizes and places for each way to resize and crop, and Pillow's own answer for the pixels."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageOps

from foible.errors import UserError
from foible.views import View


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Every pixel's red is its column and green its row, so that a crop says where it was taken."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0] = np.arange(width) % 256
    pixels[..., 1] = (np.arange(height) % 256)[:, None]
    return Image.fromarray(pixels).convert(mode)


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))


def test_the_size_asked_for_is_not_touched() -> None:
    image = noise(7, 5)
    for view in (View((5, 7)), View((5, 7), 5), View((5, 7), (5, 7))):
        assert np.array_equal(view(image), np.asarray(image).transpose(2, 0, 1))
    assert View((5, 7))(image.convert("L")).shape == (1, 5, 7)


def test_without_resize_the_largest_crop_is_resized() -> None:
    image = noise(40, 20)
    expected = np.asarray(ImageOps.fit(image, (10, 10), Image.Resampling.BICUBIC))
    assert np.array_equal(View((10, 10), interpolation="bicubic")(image), expected.transpose(2, 0, 1))


@pytest.mark.parametrize(("size", "to"), [((100, 73), (87, 64)), ((73, 100), (64, 87)), ((64, 64), (64, 64))])
def test_a_number_is_the_shorter_side(size: tuple[int, int], to: tuple[int, int]) -> None:
    image = noise(*size)
    resized = image.resize(to, Image.Resampling.BILINEAR)
    width, height = to
    assert np.array_equal(View((height, width), 64)(image), np.asarray(resized).transpose(2, 0, 1))


@pytest.mark.parametrize(("spare", "even", "down"), [(0, 0, 0), (1, 0, 0), (2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 2, 2)])
def test_where_a_crop_begins(spare: int, even: int, down: int) -> None:
    image = picture(20 + spare, 20)
    for halves, left in (("even", even), ("down", down)):
        found = View((20, 20), (20, 20 + spare), halves=halves)(image)  # type: ignore[arg-type]
        assert found[0, 0, 0] == left
        assert found[1, 0, 0] == 0


def test_a_pair_stretches_covers_or_is_contained() -> None:
    image = noise(40, 20)
    stretched = np.asarray(image.resize((10, 10), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(View((10, 10), (10, 10))(image), stretched)
    covered = np.asarray(image.resize((20, 10), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(View((10, 10), (10, 10), fit="cover")(image), covered[:, :, 5:15])
    contained = View((10, 10), (10, 10), fit="contain", fill=(9, 8, 7))(image)
    inside = np.asarray(image.resize((10, 5), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.array_equal(contained[:, 2:7], inside)  # the odd row of the five is below
    assert (contained[:, [0, 1, 7, 8, 9]] == np.array([9, 8, 7])[:, None, None]).all()


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_small_image_is_filled_up(mode: str) -> None:
    found = View((6, 6), (3, 6))(picture(6, 3, mode))
    assert found.shape == (len(mode) if mode == "RGB" else 1, 6, 6)
    assert (found[:, [0, 4, 5]] == 0).all()
    assert np.array_equal(found[-1, 1:4], np.asarray(picture(6, 3, mode)).reshape(3, 6, -1)[..., -1])


@pytest.mark.parametrize(
    "given",
    [
        {"size": (0, 4)},
        {"size": (4,)},
        {"size": (4, 9000)},
        {"size": (4, 4), "resize": 0},
        {"size": (4, 4), "resize": (4,)},
        {"size": (4, 4), "resize": 4.5},
        {"size": (4, 4), "interpolation": "cubic"},
        {"size": (4, 4), "fit": "tight"},
        {"size": (4, 4), "fill": ()},
        {"size": (4, 4), "halves": "up"},
    ],
)
def test_bad_views_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"view|interpolation"):
        View(**given)  # type: ignore[arg-type]


def test_json() -> None:
    record = View((4, 6), (5, 7), "bicubic").to_json()
    assert record["size"] == [4, 6]
    assert record["resize"] == [5, 7]
    assert record["interpolation"] == "bicubic"
