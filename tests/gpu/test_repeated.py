"""Steps that are recorded as CUDA graphs come to what the same steps come to one by one. Needs CUDA."""

from __future__ import annotations

import pytest
import torch

from foible.generators.build import begin
from foible.generators.learning import drawer
from foible.networks import repeated
from foible.networks.fleet import Fleet
from foible.networks.fresh import fresh_module
from foible.networks.loop import Turn

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
STEPS = 24  # more than one step in which a discriminator pays for its slopes


def test_a_dcgan(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda")
    images = torch.rand(16, 1, 28, 28, generator=torch.Generator().manual_seed(0)).to(device)

    def losses() -> torch.Tensor:
        learning = begin("dcgan?width=8", (1, 28, 28), 0, 2e-4, device)
        learning.modules.train()
        made = []
        for number in range(STEPS):
            turn = Turn(number, torch.zeros(1, 16), 2e-4 * (1 - number / STEPS))
            made.append(learning.step(images, drawer(learning.model, 16, 0, number, device), turn, 0.0).clone())
        return torch.stack(made).cpu()

    recorded = losses()
    monkeypatch.setattr(repeated, "EAGER", STEPS)
    assert torch.allclose(recorded, losses(), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("spec", ["vit4:patch=7", "lenet"])
def test_few_networks(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device, draw = torch.device("cuda"), torch.Generator().manual_seed(0)
    images, labels = torch.rand(2, 32, 1, 28, 28, generator=draw).to(device), torch.randint(0, 10, (2, 32)).to(device)

    def losses() -> torch.Tensor:
        fleet = Fleet([fresh_module(spec, (1, 28, 28), 10, seed) for seed in (0, 1)], [0, 1], device=device)
        made = []
        for number in range(STEPS):
            fleet.set_rate(1e-3 if number < STEPS // 2 else 1e-4)  # a recorded step must hear of it
            made.append(fleet.step(images, labels, number).clone())
        fleet.keep([1])  # and of members that leave
        made.append(fleet.step(images[1:], labels[1:], STEPS).expand(2).clone())
        return torch.stack(made).cpu()

    recorded = losses()
    monkeypatch.setattr(repeated, "EAGER", 10 * STEPS)
    assert torch.allclose(recorded, losses(), rtol=0.05, atol=0.02)
