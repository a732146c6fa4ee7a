"""Light and colour against exact cases: identity, permuted channels, grey images, known means."""

from __future__ import annotations

import pytest
import torch
from slopes import check_slopes
from torch import Tensor

from foible.errors import UserError
from foible.images import settle
from foible.spaces import Photometric
from foible.testing import check_space

ORDER = ["brightness", "contrast", "saturation", "hue", "gamma", "warmth", "tint"]
RGB = torch.rand(2, 3, 9, 11, generator=torch.Generator().manual_seed(0)) * 0.4 + 0.3


def changed(space: Photometric, images: Tensor, **moves: float) -> Tensor:
    """Rendered after one move of so many largest moves each."""
    draws = torch.tensor([[0.5 + 0.5 * moves.get(name, 0.0) for name in ORDER]]).repeat(len(images), 1)
    return space.render(space.move(space.start(images), draws))


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 9, 14), (4, 6, 6)])
@pytest.mark.parametrize("space", [Photometric(), Photometric(50, 80, 80, 90, 80, 50), Photometric(gamma=0, hue=0)])
def test_conforms(space: Photometric, shape: tuple[int, int, int]) -> None:
    check_space(space, settle(torch.rand(20, *shape, generator=torch.Generator().manual_seed(0))))


def test_no_change_is_no_change() -> None:
    assert torch.allclose(changed(Photometric(), RGB), RGB, atol=1e-6)
    assert torch.allclose(changed(Photometric(0, 0, 0, 0, 0, 0), RGB, hue=1, gamma=1, contrast=1), RGB, atol=1e-6)


def test_brightness_adds_a_share_of_white() -> None:
    assert torch.allclose(changed(Photometric(brightness=5), RGB, brightness=2), RGB + 0.1, atol=1e-6)


def test_contrast_spreads_about_the_mean_brightness() -> None:
    stronger = changed(Photometric(contrast=10), RGB, contrast=1)
    brightness = (RGB * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1).mean((1, 2))[:, None, None, None]
    assert torch.allclose(stronger - brightness, 1.1 * (RGB - brightness), atol=1e-6)


def test_without_saturation_all_is_grey_and_as_bright() -> None:
    grey = changed(Photometric(saturation=1000, reach=1000), RGB, saturation=-900)
    expected = (RGB * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
    assert torch.allclose(grey, expected.expand_as(grey), atol=1e-5)


def test_a_third_of_the_colour_circle_passes_each_channel_on() -> None:
    space = Photometric(hue=120)
    assert torch.allclose(changed(space, RGB, hue=1), RGB.roll(1, 1), atol=1e-6)  # red is green now
    assert torch.allclose(changed(space, RGB, hue=3), RGB, atol=1e-5)  # all the way around


def test_once_around_the_circle_is_a_move_of_nothing() -> None:
    space = Photometric(hue=120)
    points = space.start(RGB)
    for _ in range(4):
        points = space.move(points, torch.tensor([[0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5]]).repeat(2, 1))
    assert space.draws_of(points)[0].tolist() == pytest.approx([0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5], abs=1e-5)
    assert float(space.describe(points)["hue °"][0]) == pytest.approx(120, abs=1e-3)


def test_gamma_keeps_black_and_white_and_bends_the_middle() -> None:
    image = torch.tensor([0.0, 0.25, 0.5, 1.0]).view(1, 1, 1, 4)
    darker = changed(Photometric(gamma=100), image, gamma=1)[0, 0, 0]
    assert darker[[0, 3]].tolist() == pytest.approx([0, 1], abs=1e-6)
    assert darker[1:3].tolist() == pytest.approx([0.0625, 0.25], abs=0.005)


def test_slopes_at_black_are_finite() -> None:
    image = torch.zeros(1, 1, 3, 3, requires_grad=True)
    changed(Photometric(gamma=100), image, gamma=-3).sum().backward()
    assert image.grad is not None
    assert image.grad.isfinite().all()


def test_a_cast_turns_white_warm_or_green() -> None:
    grey = torch.full((1, 3, 2, 2), 0.5)
    warm = changed(Photometric(cast=10), grey, warmth=1)[0, :, 0, 0]
    assert warm.tolist() == pytest.approx([0.55, 0.5, 0.5 / 1.1], abs=1e-6)
    green = changed(Photometric(cast=21), grey, tint=1)[0, :, 0, 0]
    assert green.tolist() == pytest.approx([0.5 / 1.1, 0.605, 0.5 / 1.1], abs=1e-6)


def test_grey_images_have_no_colour_to_change() -> None:
    grey = RGB[:, :1]
    assert torch.allclose(changed(Photometric(), grey, saturation=5, hue=5, warmth=5, tint=-5), grey, atol=1e-6)
    as_rgb = changed(Photometric(), grey.expand(-1, 3, -1, -1), brightness=1, contrast=2, gamma=-2, saturation=3, hue=4)
    assert torch.allclose(as_rgb[:, :1], changed(Photometric(), grey, brightness=1, contrast=2, gamma=-2), atol=1e-5)


def test_colour_is_no_part_of_a_change_to_a_grey_image() -> None:
    space = Photometric()
    moved = space.move(space.start(RGB[:, :1]), torch.full((2, 7), 0.9))
    amounts = (2 * space.draws_of(moved) - 1)[0]
    assert amounts.tolist() == pytest.approx([0.8, 0.8, 0, 0, 0.8, 0, 0], abs=1e-5)
    assert not any(space.describe(moved)[name].any() for name in ("saturation %", "hue °", "warmth %", "tint %"))


def test_there_and_back_even_through_clipping() -> None:
    space = Photometric(brightness=60)
    up, down = (torch.tensor([[u, *[0.5] * 6]]).repeat(2, 1) for u in (1.0, 0.0))
    points = space.move(space.start(RGB), up)
    assert space.render(points).max() == 1  # clipped
    assert torch.allclose(space.render(space.move(points, down)), RGB, atol=1e-6)


def test_describe_gives_back_the_moves_in_human_units() -> None:
    space = Photometric(brightness=4, contrast=20, saturation=10, hue=6, gamma=30, cast=8)
    draws = torch.tensor([[1.0, 1.0, 0.0, 0.75, 1.0, 1.0, 0.5]])
    said = {name: float(value[0]) for name, value in space.describe(space.move(space.start(RGB[:1]), draws)).items()}
    expected = {"brightness %": 4, "hue °": 3, "contrast %": 20, "saturation %": -100 / 11, "gamma %": 30}
    assert said == pytest.approx(expected | {"warmth %": 8, "tint %": 0}, abs=1e-3)


def test_pixels_have_the_slopes_that_finite_differences_say() -> None:
    check_slopes(Photometric(), RGB[:1].repeat(7, 1, 1, 1))


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match="hue is 200"):
        Photometric(hue=200)
    assert Photometric(hue=60, brightness=19).reaches[:4] == (5, 6, 6, 3)
