"""A fleet learns what its members would learn alone, on every path that it can take.

In float64, where "the same" can be asked for tightly: Adam divides each gradient by its own size, so that in float32
a weight whose gradient is mere rounding may go either way. `tests/test_train.py` compares in float32.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.networks import zoo
from foible.networks.fleet import Fleet, members_at_once
from foible.networks.fresh import fresh_module
from foible.networks.loop import order
from foible.networks.losses import sparse_reconstruction
from foible.networks.zoo.attended import Attended
from foible.networks.zoo.convolved import Convolved, is_chain
from foible.networks.zoo.dense import Autoencoder
from foible.networks.zoo.grouped import suits
from foible.networks.zoo.layers import Dropout

CPU = torch.device("cpu")
SHAPE = (1, 12, 12)
STEPS = 4


def modules(spec: str, seeds: list[int]) -> list[nn.Module]:
    return [fresh_module(spec, SHAPE, 5, seed).double() for seed in seeds]


def batch(seed: int, step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * seed + step)
    return torch.rand(8, *SHAPE, generator=generator, dtype=torch.float64), torch.randint(
        0, 5, (8,), generator=generator
    )


def teach(fleet: Fleet, first: int = 0, last: int = STEPS) -> list[Tensor]:
    losses = []
    for step in range(first, last):
        images, labels = zip(*(batch(seed, step) for seed in fleet.seeds), strict=True)
        losses.append(fleet.step(torch.stack(images), torch.stack(labels), step))
    return losses


def close(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    assert first.keys() == second.keys()
    return all(torch.allclose(first[key].double(), second[key].double(), rtol=1e-6, atol=1e-8) for key in first)


def force(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(Fleet, "how", property(lambda _: how))


@pytest.mark.parametrize("how", ["grouped", "convolved", "attended", "mapped", "looped"])
@pytest.mark.parametrize(
    "spec", ["softmax", "mlp:7-6,sigmoid", "mlp:9", "ae:6", "conv", "cnn4", "vit4:patch=6", "resnet:8,width=4"]
)
def test_together_is_as_alone(spec: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a plain PyTorch loop; dropout gets the fleet's own masks there, as nothing else could agree."""
    seeds = [4, 0, 9]
    fleet = Fleet(modules(spec, seeds), seeds, device=CPU, rate=1e-3)
    if how == "grouped" and fleet.dense is None:
        pytest.skip("only fully connected networks are grouped")
    if how == "convolved" and not isinstance(fleet.stacked, Convolved):
        pytest.skip("only chains of convolutions are convolved")
    if how == "attended" and not isinstance(fleet.stacked, Attended):
        pytest.skip("only transformers are attended")
    force(monkeypatch, how)
    losses = torch.stack(teach(fleet))
    for row, seed in enumerate(seeds):
        [network] = modules(spec, [seed])
        network.train()
        trained = [weight for weight in network.parameters() if weight.requires_grad]
        optimiser = torch.optim.Adam(trained, lr=1e-3)
        for step in range(STEPS):
            for name, mask in fleet._noise(step, 8).items():
                layer = network.get_submodule(name.removesuffix(".noise"))
                assert isinstance(layer, Dropout)
                layer.noise = mask[row]
            images, labels = batch(seed, step)
            loss = F.cross_entropy(network(images), labels)
            assert loss.item() == pytest.approx(losses[step, row].item(), rel=1e-6)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert close(fleet.state_dict(row), dict(network.state_dict()))
        network.eval()
        images, _ = batch(99, 0)
        assert torch.allclose(fleet.predict(images)[row], network(images), rtol=1e-6, atol=1e-7)
        own = torch.stack([batch(98, other)[0] for other in range(3)])
        assert torch.allclose(fleet.predict(own)[row], network(own[row]), rtol=1e-6, atol=1e-7), "each its own images"
        if fleet.stacked is not None and how in ("convolved", "attended"):
            rough = fleet.stacked.says(fleet.weights, fleet.buffers, images.expand(3, *images.shape), torch.float32)
            assert torch.allclose(rough[row], network(images), rtol=1e-5, atol=1e-6), "all at once, as in rough looks"
            rough = fleet.stacked.says(fleet.weights, fleet.buffers, own, torch.float32)
            assert torch.allclose(rough[row], network(own[row]), rtol=1e-5, atol=1e-6)


def test_only_chains_of_linear_layers_are_grouped() -> None:
    def dense(*layers: nn.Module) -> bool:
        return suits(nn.Sequential(*layers))

    assert dense(nn.Flatten(), nn.Linear(4, 3))
    assert dense(nn.Flatten(), nn.Linear(4, 3), nn.Linear(3, 3), nn.Sigmoid(), nn.Linear(3, 2))
    assert not dense(nn.Linear(4, 3))
    assert not dense(nn.Flatten(), nn.Linear(4, 3, bias=False))
    assert not dense(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Sigmoid(), nn.Linear(3, 2))
    assert not dense(nn.Flatten(), nn.Linear(4, 3), nn.ReLU())
    assert not dense(nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    assert not suits(nn.Linear(4, 3))


def test_only_plain_chains_of_convolutions_are_convolved() -> None:
    assert [spec for spec in ("conv", "cnn4", "lenet", "mlp:5", "vit4:patch=6", "resnet:8", "softmax")
            if is_chain(zoo.build(spec, SHAPE, 5))] == ["conv", "cnn4", "lenet"]  # fmt: skip

    def chain(*layers: nn.Module) -> bool:
        return is_chain(nn.Sequential(*layers))

    assert chain(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 2))
    assert not chain(nn.Conv2d(2, 2, 3, groups=2), nn.Flatten(), nn.Linear(2, 2))
    assert not chain(nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(2, 2))
    assert not chain(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, affine=False), nn.Flatten(), nn.Linear(2, 2))
    assert not chain(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    assert not chain(nn.BatchNorm2d(1), nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 2))
    assert not chain(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 2, bias=False))
    assert not chain(nn.Conv2d(1, 2, 3), nn.GELU(), nn.Flatten(), nn.Linear(2, 2))
    assert not chain(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 2), nn.Flatten())


def test_groups_fit_the_cache_and_the_threads() -> None:
    small, large = zoo.build("mlp:10", (1, 28, 28), 10), zoo.build("mlp:500", (1, 28, 28), 10)
    assert members_at_once(large, CPU) == torch.get_num_threads()
    assert (members_at_once(small, CPU) or 0) > 32
    assert members_at_once(zoo.build("conv", (1, 28, 28), 10), CPU) == 1
    assert members_at_once(large, torch.device("cuda")) is None


@pytest.mark.parametrize("how", ["mapped", "looped"])
def test_autoencoders_together_are_as_alone(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, how)
    torch.manual_seed(0)
    networks = [Autoencoder(SHAPE, 6).double() for _ in range(2)]
    fleet = Fleet(networks, [0, 1], device=CPU, loss=sparse_reconstruction)
    teach(fleet)
    alone = Fleet(networks[1:], [1], device=CPU, loss=sparse_reconstruction)
    teach(alone)
    assert close(fleet.state_dict(1), alone.state_dict(0))


@pytest.mark.parametrize("spec", ["mlp:5", "conv", "cnn4"])
def test_the_rest_of_a_fleet_goes_on_unchanged(spec: str) -> None:
    whole = Fleet(modules(spec, [0, 1, 2]), [0, 1, 2], device=CPU)
    teach(whole, 0, 4)
    part = Fleet(modules(spec, [0, 1, 2]), [0, 1, 2], device=CPU)
    teach(part, 0, 2)
    part.keep([2, 0])
    assert part.seeds == [2, 0]
    teach(part, 2, 4)
    assert close(part.state_dict(0), whole.state_dict(2))
    assert close(part.state_dict(1), whole.state_dict(0))


@pytest.mark.parametrize("spec", ["mlp:5", "cnn4"])
def test_a_restored_fleet_has_the_same_bits(spec: str) -> None:
    whole = Fleet(modules(spec, [0, 1]), [0, 1], device=CPU)
    teach(whole, 0, 2)
    kept = {name: tensor.clone() for name, tensor in whole.tensors().items()}
    teach(whole, 2, 4)
    again = Fleet(modules(spec, [7, 8]), [0, 1], device=CPU)
    again.restore(kept)
    teach(again, 2, 4)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, again.tensors()[name]), name


def test_masks_depend_on_seed_layer_and_step_alone() -> None:
    fleet = Fleet(modules("conv", [3, 5]), [3, 5], device=CPU)
    [(name, masks)] = fleet._noise(2, 64).items()
    assert name == "dropout.noise"
    assert set(masks.unique().tolist()) == {0.0, 2.0}
    assert masks.mean().item() == pytest.approx(1.0, abs=0.05)
    assert not torch.equal(masks[0], masks[1])
    assert not torch.equal(masks, fleet._noise(3, 64)[name])
    alone = Fleet(modules("conv", [5]), [5], device=CPU)
    assert torch.equal(alone._noise(2, 64)[name][0], masks[1])


def test_frozen_weights_stay() -> None:
    fleet = Fleet(modules("ae:6", [0]), [0], device=CPU, weight_decay=0.1)
    before = fleet.state_dict(0)
    teach(fleet)
    after = fleet.state_dict(0)
    assert torch.equal(before["encoder.weight"], after["encoder.weight"])
    assert not torch.equal(before["output.weight"], after["output.weight"])


def test_first_weights_depend_on_spec_and_seed_alone() -> None:
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = fresh_module("mlp:4", SHAPE, 5, 0).state_dict()
    assert torch.equal(state, torch.random.get_rng_state())
    torch.manual_seed(2)
    again, other = fresh_module("mlp:4", SHAPE, 5, 0).state_dict(), fresh_module("mlp:4", SHAPE, 5, 1).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not any(torch.equal(first[key], other[key]) for key in first)


def test_orders_are_permutations_of_their_own() -> None:
    orders = order(torch.tensor([0, 7]), 3, 500)
    assert torch.equal(orders.sort(1).values, torch.arange(500).expand(2, 500))
    assert not torch.equal(orders[0], orders[1])
    assert torch.equal(order(torch.tensor([7]), 3, 500)[0], orders[1])
    assert not torch.equal(order(torch.tensor([7]), 4, 500)[0], orders[1])
