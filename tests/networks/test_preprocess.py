"""Preprocess: a known answer for each part, and the identity for free."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

from foible.errors import UserError
from foible.networks.preprocess import Preprocess, scaled, statistics
from foible.views import View


def test_the_identity_returns_its_argument() -> None:
    images = torch.rand(2, 3, 8, 8)
    assert Preprocess()(images) is images
    assert Preprocess(size=(8, 8))(images) is images


def test_normalises_each_channel() -> None:
    images = torch.rand(2, 3, 4, 4)
    out = Preprocess((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))(images)
    for channel, (mean, std) in enumerate([(0.1, 0.5), (0.2, 0.6), (0.3, 0.7)]):
        assert torch.allclose(out[:, channel], (images[:, channel] - mean) / std)


def test_resizes_with_antialiasing_and_passes_gradients() -> None:
    images = torch.rand(2, 1, 16, 16, requires_grad=True)
    out = Preprocess(size=(8, 4))(images)
    assert torch.equal(out, F.interpolate(images, (8, 4), mode="bilinear", antialias=True))
    out.sum().backward()
    assert images.grad is not None
    assert images.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "one",
    [
        Preprocess(),
        Preprocess((0.5,), (0.25,)),
        Preprocess((0.1,) * 3, (1.0,) * 3, (4, 6)),
        Preprocess(size=(4, 6), resize=7, interpolation="bicubic", halves="down"),
        Preprocess(size=(4, 6), resize=(8, 9), fit="contain", fill=(1, 2, 3)),
    ],
)
def test_json_round_trip(one: Preprocess) -> None:
    assert Preprocess.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_records_of_before_still_load() -> None:
    assert Preprocess.from_json({"mean": [0.5], "std": [0.25], "size": [4, 6]}) == Preprocess((0.5,), (0.25,), (4, 6))
    assert set(Preprocess((0.5,), (0.25,), (4, 6)).to_json()) == {"mean", "std", "size"}


@pytest.mark.parametrize(
    "record",
    [
        {"mean": [0.5], "std": []},
        {"mean": [0.5], "std": [0.0]},
        {"mean": [float("nan")], "std": [1.0]},
        {"size": [4]},
        {"size": [0, 4]},
        {"mean": ["a"], "std": [1]},
        {"average": [1]},
        {"size": [4, 4], "resize": "8"},
        {"size": [4, 4], "resize": [8]},
        {"size": [10**9, 4]},
        {"size": 4},
        {"resize": 8},
        {"size": [4, 4], "interpolation": "cubic"},
        {"size": [4, 4], "fit": "tight"},
        {"size": [4, 4], "fill": [256]},
        {"size": [4, 4], "fill": 3},
        {"mean": 3},
        [1],
    ],
)
def test_bad_records_are_refused(record: object) -> None:
    with pytest.raises(UserError, match="preprocess"):
        Preprocess.from_json(record)  # type: ignore[arg-type]


def test_wrong_number_of_channels_is_named() -> None:
    with pytest.raises(UserError, match="2 channels, preprocess normalises 3"):
        Preprocess((0.1,) * 3, (1.0,) * 3)(torch.rand(1, 2, 4, 4))


def test_grey_images_are_repeated_for_a_network_of_three_channels() -> None:
    grey = torch.rand(2, 1, 4, 4)
    out = Preprocess((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))(grey)
    assert torch.equal(out, Preprocess((0.1, 0.2, 0.3), (0.5, 0.6, 0.7))(grey.repeat(1, 3, 1, 1)))


def test_bicubic_stays_in_the_box_and_a_crop_is_not_applied_to_a_canvas() -> None:
    images = (torch.rand(2, 3, 9, 9) > 0.5).float()
    out = Preprocess(size=(24, 24), resize=64, interpolation="bicubic")(images)
    raw = F.interpolate(images, (24, 24), mode="bicubic", antialias=True)
    assert torch.equal(out, raw.clamp(0, 1))
    assert not torch.equal(out, raw)  # it did overshoot


def test_the_view_of_a_network() -> None:
    assert Preprocess((0.5,), (0.5,)).view is None
    how = Preprocess(size=(8, 6), resize=(9, 9), interpolation="bicubic", halves="down")
    assert how.view == View((8, 6), (9, 9), "bicubic", halves="down")


def test_pixels_to_255_are_a_mean_and_a_deviation() -> None:
    pixels = torch.rand(1, 3, 2, 2)
    mean, std = (120.0, 110.0, 100.0), (60.0, 61.0, 62.0)
    out = Preprocess(**scaled(mean, std, 255, 3))(pixels)
    assert torch.allclose(out, (pixels * 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1))
    assert torch.allclose(Preprocess(**scaled((), (), 255, 3))(pixels), pixels * 255)


def test_statistics_of_images() -> None:
    images = torch.randint(0, 256, (50, 2, 5, 5), dtype=torch.uint8)
    images[:, 1] = 7  # one value: its deviation is taken as 1
    found = statistics(images)
    pixels = images[:, 0].double() / 255
    assert found.mean == pytest.approx((pixels.mean().item(), 7 / 255), abs=1e-6)
    assert found.std == pytest.approx((pixels.std(correction=0).item(), 1.0), abs=1e-6)
