"""Fog, blur, noise, coarse pixels and JPEG against exact cases, and against Pillow's JPEG files."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from slopes import check_slopes
from torch import Tensor

from foible.errors import UserError
from foible.images import settle
from foible.spaces import SPACES, Corrupt
from foible.spaces.corrupt import blurred, pixelated
from foible.spaces.jpeg import quantised
from foible.specs import resolve, spec_of
from foible.testing import check_space

RGB = settle(torch.rand(2, 3, 16, 24, generator=torch.Generator().manual_seed(0)))
SMOOTH = blurred(RGB, torch.full((2, 1, 1, 1), 2.0))


def every(value: float) -> Tensor:
    return torch.full((2, 1, 1, 1), value)


def changed(space: Corrupt, images: Tensor, *moves: float) -> Tensor:
    """Rendered after one move of so many largest moves each."""
    draws = 0.5 + 0.5 * torch.tensor([moves]).repeat(len(images), 1)
    return space.render(space.move(space.start(images), draws))


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 9, 14)])
@pytest.mark.parametrize(
    "space", [Corrupt(), Corrupt(jpeg=0, blur=0), Corrupt("jpeg"), Corrupt(fog=95, blur=50, pixelate=50, jpeg=95)]
)
def test_conforms(space: Corrupt, shape: tuple[int, int, int]) -> None:
    check_space(space, settle(torch.rand(20, *shape, generator=torch.Generator().manual_seed(0))))


@pytest.mark.parametrize("channels", [1, 3])
def test_an_empty_batch_stays_empty(channels: int) -> None:
    assert Corrupt().render(Corrupt().start(torch.zeros(0, channels, 9, 12))).shape == (0, channels, 9, 12)


def test_blur_keeps_the_mean_spreads_a_point_and_is_as_wide_as_it_says() -> None:
    point = torch.zeros(2, 1, 31, 31)
    point[:, :, 15, 15] = 1
    spread = blurred(point, every(2.0))
    assert spread.min() > -1e-6
    across, places = spread[0, 0].sum(0), torch.arange(31) - 15.0
    assert float((across * places**2).sum()) == pytest.approx(4, abs=1e-3)  # the variance
    assert blurred(RGB, every(5.0)).mean((2, 3)).allclose(RGB.mean((2, 3)), atol=1e-5)
    assert blurred(RGB, every(100.0)).std((2, 3)).max() < 1e-5


def test_pixels_of_two_and_of_halves() -> None:
    twice = RGB.unflatten(3, (-1, 2)).mean(-1).unflatten(2, (-1, 2)).mean(3)
    assert pixelated(RGB, every(2.0)).allclose(twice.repeat_interleave(2, 2).repeat_interleave(2, 3), atol=1e-6)
    line = torch.tensor([0.0, 0.3, 0.9]).view(1, 1, 1, 3).expand(2, 1, 3, 3)
    halves = pixelated(line, every(1.5))[0, 0, 0]  # cells of 0 to 1.5 and 1.5 to 3: means 0.1 and 0.7
    assert halves.tolist() == pytest.approx([0.1, 0.4, 0.7], abs=1e-6)
    assert pixelated(RGB, every(7.3)).mean((2, 3)).allclose(RGB.mean((2, 3)), atol=1e-5)


def test_fog_takes_contrast_and_gives_light() -> None:
    assert changed(Corrupt("fog", fog=10), RGB, 4).allclose(0.6 * RGB + 0.4, atol=1e-6)


def test_noise_is_normal_signed_and_named_by_its_seed() -> None:
    grey = torch.full((2, 1, 64, 64), 0.5)
    noisy = changed(Corrupt("noise", noise=5), grey, 1) - grey
    assert float(noisy.std()) == pytest.approx(0.05, rel=0.05)
    assert noisy.allclose(-(changed(Corrupt("noise", noise=5), grey, -1) - grey), atol=1e-6)
    other = changed(Corrupt("noise", noise=5, seed=1), grey, 1) - grey
    assert abs(float((noisy * other).mean() / noisy.std() / other.std())) < 0.1


@pytest.mark.parametrize(("channels", "apart"), [(1, 0.01), (3, 0.25)])  # a file's colours are rounded to 8 bits
@pytest.mark.parametrize("quality", [25, 50])  # where steps are whole numbers, as a file needs them
def test_jpeg_is_what_a_file_of_that_quality_is(channels: int, apart: float, quality: int) -> None:
    image = settle(SMOOTH[:1, :channels, :15, :21])  # no whole blocks
    pixels = (image[0] * 255).round().byte().permute(1, 2, 0).squeeze(2).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=0)
    theirs = torch.from_numpy(np.array(Image.open(file), copy=True)).view(15, 21, channels).permute(2, 0, 1) / 255
    ours = settle(quantised(image, torch.full((1, 1, 1, 1), float(quality))))[0]
    lost = (image[0] - theirs).abs().mean()
    assert lost * 255 > 1
    assert (ours - theirs).abs().mean() < apart * lost


def test_jpeg_of_quality_100_is_nearly_the_image_and_less_loses_more() -> None:
    lost = [float((quantised(RGB, every(quality)) - RGB).abs().mean() * 255) for quality in (100.0, 90.0, 50.0, 10.0)]
    assert lost[0] < 0.01
    assert lost == sorted(lost)
    assert lost[-1] > 10


def test_describe_says_severities_in_their_units() -> None:
    space = Corrupt(fog=10, blur=1, noise=3, pixelate=5, jpeg=20)
    said = space.describe(space.move(space.start(RGB), torch.tensor([[1.0, 0.0, 0.75, 1.0, 0.0]]).repeat(2, 1)))
    told = {name: float(values[0]) for name, values in said.items()}
    expected = {"fog %": 10, "blur px": 0.16, "noise %": 1.5, "pixelate px": 0.8, "jpeg quality": -20}
    assert told == pytest.approx(expected, abs=1e-5)


def test_pixels_have_the_slopes_that_finite_differences_say() -> None:
    smooth = Corrupt("fog,blur,noise,pixelate", blur=3, pixelate=3)
    check_slopes(smooth, (0.3 + 0.4 * RGB[:1]).repeat(4, 1, 1, 1))


def test_jpeg_has_slopes_by_which_its_error_grows() -> None:
    quality = every(60.0).requires_grad_()
    lost = (quantised(RGB, quality) - RGB).square().sum()
    (slope,) = torch.autograd.grad(lost, quality)
    assert (slope < 0).all()


def test_kinds_are_a_spec_and_back() -> None:
    space = resolve("corrupt?kinds=jpeg,blur&jpeg=5", SPACES, "space")
    assert space == Corrupt(("blur", "jpeg"), jpeg=5)
    assert space.kinds == ("blur", "jpeg")
    text = spec_of(space, SPACES)
    assert text is not None
    assert resolve(text, SPACES, "space") == space
    assert spec_of(Corrupt(), SPACES) == "corrupt"
    with pytest.raises(UserError, match=r"kinds has 'blurr'; did you mean 'blur'\?.*fog, blur, noise"):
        Corrupt("blurr")
    with pytest.raises(UserError, match="jpeg is 100: expected 0 to 95"):
        Corrupt(jpeg=100)
