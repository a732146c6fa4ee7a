"""Attention as one kernel says what PyTorch's own says, and has its slopes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from foible.networks.fleet import Fleet
from foible.networks.fresh import fresh_module
from foible.networks.zoo import attention_gpu

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")
SIZES = [(17, 8, 16), (50, 8, 8), (5, 2, 20), (64, 2, 64), (1, 1, 16), (65, 8, 8), (128, 1, 64)]


@pytest.mark.parametrize(("tokens", "heads", "size"), SIZES)
def test_it_is_pytorchs_attention_within_the_rounding_of_bfloat16(tokens: int, heads: int, size: int) -> None:
    torch.manual_seed(0)
    mixed = torch.randn(37, tokens, 3 * heads * size, device=GPU, dtype=torch.bfloat16).requires_grad_()
    assert attention_gpu.fits(mixed, heads)
    exact = mixed.detach().float().requires_grad_()
    parts = exact.view(37, tokens, 3, heads, size).permute(2, 0, 3, 1, 4).unbind(0)
    wanted = F.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(37, tokens, heads * size)
    said = attention_gpu.attend(mixed, heads)
    assert torch.allclose(said.float(), wanted, rtol=0.02, atol=0.03)
    slope = torch.randn_like(said)
    [own] = torch.autograd.grad((said * slope).sum(), mixed)
    [theirs] = torch.autograd.grad((wanted * slope).sum(), exact)
    assert torch.allclose(own.float(), theirs, rtol=0.02, atol=0.05)


def test_what_it_cannot_take_is_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = torch.zeros(1, 17, 3 * 128, device=GPU, dtype=torch.bfloat16)
    assert attention_gpu.fits(mixed, 8)
    assert not attention_gpu.fits(mixed.float(), 8)
    assert not attention_gpu.fits(mixed.cpu(), 8)
    assert not attention_gpu.fits(mixed.new_zeros(1, attention_gpu.MOST + 1, 3 * 128), 8)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    assert not attention_gpu.fits(mixed, 8)


def test_a_fleet_of_transformers_takes_the_same_step_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    images, labels = torch.rand(3, 32, 1, 28, 28, device=GPU), torch.randint(0, 10, (3, 32), device=GPU)
    found = []
    for kernel in (True, False):
        if not kernel:
            monkeypatch.setattr(attention_gpu, "fits", lambda *_: False)
        modules = [fresh_module("vit4:patch=7", (1, 28, 28), 10, seed) for seed in range(3)]
        fleet = Fleet(modules, range(3), device=GPU, rate=1e-3)
        losses = torch.stack([fleet.step(images, labels, number).clone() for number in range(6)])
        found.append(losses)
    assert torch.allclose(*found, rtol=0.05)
    assert (found[0][-1] < found[0][0]).all()
