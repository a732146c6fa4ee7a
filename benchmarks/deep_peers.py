"""The peers of `benchmarks.deep`, where they are installed: adv-lib's attacks for curves, torchattacks' AutoAttack."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.distort_toolkits import _stand_ins
from foible.basket import Basket
from foible.search.nearest import Model

Peer = Callable[[Model, Tensor, Tensor, Tensor | None], Tensor]


class AsModule(nn.Module):
    """A model as a toolkit wants it: it asks the first parameter where it lives."""

    def __init__(self, model: Model, device: torch.device) -> None:
        super().__init__()
        self.ask = (model,)
        self.place = nn.Parameter(torch.zeros(1, device=device), requires_grad=False)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.ask[0](images)


def peers_of(norm: str, targeted: bool, quick: bool, classes: int) -> dict[str, Peer]:
    """Attacks by name, each `(model, images, labels, targets) -> images`; none, with a line, without adv-lib. ALMA
    and APGD compare three logits, and cannot be asked about two."""
    if importlib.util.find_spec("adv_lib") is None:
        print("adv-lib is not installed (pip install --no-deps adv-lib): its points are left out")
        return {}
    with _stand_ins():
        from adv_lib.attacks import alma, ddn, fmn  # type: ignore[import-untyped]
        from adv_lib.attacks.auto_pgd import minimal_apgd  # type: ignore[import-untyped]

    order = 2 if norm == "l2" else float("inf")

    def run(attack: Any, **options: Any) -> Peer:
        def peer(model: Model, images: Tensor, labels: Tensor, targets: Tensor | None) -> Tensor:
            aims = labels if targets is None else targets
            made: Tensor = attack(AsModule(model, images.device), images, aims, targeted=targets is not None, **options)
            return made

        return peer

    steps = (100, 1000) if quick else (30, 100, 1000)
    firsts = (0.1,) if quick else (0.1, 1.0)
    peers = {
        f"FMN, {count}, first step {first:g}": run(fmn, norm=order, steps=count, α_init=first)
        for count in steps
        for first in (firsts if count <= 100 else firsts[:1])
    }
    if norm == "l2" and not quick:
        peers |= {f"DDN, {count}": run(ddn, steps=count) for count in (100, 1000)}
        if not targeted and classes > 2:
            peers["ALMA, 1000"] = run(alma, num_steps=1000, init_lr_distance=0.1)
    if not targeted and not quick and classes > 2:
        most = 1.0 if norm == "l2" else 0.05
        for count in (10, 30):
            peers[f"APGD bisection, {count} × 12"] = run(
                minimal_apgd, norm=order, max_eps=most, binary_search_steps=12, n_iter=count
            )
    return peers


def auto_attack(basket: Basket, name: str, images: Tensor, labels: Tensor, eps: float) -> Tensor:
    """What AutoAttack's standard ensemble (as torchattacks has it) makes of images, within eps in the maximum norm."""
    from torchattacks import AutoAttack  # type: ignore[import-untyped]

    network = AsModule(lambda x: basket.judge(x, [name])[0], images.device)
    attack = AutoAttack(network, norm="Linf", eps=eps, version="standard", n_classes=len(basket.classes), seed=0)
    made: Tensor = attack(images, labels)
    return made
