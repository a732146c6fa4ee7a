"""Severe changes that all networks survive: counted against networks whose answers are known."""

from __future__ import annotations

import torch
from torch import Tensor

from foible import specs
from foible.basket import Basket
from foible.spaces import SPACES
from foible.studies.peer_pressure.severe import SPACE, THEMES, _places, severe


def always_first(images: Tensor) -> Tensor:
    return torch.tensor([1.0, 0.0]).expand(len(images), 2)


def bright_is_first(images: Tensor) -> Tensor:
    """Class 0 where the mean pixel is above 0.45."""
    mean = images.mean((1, 2, 3))
    return torch.stack([mean - 0.45, 0.45 - mean], 1)


def basket(*networks: object) -> Basket:
    named = {f"n{place}": network for place, network in enumerate(networks)}
    return Basket(named, classes=("a", "b"), preprocess="inside")  # type: ignore[arg-type]


def seeds(count: int = 3) -> tuple[Tensor, Tensor]:
    return torch.full((count, 3, 16, 16), 140, dtype=torch.uint8), torch.zeros(count, dtype=torch.long)


def test_networks_that_never_change_their_mind_survive_everything() -> None:
    found = severe(basket(always_first, always_first), *seeds(), seed=0, draws=5)
    assert found.counts == dict.fromkeys(THEMES, (15, 15))
    assert [one.theme for one in found.survivors] == list(THEMES)
    rotation = found.survivors[0].change
    assert list(rotation) == ["rotation °"]
    assert 0.4 * 40 - 4 < abs(rotation["rotation °"]) <= 44  # from two fifths of the box on, and some of the rest
    assert all(one.image.shape == (3, 16, 16) for one in found.survivors)


def test_what_one_network_loses_is_no_survivor() -> None:
    found = severe(basket(always_first, bright_is_first), *seeds(), seed=0, draws=8)
    assert found.counts["darker"][0] == 0
    assert found.counts["brighter"] == (24, 24)
    assert "darker" not in [one.theme for one in found.survivors]


def test_draws_are_far_in_the_theme_and_the_same_every_time() -> None:
    space = specs.resolve(SPACE, SPACES, "space")
    places = _places(space, THEMES["black borders"], 1, 0, 5, 50)
    for place, kind in enumerate(space.kinds):
        column = places[:, place]
        if kind == "stretch":
            assert column.max() <= -0.4  # smaller, so that black comes into view
        elif kind == "shift":
            assert column.abs().min() >= 0.4
            assert (column > 0).any()
            assert (column < 0).any()
        else:
            assert column.abs().max() <= 0.1
    assert places.abs().max() <= 1
    assert torch.equal(places, _places(space, THEMES["black borders"], 1, 0, 5, 50))
    assert torch.equal(places[:7], _places(space, THEMES["black borders"], 1, 0, 5, 7))
    assert not torch.equal(places, _places(space, THEMES["black borders"], 2, 0, 5, 50))
