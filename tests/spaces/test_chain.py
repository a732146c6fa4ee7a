"""Chains against their members done one after another."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from slopes import check_slopes
from torch import Tensor

from foible.errors import UserError
from foible.images import settle
from foible.spaces import Affine, Chain, Crop, Photometric, Swaps, is_box
from foible.spaces.affine import compose, warp
from foible.testing import check_space

IMAGES = torch.rand(20, 3, 9, 14, generator=torch.Generator().manual_seed(0))


def walked(space: object, images: Tensor, moves: int = 3) -> tuple[object, Tensor]:
    generator = torch.Generator().manual_seed(4)
    points = space.start(images)  # type: ignore[attr-defined]
    for _ in range(moves):
        points = space.move(points, torch.rand(len(images), space.draws, generator=generator))  # type: ignore[attr-defined]
    return points, space.render(points)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "spaces",
    [
        (Photometric(), Crop(), Affine()),
        (Affine(resample="each"), Photometric()),
        (Crop(), Swaps(), Affine(border="reflect"), Affine(border="edge")),
    ],
)
def test_conforms(spaces: tuple[object, ...]) -> None:
    check_space(Chain(spaces), settle(IMAGES))


@pytest.mark.parametrize("space", [Affine(), Crop(), Photometric(), Swaps(), Affine(resample="each")])
def test_a_chain_of_one_is_that_space(space: object) -> None:
    chain = Chain((space,))
    assert chain.draws == space.draws  # type: ignore[attr-defined]
    (points, image), (chained, same) = walked(space, IMAGES), walked(chain, IMAGES)
    assert torch.equal(image, same)
    assert is_box(chain) == is_box(space)
    for name, values in space.describe(points).items():  # type: ignore[attr-defined]
        assert torch.equal(values, chain.describe(chained)[name])


def test_light_then_movement_is_one_after_the_other() -> None:
    light, place = Photometric(), Affine(border="edge")
    draws = torch.rand(20, 13)
    chain = Chain((light, place))
    shown = chain.render(chain.move(chain.start(IMAGES), draws))
    lit = light.render(light.move(light.start(IMAGES), draws[:, :7]))
    assert torch.equal(shown, place.render(place.move(place.start(lit), draws[:, 7:])))


def test_crop_and_affine_resample_once_through_the_product_of_their_matrices() -> None:
    crop, place = Crop(percent=20), Affine(border="reflect")
    draws = torch.rand(20, 10)
    cropped, placed = crop.move(crop.start(IMAGES), draws[:, :4]), place.move(place.start(IMAGES), draws[:, 4:])
    chain = Chain((crop, place))
    shown = chain.render(chain.move(chain.start(IMAGES), draws))
    # The image is cropped first, so an output pixel goes back through the affine and then through the crop.
    assert torch.equal(shown, warp(IMAGES, compose(crop.matrix(cropped), placed.matrix), "reflect"))
    twice = place.render(placed._replace(image=crop.render(cropped)))
    assert (shown - twice).abs().mean() < 0.2  # the same picture, blurred once less
    assert not torch.allclose(shown, twice, atol=1e-3)


def test_there_and_back_through_two_matrices_does_not_blur() -> None:
    chain = Chain((Affine(pixels=0.5), Affine(pixels=0.5)))
    half = torch.tensor([[0.5, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 0.5]]).repeat(20, 1)
    assert torch.allclose(chain.render(chain.move(chain.start(IMAGES), half)), IMAGES, atol=1e-5)


def test_unlike_borders_are_resampled_apart() -> None:
    first, second = Affine(pixels=2, border="edge"), Affine(pixels=2, border="black")
    chain = Chain((first, second))
    right_then_left = torch.tensor([[0.5, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.0, 0.5]]).repeat(20, 1)
    shown = chain.render(chain.move(chain.start(IMAGES), right_then_left))
    assert torch.allclose(shown[..., :-2], IMAGES[..., :-2], atol=1e-5)
    assert torch.allclose(shown[..., -2:], torch.zeros(20, 3, 9, 2), atol=1e-5)  # went out of sight in between


def test_a_move_hands_on_what_it_leaves_alone() -> None:
    chain = Chain((Photometric(), Swaps(), Affine()))
    start = chain.start(IMAGES)
    assert start._fields == ("image", "light_1", "order_2", "matrix_3")
    assert chain.move(start, torch.rand(20, 15)).image is start.image is IMAGES


def test_the_draws_kinds_and_reaches_of_all() -> None:
    chain = Chain((Photometric(hue=60), Chain((Crop(), Affine()))))
    assert chain.spaces == (Photometric(hue=60), Crop(), Affine())
    assert chain.draws == 17
    assert chain.kinds == Photometric.kinds + Crop.kinds + Affine.kinds
    assert chain.reaches == Photometric(hue=60).reaches + Crop().reaches + Affine().reaches
    assert not is_box(Chain((Swaps(), Affine())))
    assert not Chain((Crop(), Affine(shear=0))).closed
    with pytest.raises(UserError, match="box only where all"):
        Chain((Swaps(), Affine())).draws_of(Chain((Swaps(), Affine())).start(IMAGES))


def test_names_that_two_members_share_are_told_apart() -> None:
    said = Chain((Affine(), Affine())).describe(walked(Chain((Affine(), Affine())), IMAGES)[0])
    assert len(said) == 12
    assert {"rotation °", "2: rotation °"} <= set(said)


def test_pixels_have_the_slopes_that_finite_differences_say() -> None:
    coarse = 0.2 + 0.5 * torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    image = torch.nn.functional.interpolate(coarse, size=(16, 16), mode="bicubic").clamp(0.1, 0.8)
    check_slopes(Chain((Photometric(), Crop(), Affine(border="edge"))), image.repeat(17, 1, 1, 1))


class Painted(NamedTuple):
    image: Tensor


class Paints:
    """A space that keeps what it did in the image itself."""

    draws = 1

    def start(self, seeds: Tensor) -> Painted:
        return Painted(seeds)

    def move(self, points: Painted, uniforms: Tensor) -> Painted:
        return Painted(points.image * uniforms[:, :, None, None])

    def render(self, points: Painted) -> Tensor:
        return points.image


def test_a_space_that_changes_its_image_stands_first_or_not_at_all() -> None:
    check_space(Chain((Paints(), Affine())), settle(IMAGES))
    wrong = Chain((Affine(), Paints()))
    with pytest.raises(UserError, match=r"Paints.*can only stand first"):
        wrong.move(wrong.start(IMAGES), torch.rand(20, 7))


def test_what_is_no_space_is_refused() -> None:
    with pytest.raises(UserError, match="no space"):
        Chain((Affine(), "crop"))
    with pytest.raises(UserError, match="at least one"):
        Chain(())
