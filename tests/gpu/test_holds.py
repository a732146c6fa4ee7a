"""What is found on a GPU holds: replayed there in other batches, and on a CPU, pixel for pixel. Needs CUDA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import foible
from foible.basket import Basket
from foible.images import encode_png
from foible.recipes.replay import replay

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
SPECS = ["lenet", "resnet:8,width=8", "cnn4"]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu") / "networks"
    foible.train(SPECS, "digits", out=folder, epochs=3, device="cuda", quiet=True)
    return folder


def everywhere(run: Path, networks: Path) -> None:
    """Every row, on the GPU and on a CPU."""
    for basket in (None, Basket.open(networks, device="cpu")):
        wrong = [again for again in replay(run, basket=basket) if not again.holds]
        assert wrong == []


def test_float32_is_float32_once_a_basket_is_open(networks: Path) -> None:
    torch.backends.cudnn.allow_tf32 = True
    basket = Basket.open(networks, device="cuda")
    assert not torch.backends.cudnn.allow_tf32
    images = torch.rand(40, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    here, there = basket.judge(images.cuda()).cpu(), Basket.open(networks, device="cpu").judge(images)
    assert torch.allclose(here, there, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("search", "precision"),
    [("hill-climb?patience=100", "float32"), ("hill-climb?patience=100", "bf16"), ("gradient", "float32")],
)
def test_a_hunts_finds_hold(networks: Path, tmp_path: Path, search: str, precision: str) -> None:
    options: dict[str, Any] = {"search": search, "precision": precision, "trials": 60, "peer_confidence": 0.6}
    found = foible.hunt(networks, "digits", out=tmp_path / "run", device="cuda", quiet=True, **options)
    assert len(found.filter(outcome="found")) > 20
    everywhere(tmp_path / "run", networks)


def test_distortions_hold(networks: Path, tmp_path: Path) -> None:
    found = foible.distort(
        networks, "digits", source=SPECS[1].replace(":", "-").replace(",", "-").replace("=", "-"), images=40,
        out=tmp_path / "run", device="cuda", quiet=True,
    )  # fmt: skip
    assert len(found.filter(outcome="found")) == 40
    everywhere(tmp_path / "run", networks)


def test_larger_images_replay_pixel_for_pixel(tmp_path: Path) -> None:
    """Of many pixels some lie just between two levels, where float32 rounds this way here and that way there."""
    torch.manual_seed(0)
    for name in "ab":
        (tmp_path / "images" / name).mkdir(parents=True)
    rough = torch.rand(120, 3, 6, 6)
    smooth = torch.nn.functional.interpolate(rough, (40, 40), mode="bicubic").clamp(0, 1)
    for number, image in enumerate(smooth):
        (tmp_path / "images" / "ab"[number % 2] / f"{number}.png").write_bytes(encode_png((255 * image).byte()))
    networks = {name: nn.Sequential(nn.Flatten(), nn.Linear(4800, 2)) for name in ("suspect", "peer")}
    baskets = {
        device: Basket(networks, classes="ab", preprocess="inside", shape=(3, 40, 40), device=device)
        for device in ("cuda", "cpu")
    }
    options: dict[str, Any] = {"trials": 300, "unlabelled": True, "peer_confidence": 0.0, "canvas": "40"}
    found = foible.hunt(
        baskets["cuda"], f"folder:{tmp_path / 'images'}", suspect="suspect", out=tmp_path / "run", quiet=True, **options
    )
    assert len(found.filter(outcome="found")) > 40
    for basket in baskets.values():
        others = [again.id for again in replay(tmp_path / "run", basket=basket) if not again.same_image]
        assert others == []
