"""The steps of `closest`: what the state says of a point is true of that point."""

import torch
from torch import nn

from foible.search.nearest.first_order import Aim
from foible.search.nearest.ledger import Ledger
from foible.search.nearest.tangents import start, step


def test_margins_belong_to_their_rivals_also_after_a_step_that_is_taken_back():
    """Thirty classes and nine slots: rivals come and go, and some steps are rejected."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 30)).requires_grad_(False)
    for part in (network[0], network[2]):
        part.weight *= 6
    images = torch.rand(60, 16, generator=torch.Generator().manual_seed(1))
    labels = network(images).argmax(1)
    targets = (labels + 1) % 30
    aim = Aim(network, (16,), images, labels, targets, "l2", 0.0, 1.0, 0.0, Ledger(images))
    state = start(aim, torch.arange(60), targets, images, "l2")
    changed, rejected = 0, 0
    for _ in range(25):
        slots, places = state.slot.clone(), state.z.clone()
        step(aim, state, "l2", 2)
        logits = network(state.z)
        told = logits.gather(1, targets[:, None]) - logits.gather(1, state.slot)
        assert torch.allclose(state.gap, told, atol=1e-4)
        assert all(len(set(row)) == 9 for row in state.slot.tolist())
        changed += int((slots != state.slot).any(1).sum())
        rejected += int((places == state.z).all(1).sum())
    assert changed > 0
    assert rejected > 0
