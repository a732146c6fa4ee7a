"""The Inception network: GoogLeNet's modules and widths, and auxiliary heads that take part in training alone."""

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
from foible.networks.losses import cross_entropy
from foible.networks.zoo.inception import MODULES, Inception
from foible.networks.zoo.layers import Dropout
from foible.recipes.train.train import train

SPEC = "inception:modules=3,width=4"
SHAPE = (3, 16, 16)


def test_full_width_modules_are_googlenets() -> None:
    """Szegedy et al., Table 1: output depths of the nine modules, and their parameters without the biases."""
    with torch.device("meta"):
        network = Inception((3, 224, 224), 1000, width=64)
    depths = {name: block.after for name, block in network.blocks.items()}
    assert list(depths.values()) == [256, 480, 512, 512, 512, 528, 832, 832, 1024]
    assert list(network.heads) == ["4a", "4d"]
    weights = sum(w.numel() for layer in network.blocks["3a"].modules() if isinstance(layer, nn.Conv2d)
                  for w in layer.parameters())  # fmt: skip
    assert weights == 192 * (64 + 96 + 16 + 32) + 9 * 96 * 128 + 25 * 16 * 32
    assert network.output.in_features == 1024
    assert [layer.p for layer in network.modules() if isinstance(layer, Dropout)] == [0.7, 0.7, 0.4]


def test_a_module_sets_its_branches_side_by_side() -> None:
    network = zoo.build("inception:width=8", (3, 32, 32), 10).eval()
    block = network.blocks["3a"]
    inputs = torch.rand(2, 24, 16, 16)
    outputs = block(inputs)
    one, _, three, _, five, pool = (number // 8 for number in MODULES["3a"])
    parts = outputs.split([one, three, five, pool], 1)
    assert torch.allclose(parts[0], block.one(inputs))
    assert torch.allclose(parts[1], block.three(inputs))
    assert torch.allclose(parts[2], block.five(inputs))
    assert torch.allclose(parts[3], block.pool(F.max_pool2d(inputs, 3, 1, 1)))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 16, 16), (3, 17, 40), (3, 64, 64)])
def test_any_size_from_16_and_the_main_head_alone_in_eval(shape: tuple[int, int, int]) -> None:
    network = zoo.build(SPEC, shape, 7)
    trained = network(torch.rand(2, *shape))
    assert [one.shape for one in trained] == [(2, 7)] * 3
    judged = network.eval()(torch.rand(2, *shape))
    assert judged.shape == (2, 7)


def test_specs() -> None:
    assert zoo.name_of("inception:modules=3,width=8") == "inception-modules-3-width-8"
    assert len(zoo.build("inception", (3, 16, 16), 2).blocks) == 9
    for spec, says in (
        ("inception:modules=4", "expected 9"),
        ("inception:8", "it takes width=N and modules=N"),
        ("inception:width=0", "expected 1 to"),
    ):
        with pytest.raises(UserError, match=says):
            zoo.build(spec, (3, 32, 32), 10)
    with pytest.raises(UserError, match="at least 16×16"):
        zoo.build("inception", (3, 15, 32), 10)


def test_the_loss_of_auxiliary_heads_counts_three_tenths() -> None:
    main, first, second = torch.randn(3, 2, 5, 4).unbind(0)
    labels = torch.randint(0, 4, (2, 5))
    together = cross_entropy((main, first, second), main, labels)
    for row in range(2):
        parts = [F.cross_entropy(one[row], labels[row]) for one in (main, first, second)]
        assert together[row].item() == pytest.approx((parts[0] + 0.3 * parts[1] + 0.3 * parts[2]).item(), rel=1e-6)


@pytest.mark.parametrize("how", ["mapped", "looped"])
def test_together_is_as_alone(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a plain loop in PyTorch, with the fleet's own dropout masks."""
    monkeypatch.setattr(Fleet, "how", property(lambda _: how))
    seeds = [4, 9]
    networks = [fresh_module(SPEC, SHAPE, 5, seed).double() for seed in seeds]
    fleet = Fleet(networks, seeds, device=torch.device("cpu"), rate=1e-3)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, 2, 8, *SHAPE, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 5, (2, 2, 8), generator=generator)
    for step in range(2):
        fleet.step(images[step], labels[step], step)
    for row, network in enumerate(networks):
        network.train()
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
        for step in range(2):
            for name, mask in fleet._noise(step, 8).items():
                layer = network.get_submodule(name.removesuffix(".noise"))
                assert isinstance(layer, Dropout)
                layer.noise = mask[row]
            main, *others = (F.cross_entropy(one, labels[step, row]) for one in network(images[step, row]))
            optimiser.zero_grad()
            (main + 0.3 * sum(others)).backward()
            optimiser.step()
        state = fleet.state_dict(row)
        for name, value in network.state_dict().items():
            assert torch.allclose(state[name].double(), value.double(), rtol=1e-5, atol=1e-7), name
        before = fresh_module(SPEC, SHAPE, 5, seeds[row]).state_dict()["heads.3a.output.weight"]
        assert not torch.allclose(state["heads.3a.output.weight"].float(), before)  # auxiliary heads learn
        assert torch.allclose(fleet.predict(images[0, 0])[row], network.eval()(images[0, 0]), rtol=1e-5)


def test_a_basket_of_them_goes_to_disk_and_back(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (48, *SHAPE), generator=generator, dtype=torch.uint8)
    data = Dataset("noise", "train", images, torch.arange(48) % 3, ("a", "b", "c"))
    [entry] = train(
        SPEC, data, out=tmp_path / "basket", epochs=1, batch=16, augment="paper?flip=true", device="cpu", quiet=True
    )
    [again] = load_folder(tmp_path / "basket")
    pixels = torch.rand(4, *SHAPE)
    assert torch.equal(entry.module.eval()(pixels), again.module(pixels))
