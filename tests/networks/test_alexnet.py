"""The AlexNet of 2012: its layers as Table 5 of paper 3 prints them, and the same form for small images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from foible.data import Dataset
from foible.errors import UserError
from foible.networks import zoo
from foible.networks.files import load_folder
from foible.networks.fleet import Fleet
from foible.networks.fresh import fresh_module
from foible.networks.zoo.alexnet import SMALLEST, ResponseNorm, first_stride
from foible.networks.zoo.layers import Dropout
from foible.recipes.train.train import train

SMALL = "alexnet:width=12"


def on_meta(spec: str, shape: tuple[int, int, int] = (3, 224, 224), classes: int = 1000) -> nn.Sequential:
    with torch.device("meta"):
        network = zoo.build(spec, shape, classes)
    assert isinstance(network, nn.Sequential)
    return network


def test_convolutions_are_those_of_table_5() -> None:
    convolutions = [layer for layer in on_meta("alexnet") if isinstance(layer, nn.Conv2d)]
    assert [tuple(layer.weight.shape) for layer in convolutions] == [
        (96, 3, 11, 11), (256, 96, 5, 5), (384, 256, 3, 3), (384, 384, 3, 3), (256, 384, 3, 3)
    ]  # fmt: skip
    assert [layer.stride[0] for layer in convolutions] == [4, 1, 1, 1, 1]


def test_on_two_gpus_it_has_the_papers_60_million_weights() -> None:
    network = on_meta("alexnet:groups=2")
    assert sum(weight.numel() for weight in network.parameters()) == 60_965_224  # as every account of it counts them
    assert network(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, 1000)
    hidden = [layer for layer in network if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in hidden] == [(9216, 4096), (4096, 4096), (4096, 1000)]
    assert [layer.p for layer in network if isinstance(layer, Dropout)] == [0.5, 0.5]


def test_response_norm_is_that_of_2012() -> None:
    """Against PyTorch's, whose alpha is divided by the number of maps."""
    inputs = torch.randn(2, 9, 4, 3, generator=torch.Generator().manual_seed(0)) * 40
    expected = F.local_response_norm(inputs, 5, alpha=5e-4, beta=0.75, k=2.0)
    assert torch.allclose(ResponseNorm()(inputs), expected, rtol=1e-5, atol=1e-7)
    one = torch.full((1, 1, 1, 1), 3.0)
    assert ResponseNorm()(one).item() == pytest.approx(3 / (2 + 9e-4) ** 0.75, rel=1e-6)


def test_the_first_stride_suits_the_image() -> None:
    assert [first_stride(side, 300) for side in (21, 34, 35, 62, 63, 224)] == [1, 1, 2, 2, 4, 4]


@pytest.mark.parametrize("side", [SMALLEST, 28, 32, 35, 63, 64])
def test_sizes_from_the_smallest_on(side: int) -> None:
    network = zoo.build(SMALL, (1, side, side + 3), 5).eval()
    logits = network(torch.rand(2, 1, side, side + 3))
    assert logits.shape == (2, 5)
    assert 0.01 < logits.std() < 100  # first weights keep the size of what passes through


def test_wrong_specs() -> None:
    for spec, says in (
        ("alexnet:groups=3", "expected 1, or 2"),
        ("alexnet:width=10", "a multiple of 12"),
        ("alexnet:2", "it takes width=N and groups=N"),
    ):
        with pytest.raises(UserError, match=says):
            zoo.build(spec, (3, 32, 32), 10)
    with pytest.raises(UserError, match=rf"at least {SMALLEST}×{SMALLEST}"):
        zoo.build("alexnet", (3, SMALLEST - 1, 32), 10)


def test_a_fleet_of_them_learns_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, shape, generator = "alexnet:width=12,groups=2", (1, 21, 21), torch.Generator().manual_seed(0)
    images = torch.rand(2, 4, *shape, generator=generator)
    labels = torch.randint(0, 3, (2, 4), generator=generator)
    after = {}
    for how in ("mapped", "looped"):
        monkeypatch.setattr(Fleet, "how", how)
        networks = [fresh_module(spec, shape, 3, seed) for seed in (1, 2)]
        fleet = Fleet(networks, [1, 2], device=torch.device("cpu"), rate=1e-3)
        losses = [fleet.step(images, labels, step) for step in range(2)]
        after[how] = (torch.stack(losses), fleet.predict(images[0]))
    for mapped, looped in zip(*after.values(), strict=True):
        assert torch.allclose(mapped, looped, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(after["looped"][1][0], fresh_module(spec, shape, 3, 1).eval()(images[0]))


def test_it_trains_into_a_basket(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (32, 1, 21, 21), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    data = Dataset("noise", "train", images, torch.arange(32) % 2, ("a", "b"))
    [entry] = train(SMALL, data, out=tmp_path / "basket", epochs=1, batch=16, device="cpu", quiet=True)
    [again] = load_folder(tmp_path / "basket")
    pixels = torch.rand(4, 1, 21, 21)
    assert torch.equal(entry.module.eval()(pixels), again.module(pixels))
