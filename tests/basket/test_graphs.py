"""Small batches as CUDA graphs, and the compiled warp: the same answers as without. Needs CUDA, but for the first."""

import pytest
import torch
from torch import nn

from foible import warping, warping_gpu
from foible.basket import Basket
from foible.basket.graphs import DEEP, OFTEN, ROWS, VALUES, Graphs, _rounded
from foible.basket.padding import rounded

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def _network(layers: int = DEEP) -> nn.Module:
    torch.manual_seed(0)
    begin = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 36, 5)]
    return nn.Sequential(*begin, *(nn.Hardtanh(-9, 9) for _ in range(layers - len(begin)))).eval()


def test_a_cpu_is_asked_in_the_ordinary_way():
    graphs = Graphs()
    with torch.no_grad():
        assert graphs.answer(_network(), torch.rand(4, 3, 8, 8)) is None
    assert not graphs.asked


def test_few_sizes_and_never_much_more_than_was_asked():
    sizes = [_rounded(rows) for rows in range(1, 2000)]
    assert all(rows <= size <= max(16, 1.5 * rows) for rows, size in enumerate(sizes, 1))
    assert len(set(sizes)) < 16
    assert _rounded(ROWS) == ROWS


def test_a_gpu_is_shown_few_sizes_of_batches():
    assert rounded(301, torch.device("cpu")) == 301
    gpu = torch.device("cuda")
    sizes = {rows: rounded(rows, gpu) for rows in range(1, 4097)}
    assert all(rows <= size <= max(rows + 15, 1.13 * rows) for rows, size in sizes.items())
    assert len(set(sizes.values())) < 70
    assert rounded(100_001, gpu) == 100_001


def test_a_cpu_warps_in_the_ordinary_way():
    images, matrix = torch.rand(2000, 1, 28, 28), torch.eye(2, 3).expand(2000, 2, 3)
    assert not warping_gpu.fits(images, matrix)


@needs_cuda
@pytest.mark.parametrize("rows", [1, 16, 21, 48, 49, 300, VALUES // 192 + 1])
def test_recorded_answers_are_the_networks_own(rows):
    basket = Basket({"a": _network()}, classes=list("abcde"), preprocess="inside", device="cuda")
    with torch.no_grad():
        for seed in range(2 * OFTEN):
            images = torch.rand(rows, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).cuda()
            told = basket.judge(images)[0]
            assert torch.allclose(told, basket.network("a")(images), atol=1e-4)
    recorded = basket._answering.graphs.recorded
    assert bool(recorded) == (rows * 192 <= VALUES)
    assert all(graph is not None for graph in recorded.values())


@needs_cuda
def test_recorded_answers_in_bfloat16():
    basket = Basket({"a": _network()}, classes=list("abcde"), preprocess="inside", device="cuda")
    with torch.no_grad():
        for seed in range(2 * OFTEN):
            images = torch.rand(40, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).cuda()
            told = basket.judge(images, precision="bf16")[0]
            assert torch.allclose(told, basket.network("a")(images), atol=0.05)
    assert len(basket._answering.graphs.recorded) == 1


@needs_cuda
def test_networks_side_by_side_say_what_each_says_alone():
    networks = {name: _network(DEEP + 7 * place) for place, name in enumerate("abcd")}
    for place, network in enumerate(networks.values()):
        network[3].weight.data += 0.1 * place
    basket = Basket(networks, classes=list("abcde"), preprocess="inside", device="cuda")
    with torch.no_grad():
        for seed in range(5 * OFTEN):
            rows = 16 + 37 * (seed % 4)
            images = torch.rand(rows, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).cuda()
            told = basket.judge(images)
            alone = torch.stack([basket.network(name)(images) for name in basket.names])
            assert torch.allclose(told, alone, atol=1e-4)
    assert len(basket._beside.streams) == 4
    assert len(basket._answering.graphs.pools) == 4


@needs_cuda
def test_what_few_kernels_do_is_not_recorded():
    basket = Basket({"a": _network(DEEP - 1)}, classes=list("abcde"), preprocess="inside", device="cuda")
    with torch.no_grad():
        for _ in range(2 * OFTEN):
            basket.judge(torch.rand(16, 3, 8, 8).cuda())
    assert not basket._answering.graphs.recorded


@needs_cuda
def test_a_network_that_looks_at_its_answers_is_asked_in_the_ordinary_way():
    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Identity() for _ in range(DEEP))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            total = float(images.sum())  # a copy to the CPU: cannot be recorded
            return images.flatten(1)[:, :5] * (1.0 if total > 0 else 2.0)

    basket = Basket({"a": Looking()}, classes=list("abcde"), preprocess="inside", device="cuda")
    images = torch.rand(16, 3, 8, 8).cuda()
    with torch.no_grad():
        for _ in range(2 * OFTEN):
            assert torch.equal(basket.judge(images)[0], images.flatten(1)[:, :5])


@needs_cuda
def test_gradients_go_the_ordinary_way():
    basket = Basket({"a": _network()}, classes=list("abcde"), preprocess="inside", device="cuda")
    for _ in range(2 * OFTEN):
        images = torch.rand(16, 3, 8, 8).cuda().requires_grad_()
        assert basket.judge(images).requires_grad


@needs_cuda
@pytest.mark.parametrize("shape", [(2000, 1, 28, 28), (300, 3, 40, 61)])
def test_compiled_and_plain_warps_agree(shape, monkeypatch):
    torch.manual_seed(0)
    images = torch.rand(shape).cuda()
    matrix = (torch.eye(2, 3) + 0.3 * torch.randn(shape[0], 2, 3)).cuda()
    matrix[:, :, 2] *= 20
    assert warping_gpu.fits(images, matrix)
    compiled = warping.warp(images, matrix)
    monkeypatch.setattr(warping, "fits", lambda *_: False)
    assert torch.allclose(compiled, warping.warp(images, matrix), atol=1e-4)
