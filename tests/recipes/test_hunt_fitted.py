"""What a hunt takes from data and networks: how sure peers are, how photographs are moved, how far the way may lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import foible
from foible import Basket, Findings, Preprocess, UserError
from foible.data import Dataset
from foible.images import encode_png
from foible.objectives import Dissent
from foible.recipes.hunt.fitted import sure
from foible.recipes.hunt.most import Most, read_most
from foible.spaces import Affine

SPACE = "affine?degrees=8&percent=8&pixels=0.7"


def _settings(found: Findings) -> dict[str, Any]:
    (settings,) = found.configs.values()
    return settings


def test_how_sure_peers_must_be_fits_the_number_of_classes() -> None:
    assert [sure(classes) for classes in (2, 3, 10, 100, 1000, 21_841)] == [0.5, 0.5, 0.5, 0.4, 0.3, 0.25]


def test_peers_are_half_sure_unless_somebody_says_otherwise(basket: Basket, data: Dataset) -> None:
    options: dict[str, Any] = {"space": SPACE, "trials": 12, "suspect": "A", "shrink": False, "realism": "none"}
    options["patience"] = 80
    found = foible.hunt(basket, data, quiet=True, **options)
    assert _settings(found)["objective"] == "dissent?peer_confidence=0.5"
    rows = found.filter(outcome="found")
    assert len(rows)
    assert all(peer[row["truth"]] >= 0.5 for row in rows for peer in row["after"][1:])
    least = foible.hunt(basket, data, quiet=True, peer_confidence=0.0, **options)
    assert _settings(least)["objective"] == "dissent?peer_confidence=0.0"
    own = foible.hunt(basket, data, quiet=True, objective=Dissent(), **options)
    assert _settings(own)["objective"] == "dissent", "an object is as its maker made it"
    assert own.column("path") == least.column("path")


def test_bounds_in_words() -> None:
    assert read_most("15°, 15 %, 10 % shift") == Most(15, 15, 10)
    assert read_most("7.5 degrees,8px shift") == Most(degrees=7.5, pixels=8)
    assert Most(15, 15, 10).options(224) == {"most_degrees": 15, "most_percent": 15, "most_pixels": pytest.approx(22.4)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"most": "15"}, r"cannot read '15': expected amounts such as \"15°, 15 %, 10 % shift\""),
        ({"most": "15° shift"}, "cannot read '15° shift'"),
        ({"most": "15°, 10°"}, "bounds one thing twice"),
        ({"most": "5 % shift, 3 px"}, "bounds one thing twice"),
        ({"most": "0°"}, "leaves nothing"),
        ({"most": "5°", "space": "swaps"}, "which 'swaps' has not: it goes with affine"),
        ({"most": "5°", "space": "affine?most_degrees=3"}, "both bound the whole way"),
        ({"most": "5°", "space": Affine()}, "beside a space of your own"),
    ],
)
def test_bounds_that_make_no_sense(basket: Basket, data: Dataset, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        foible.hunt(basket, data, quiet=True, **options)


@pytest.mark.parametrize("search", ["hill-climb?patience=60", "gradient"])
def test_no_search_leaves_the_bounds(basket: Basket, data: Dataset, search: str) -> None:
    """In a walk without bounds some way leads further than these; with them none does, and mistakes are still found."""
    options: dict[str, Any] = {"space": SPACE, "search": search, "trials": 16, "suspect": "A", "peer_confidence": 0}
    free = foible.hunt(basket, data, quiet=True, realism="none", **options)
    bound = foible.hunt(basket, data, quiet=True, realism="none", most="12°, 12 %, 12 % shift", **options)
    least = {"rotation °": 12, "stretch x %": 12, "stretch y %": 12, "shear %": 12, "shift x px": 0.12 * 12}
    assert _settings(bound)["space"] == f"{SPACE}&most_degrees=12&most_percent=12&most_pixels=1.44"

    def beyond(found: Findings, column: str = "change") -> int:
        rows = [dict(row[column]) for row in found if row["outcome"] == "found"]
        return sum(any(abs(change[name]) > most * 1.001 for name, most in least.items()) for change in rows)

    assert beyond(free) > 0
    assert beyond(bound) == beyond(bound, "least_change") == 0
    assert len(bound.filter(outcome="found")) > 0


class Bright(nn.Module):
    """Sees whether one side of the picture is the brighter; `shift` moves its opinion."""

    def __init__(self, shift: float) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(shift))

    def forward(self, images: Tensor) -> Tensor:
        half = images.shape[3] // 2
        more = 40 * (images[..., :half].mean((1, 2, 3)) - images[..., half:].mean((1, 2, 3)) + self.shift)
        return torch.stack([more, -more], 1)


def test_photographs_mirror_at_their_border_and_shift_by_their_size(tmp_path: Path) -> None:
    """No picture has a black pixel, so one in a find would be a wedge from outside."""
    generator = torch.Generator().manual_seed(0)
    for number in range(24):
        side = "left" if number % 2 else "right"
        pixels = torch.randint(120, 200, (3, 60, 60), generator=generator, dtype=torch.uint8)
        pixels[:, :, slice(0, 30) if number % 2 else slice(30, 60)] += 30
        (tmp_path / "photos" / side).mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / side / f"{number}.png").write_bytes(encode_png(pixels.numpy()))
    networks = Basket(
        {"A": Bright(0.0), "B": Bright(0.06)},
        classes=("left", "right"),
        preprocess=Preprocess((0.0,) * 3, (1.0,) * 3, size=(56, 56), resize=56, interpolation="bilinear"),
    )
    options: dict[str, Any] = {"trials": 12, "suspect": "A", "peer_confidence": 0, "split": "train", "quiet": True}
    found = foible.hunt(networks, f"folder:{tmp_path / 'photos'}", realism="none", shrink=False, **options)
    assert _settings(found)["space"] == "affine?border=reflect&pixels=2"
    rows = found.filter(outcome="found")
    assert len(rows) > 0
    assert all(int(image.min()) > 100 for image in rows.images())
    asked = foible.hunt(
        networks, f"folder:{tmp_path / 'photos'}", space="affine?border=black&pixels=1", search="hill-climb?patience=5",
        realism="none", shrink=False, **options,
    )  # fmt: skip
    assert _settings(asked)["space"] == "affine?border=black&pixels=1", "what was asked for stays"
