"""CPPNs on a GPU: the kernel draws what a CPU draws, and an evolution there holds on a CPU. Needs CUDA."""

from __future__ import annotations

import pytest
import torch

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.images import decode_png, to_floats
from foible.randomness import uniforms
from foible.spaces.cppn import Cppn, Genomes, kernel

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 20, 33)])
def test_the_kernel_draws_what_a_cpu_draws(shape: tuple[int, int, int]) -> None:
    cppn, lanes = Cppn(), torch.arange(500)
    genomes = cppn.fresh(lambda what, count: uniforms(0, lanes, 0, stream=what, count=count), shape)
    there = Genomes(*(field.cuda() for field in genomes))
    for step in range(1, 25):
        drawn = {}
        for device in ("cpu", "cuda"):
            own = lanes.to(device)
            drawn[device] = lambda what, count, own=own, step=step: uniforms(0, own, step, stream=what, count=count)
        genomes = cppn.children(genomes, genomes, drawn["cpu"], shape)
        there = cppn.children(there, there, drawn["cuda"], shape)
    for a, b in zip(genomes, there, strict=True):
        torch.testing.assert_close(a, b.cpu(), atol=1e-5, rtol=1e-5)
    assert kernel.works(there.weight)
    here = Genomes(*(field.cpu() for field in there))
    far = (cppn.render(here, shape) - cppn.render(there, shape).cpu()).abs()
    assert float((far > 0.01).float().mean()) < 0.002  # a sine of hundreds, and hues that jump
    assert float(far.mean()) < 1e-3


def test_what_fools_on_a_gpu_fools_on_a_cpu() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 8, 5), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 24 * 24, 10)]
    network = torch.nn.Sequential(*layers)
    with torch.no_grad():
        network[3].weight.mul_(20)
    images = torch.randint(0, 256, (16, 1, 28, 28), dtype=torch.uint8)
    data = Dataset("memory", "test", images, torch.arange(16) % 10, tuple("0123456789"))
    baskets = [
        Basket({"net": network}, classes=data.classes, shape=(1, 28, 28), device=one, preprocess="inside")
        for one in ("cuda", "cpu")
    ]
    findings = foible.fool(baskets[0], data, runs=8, generations=30, confidence=0.3, quiet=True)
    found = findings.filter(outcome="found")
    assert len(found) > 10
    for row in found:
        said = baskets[1].judge(to_floats(decode_png(row["image"]))[None])[0, 0].softmax(0)
        assert int(said.argmax()) == row["target"]
        assert float(said[row["target"]]) >= 0.3 - 1e-4
