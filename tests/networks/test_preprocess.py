"""Preprocess: a known answer for each part, and the identity for free."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from foible.errors import UserError
from foible.networks.preprocess import Preprocess, statistics


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


@pytest.mark.parametrize("one", [Preprocess(), Preprocess((0.5,), (0.25,)), Preprocess((0.1,) * 3, (1.0,) * 3, (4, 6))])
def test_json_round_trip(one: Preprocess) -> None:
    assert Preprocess.from_json(one.to_json()) == one


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
        {"mean": 3},
        [1],
    ],
)
def test_bad_records_are_refused(record: object) -> None:
    with pytest.raises(UserError, match="preprocess"):
        Preprocess.from_json(record)  # type: ignore[arg-type]


def test_wrong_number_of_channels_is_named() -> None:
    with pytest.raises(UserError, match="1 channels, preprocess normalises 3"):
        Preprocess((0.1,) * 3, (1.0,) * 3)(torch.rand(1, 1, 4, 4))


def test_statistics_of_images() -> None:
    images = torch.randint(0, 256, (50, 2, 5, 5), dtype=torch.uint8)
    images[:, 1] = 7  # one value: its deviation is taken as 1
    found = statistics(images)
    pixels = images[:, 0].double() / 255
    assert found.mean == pytest.approx((pixels.mean().item(), 7 / 255), abs=1e-6)
    assert found.std == pytest.approx((pixels.std(correction=0).item(), 1.0), abs=1e-6)
