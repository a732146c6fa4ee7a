"""Spectrum of whole networks: chains, folding, constants of layers without weights, product, growth, files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from small_tasks import linear_task
from torch import Tensor, nn

import foible
from foible import cli
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.inspect.spectrum import spectrum
from foible.inspect.spectrum.bounds import Effort, network_bounds
from foible.inspect.spectrum.calls import trace
from foible.inspect.spectrum.growth import growths, noise_like, stages
from foible.inspect.spectrum.lipschitz import CONTRACTIVE, SLOPES, constant, norm_scale, response_norm
from foible.networks.preprocess import Preprocess
from foible.networks.zoo.alexnet import ResponseNorm
from foible.networks.zoo.resnet import ResNet
from foible.testing import SHAPE, linear_basket, linear_network, linear_trials

CLASSES = ["0", "1", "2"]


class Between(nn.Module):
    """Two linear layers with a function of ours between and after them."""

    def __init__(self, between: Any = lambda x: x, after: Any = lambda x: x) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)
        self.between, self.after = between, after

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.after(self.second(self.between(self.first(images.flatten(1)))))
        return answer


def small(activation: nn.Module | None = None) -> nn.Sequential:
    torch_layers = [
        nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.BatchNorm2d(3), activation or nn.ReLU(inplace=True),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 3),
    ]  # fmt: skip
    network = nn.Sequential(*torch_layers)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator))
        norm = network[1]
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_var is not None
        norm.running_var.copy_(torch.tensor([0.5, 2.0, 4.0]))
    return network.eval()


def images(count: int = 12, seed: int = 0) -> Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(seed))


def basket_of(network: nn.Module, **options: Any) -> Basket:
    return Basket({"net": network}, classes=CLASSES, **({"preprocess": "inside", "shape": SHAPE} | options))


@pytest.mark.parametrize(
    ("network", "why"),
    [
        (Between(), None),
        (Between(lambda x: x.view(-1, 2, 2).flatten(1)), None),
        (Between(torch.relu), "second does not take what first gave"),
        (Between(torch.relu_), "second does not take what first gave"),  # in place, in the same memory
        (Between(after=torch.relu), "the answer is not what second gave"),
        (nn.Identity(), None),
    ],
)
def test_a_chain_is_told_from_what_has_functions_in_it(network: nn.Module, why: str | None) -> None:
    broken = trace(network, torch.rand(16, 1, 2, 2)).broken
    assert (broken is None) if why is None else (broken is not None and why in broken)


def test_layers_that_work_in_place_still_form_a_chain() -> None:
    traced = trace(small(), images())
    assert traced.broken is None
    assert [call.name for call in traced.calls] == ["0", "1", "2", "3", "4", "5"]
    assert [call.outputs for call in traced.calls][-1] == (3,)


def test_a_residual_network_has_bounds_but_no_product() -> None:
    traced = trace(ResNet((1, 8, 8), 3, 8, width=4).eval(), torch.rand(16, 1, 8, 8))
    assert traced.broken is not None
    assert "blocks.0.conv1" in traced.broken
    found = network_bounds(traced, Effort(real=False))
    assert [one.name for one in found][:2] == ["conv + norm", "blocks.0.conv1 + blocks.0.norm1"]
    assert all(one.upper is not None and one.lower is not None for one in found)


def test_a_layer_called_twice_has_two_calls() -> None:
    layer = nn.Linear(3, 3)
    assert [call.name for call in trace(nn.Sequential(layer, nn.ReLU(), layer), torch.rand(16, 3)).calls] == [
        "0", "1", "0#2",
    ]  # fmt: skip


def test_folding_batch_normalisation_is_the_layer_with_scaled_weights() -> None:
    network = small()
    folded = network_bounds(trace(network, images()))
    apart = network_bounds(trace(network, images()), Effort(fold=False))
    assert [one.name for one in folded] == ["0 + 1", "2", "3", "4", "5"]
    assert len(apart) == 6
    scale = norm_scale(network[1])
    assert scale is not None
    assert (apart[1].lower, apart[1].upper) == pytest.approx((float(scale.abs().min()), float(scale.abs().max())))
    merged = small()
    with torch.no_grad():
        convolution = merged[0]
        assert isinstance(convolution, nn.Conv2d)
        convolution.weight *= scale.view(-1, 1, 1, 1).float()
    assert folded[0].upper == pytest.approx(network_bounds(trace(merged, images()), Effort(fold=False))[0].upper)
    assert folded[0].upper is not None
    assert apart[0].upper is not None
    assert apart[1].upper is not None
    assert folded[0].upper < apart[0].upper * apart[1].upper


@pytest.mark.parametrize("kind", [*SLOPES, *(kind for kind in CONTRACTIVE if kind is not nn.Softmax)])
def test_no_activation_is_steeper_than_its_constant(kind: type[nn.Module]) -> None:
    layer = kind()
    x = torch.linspace(-8, 8, 20_001, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(layer(x).sum(), x)
    value, _ = constant(layer, (1,), (1,))
    assert value is not None
    assert 0.97 * value <= float(slope.abs().max()) <= value + 1e-8


def test_overlapping_max_pools_are_not_contractive() -> None:
    """The paper calls max pooling contractive; one bright pixel that four windows share is counted four times."""
    pool = nn.MaxPool2d(3, 2)
    dark = torch.zeros(1, 1, 5, 5)
    bright = dark.clone()
    bright[0, 0, 2, 2] = 1
    assert float((pool(bright) - pool(dark)).norm()) == 2
    assert constant(pool, (1, 5, 5), (1, 2, 2))[0] == 2
    assert constant(nn.MaxPool2d(2), (1, 4, 4), (1, 2, 2))[0] == 1
    assert constant(nn.MaxPool2d(3, 2), (1, 3, 3), (1, 1, 1))[0] == 1  # one window cannot overlap
    assert constant(nn.MaxPool1d(5, 2), (1, 13), (1, 5))[0] == pytest.approx(math.sqrt(3))


def test_mean_pools() -> None:
    assert constant(nn.AvgPool2d(2), (3, 8, 8), (3, 4, 4))[0] == pytest.approx(0.5)
    assert constant(nn.AdaptiveAvgPool2d(1), (3, 4, 4), (3, 1, 1))[0] == pytest.approx(0.25)


@pytest.mark.parametrize("layer", [ResponseNorm(), nn.LocalResponseNorm(5, alpha=1.0, beta=0.75, k=2.0)])
def test_response_normalisation_never_exceeds_its_bound(layer: nn.Module) -> None:
    value, _ = constant(layer, (8, 1, 1), (8, 1, 1))
    assert value == pytest.approx(response_norm(5, 0.75, 2.0))
    assert value is not None
    steepest = 0.0
    for size in (0.1, 3.0, 100.0):
        at = size * torch.randn(1, 8, 1, 1, generator=torch.Generator().manual_seed(1))
        slope: Any = torch.autograd.functional.jacobian(layer, at)
        steepest = max(steepest, float(torch.linalg.matrix_norm(slope.view(8, 8), 2)))
    assert 0.3 * value < steepest <= value


def test_a_layer_that_nobody_knows_leaves_no_product_and_is_named() -> None:
    found = spectrum(basket_of(nn.Sequential(nn.Flatten(), nn.Linear(144, 3), nn.LayerNorm(3))), quiet=True)
    assert found.product is None
    assert found.why == "2: no bound is known for LayerNorm"
    assert "No product bound" in found.words()[0]


def test_the_product_is_attained_by_a_linear_chain() -> None:
    first, second = nn.Linear(144, 144, bias=False), nn.Linear(144, 3, bias=False)
    u, _, v = torch.linalg.svd(torch.randn(3, 144, generator=torch.Generator().manual_seed(0)), full_matrices=False)
    with torch.no_grad():
        first.weight.copy_(2 * torch.eye(144))
        second.weight.copy_(u @ torch.diag(torch.tensor([5.0, 3.0, 1.0])) @ v)
    basket = basket_of(nn.Sequential(nn.Flatten(), first, second), preprocess=Preprocess((0.5,), (0.25,)))
    found = spectrum(basket, quiet=True)
    assert found.product == pytest.approx(4 * 2 * 5, rel=1e-5)
    assert found.real_product == pytest.approx(40, rel=1e-5)
    assert [one.name for one in found.stages] == ["pixels", "1", "2"]
    before = images(4).fill_(0.5)
    grown = growths(basket, "net", before, before + 0.1 * v[0].view(SHAPE), found.stages, chain=True)
    assert [one.distortion for one in grown] == pytest.approx([4, 2, 5, 40], rel=1e-4)
    assert grown[1].noise == pytest.approx(2, rel=1e-4)
    assert grown[2].noise is not None
    assert grown[2].noise < 3
    assert [one.share for one in grown[:3]] == pytest.approx([0, 0, 1], abs=1e-3)


@pytest.mark.parametrize("activation", [nn.ReLU(inplace=True), nn.Sigmoid()])
def test_growth_stays_below_its_bound_and_multiplies_to_the_network(activation: nn.Module) -> None:
    network = small(activation)
    basket = basket_of(network)
    found = stages(network_bounds(trace(network, images())), chain=True)
    assert [(one.first, one.last) for one in found] == [(0, 4), (5, 5)]
    here, there = images(20), images(20, seed=1)
    grown = growths(basket, "net", here, there, found, chain=True)
    assert [one.stage for one in grown] == ["0 + 1", "5", "network"]
    for one, stage in zip(grown, found, strict=False):
        for value in (one.distortion, one.noise):
            assert value is not None
            assert stage.real_upper is not None
            assert 0 < value <= stage.real_upper * 1.001
    for key in ("distortion", "noise", "gain"):
        first, second, whole = (getattr(one, key) for one in grown)
        assert first * second == pytest.approx(whole, rel=1e-4)
    assert grown[1].far == pytest.approx(grown[2].distortion)
    with torch.no_grad():
        change = (network(there) - network(here)).norm(dim=1) / (there - here).flatten(1).norm(dim=1)
    assert grown[2].distortion == pytest.approx(float(change.log().mean().exp()), rel=1e-4)
    assert sum(one.share or 0 for one in grown) == pytest.approx(1)


def test_without_a_chain_each_layer_stands_alone() -> None:
    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(144, 144), nn.Linear(144, 3)

        def forward(self, rows: Tensor) -> Tensor:
            rows = rows.flatten(1)
            answer: Tensor = self.second(F.relu(self.first(rows)) + rows)
            return answer

    basket = basket_of(Skip().eval())
    found = spectrum(basket, quiet=True)
    assert (found.product, found.chain) == (None, False)
    assert found.why is not None
    assert "second does not take what first gave" in found.why
    grown = growths(basket, "net", images(5), images(5, seed=2), found.stages, chain=False)
    assert [one.share for one in grown] == [None, None, None]
    assert all(one.gain is not None for one in grown)


def test_noise_is_as_long_as_the_distortion_and_the_same_in_any_batch() -> None:
    moved = images(6) - images(6, seed=1)
    noise = noise_like(moved, torch.arange(6), seed=0)
    assert noise.flatten(1).norm(dim=1).tolist() == pytest.approx(moved.flatten(1).norm(dim=1).tolist(), rel=1e-5)
    assert torch.allclose(noise_like(moved[4:], torch.arange(4, 6), seed=0), noise[4:])
    assert not torch.allclose(noise_like(moved, torch.arange(6), seed=1), noise)


@pytest.fixture(scope="module")
def data() -> Dataset:
    trials = linear_trials(linear_basket(), 30)
    return Dataset("blobs", "test", trials.seeds, trials.aims, tuple(CLASSES))


def test_growth_along_distortions_of_a_linear_network_and_its_files(data: Dataset, tmp_path: Path) -> None:
    basket = linear_basket()
    found = spectrum(basket, network="B", data=data, images=20, out=tmp_path, quiet=True)
    (layer,) = [one for one in found.bounds if one.weighted]
    grown = found.growth[0]
    assert found.whole is not None
    assert found.product == layer.upper
    assert grown.distortion is not None
    assert grown.noise is not None
    assert layer.upper is not None
    assert grown.noise < grown.distortion <= layer.upper
    assert grown.n == found.settings["images"] == 20
    record = json.loads((tmp_path / "spectrum.json").read_text())
    assert record["growth"][0]["distortion"] == grown.distortion
    assert record["layers"][1]["upper"] == layer.upper
    rows = pq.read_table(tmp_path / "spectrum.parquet").to_pylist()
    assert [row["name"] for row in rows] == [one.name for one in found.bounds]
    assert rows[1]["growth_noise"] == grown.noise
    assert rows[0]["growth_noise"] is None
    for kind in ("png", "svg"):
        assert (tmp_path / f"spectrum.{kind}").stat().st_size > 5000


def test_the_images_are_a_function_of_the_seed(data: Dataset) -> None:
    first, again, other = (
        spectrum(linear_basket(), network="A", data=data, images=5, effort=Effort(seed=seed), quiet=True)
        for seed in (0, 0, 1)
    )
    assert first.growth == again.growth
    assert first.growth != other.growth


def test_growth_along_the_distortions_of_a_run(data: Dataset, tmp_path: Path) -> None:
    """The same images distorted in the same way grow in the same way, whoever did it."""
    basket = linear_basket()
    here = spectrum(basket, network="B", data=data, images=30, quiet=True)
    found = foible.distort(basket, data, source="B", target="any", images=30, lattice=False, out=tmp_path / "run",
                           workers=1, quiet=True)  # fmt: skip
    for run in (found, tmp_path / "run"):
        there = spectrum(basket, run=run, quiet=True)  # the run says which network
        assert there.network == "B"
        assert there.settings["images"] == here.settings["images"] == 30
        assert (there.settings["data"], there.settings["split"]) == ("blobs", "test")
        assert "target any, method closest, l2" in there.settings["distortion"]
        for one, other in zip(there.growth, here.growth, strict=True):
            for key in ("distortion", "noise", "gain"):
                assert getattr(one, key) == pytest.approx(getattr(other, key), rel=1e-4)


def test_the_command_takes_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = linear_task(tmp_path)
    run, out = str(tmp_path / "run"), str(tmp_path / "out")
    foible.distort(task.basket, task.data, source="C", images=6, split="train", out=run, workers=1, quiet=True)
    capsys.readouterr()
    words = ["inspect", "spectrum", "--basket", str(task.basket), "--from", run, "--out", out, "--json"]
    assert cli.run(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["network"] == "C"
    assert told["settings"]["images"] == told["growth"][0]["n"] == 6
    assert told["settings"]["distortion"].startswith("target best, ")


def test_a_run_is_measured_with_its_own_network(data: Dataset) -> None:
    basket = linear_basket()
    found = foible.distort(basket, data, source="B", target="any", images=5, workers=1, quiet=True)
    with pytest.raises(UserError, match="no distortions for 'A'; it has some for B"):
        spectrum(basket, network="A", run=found, quiet=True)
    with pytest.raises(UserError, match="give one of them"):
        spectrum(basket, network="B", run=found, data=data, quiet=True)
    other = Basket({"B": linear_network(7)}, classes=CLASSES, preprocess="inside", shape=SHAPE)
    with pytest.raises(UserError, match="not the one that the run distorted for"):
        spectrum(other, run=found, quiet=True)
    with pytest.raises(UserError, match="expected those of `foible distort`"):
        spectrum(basket, network="A", run=foible.hunt(basket, data, trials=2, workers=1, quiet=True), quiet=True)


def test_what_cannot_be_done_is_said(data: Dataset) -> None:
    with pytest.raises(UserError, match=r"3 networks: say which, --network A \| B \| C"):
        spectrum(linear_basket(), quiet=True)
    with pytest.raises(UserError, match="no network 'D'"):
        spectrum(linear_basket(), network="D", quiet=True)
    with pytest.raises(UserError, match="images is 0"):
        spectrum(linear_basket(), network="A", images=0, quiet=True)
    with pytest.raises(UserError, match="it shows no layers"):
        spectrum(Basket({"f": lambda x: x}, classes=CLASSES, preprocess="inside", shape=SHAPE), quiet=True)
    with pytest.raises(UserError, match="give --data"):
        spectrum(basket_of(small(), shape=None), quiet=True)
    wrong = nn.Linear(144, 3)
    with torch.no_grad():
        wrong.weight.zero_()
        wrong.bias.copy_(torch.tensor([1.0, 0, 0]))
    stubborn = basket_of(nn.Sequential(nn.Flatten(), wrong))
    with pytest.raises(UserError, match="no distortion of 3 images changes what 'net' says"):
        spectrum(stubborn, data=data, images=3, quiet=True)
    with torch.no_grad():
        wrong.weight[0, 0] = 1e-3
    with pytest.raises(UserError, match="no distortion of 3 images changes what 'net' says"):
        spectrum(basket_of(nn.Sequential(nn.Flatten(), wrong)), data=data, images=3, quiet=True)


def test_large_images_are_followed_in_floats() -> None:
    """A row keeps the floats of 12,288 values and fewer, unless it is asked for more."""
    shape, generator = (3, 65, 65), torch.Generator().manual_seed(0)
    network = basket_of(nn.Sequential(nn.Flatten(), nn.Linear(12_675, 3)), shape=shape)
    pixels = torch.randint(0, 256, (8, *shape), generator=generator).to(torch.uint8)
    said = network.predict(pixels)[0].argmax(1)
    found = spectrum(network, data=Dataset("large", "test", pixels, said, tuple(CLASSES)), images=4, quiet=True)
    assert found.growth[0].n == 4
    assert found.settings["mean distortion, l2"] > 0


def test_grey_images_for_three_channels_and_resizing() -> None:
    from foible.inspect.spectrum import pixel_bounds

    three = Preprocess((0.5,) * 3, (0.5, 0.25, 0.5))
    assert pixel_bounds(three, (3, 8, 8))[0].upper == 4
    assert pixel_bounds(three, (1, 8, 8))[0].upper == pytest.approx(4 * math.sqrt(3))
    assert pixel_bounds(Preprocess(size=(8, 8)), (1, 12, 12))[0].upper is None
    assert pixel_bounds(Preprocess(), (1, 12, 12)) == []
