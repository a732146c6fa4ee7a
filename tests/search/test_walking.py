"""Paths that are walked again for the record."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor, nn

from foible.basket import Basket
from foible.findings import OUTCOMES
from foible.images import encode_png
from foible.objectives import Dissent
from foible.recipes.replay import replay_row
from foible.search.walking import recorded, takes_doubles
from foible.spaces import Affine, Chain, Crop, Photometric, Swaps

SPACES = (Affine(), Affine(border="reflect"), Crop(), Photometric(), Chain((Photometric(), Crop(), Affine())))


def some(space: object, channels: int = 3, count: int = 60) -> tuple[Tensor, list[Tensor]]:
    """Seed images, as bytes, and a path of up to eight moves for each."""
    torch.manual_seed(0)
    seeds = torch.randint(0, 256, (count, channels, 32, 32), dtype=torch.uint8)
    return seeds, [torch.rand(number % 9, space.draws) for number in range(count)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
@pytest.mark.parametrize("channels", [1, 3])
def test_in_float64_pixels_are_the_same_in_every_batch(space: object, channels: int) -> None:
    seeds, paths = some(space, channels)
    floats = seeds.float() / 255
    points, whole = recorded(space, floats, paths, precise=True)
    alone = [recorded(space, floats[row : row + 1], paths[row : row + 1], precise=True)[1] for row in range(len(seeds))]
    assert torch.equal(whole, torch.cat(alone))
    assert all(field.dtype == torch.float32 and len(field) == len(seeds) for field in points)
    _, single = recorded(space, floats, paths, precise=False)
    assert int((whole.int() - single.int()).abs().max()) <= 1


def test_an_image_is_the_same_in_float64_however_it_was_divided() -> None:
    """A GPU multiplies by 1/255, and the last bit of a float32 seed image is another than on a CPU."""
    seeds, paths = some(Affine(), count=200)
    _, pixels = recorded(Affine(), seeds, paths, precise=True)
    _, divided = recorded(Affine(), seeds.double() / 255, paths, precise=True)
    _, multiplied = recorded(Affine(), seeds.float() * (1 / 255), paths, precise=True)
    assert torch.equal(pixels, divided)
    assert not torch.equal(pixels, multiplied)  # what would be if it began with those


def test_in_float32_some_pixel_lies_just_between_two_levels() -> None:
    """What this is for: were it never so, float64 would not be needed."""
    seeds, paths = some(Affine(), count=200)
    double, single = (recorded(Affine(), seeds.float() / 255, paths, precise=precise)[1] for precise in (True, False))
    assert not torch.equal(double, single)


def test_a_space_that_does_not_take_float64_is_walked_in_float32() -> None:
    space = Swaps()
    assert not takes_doubles(space)
    assert not takes_doubles(Chain((space, Affine())))
    seeds, paths = some(space)
    both = [recorded(space, seeds.float() / 255, paths, precise=precise)[1] for precise in (True, False)]
    assert torch.equal(*both)


def test_rows_of_a_gpu_replay_in_float64_and_others_as_they_were_made() -> None:
    networks = {name: nn.Sequential(nn.Flatten(), nn.Linear(3072, 3)) for name in ("suspect", "peer")}
    basket, space = Basket(networks, classes="abc", preprocess="inside"), Affine()
    seeds, paths = some(space, count=200)
    made = {device: recorded(space, seeds, paths, precise=device != "cpu")[1] for device in ("cpu", "NVIDIA")}
    differ = (made["cpu"] != made["NVIDIA"]).flatten(1).any(1).nonzero()[:, 0]
    assert len(differ)
    for number in differ.tolist():
        for device, pixels in made.items():
            row = {
                "id": "x", "versions": json.dumps({"device": device}), "origin": encode_png(seeds[number]),
                "path": [{"draws": move.tolist()} for move in paths[number]], "networks": ["suspect", "peer"],
                "target": None, "truth": 0, "image": encode_png(pixels[number]), "after": [[0.0] * 3] * 2,
                "outcome": OUTCOMES[0],
            }  # fmt: skip
            assert replay_row(row, space, Dissent(), basket).same_image
