"""Realism: how much an image looks like clean ones, told by something that is not in the basket.

A mistake on noise is worth less than one on an image that a camera could have taken, and the networks under test cannot
be asked which is which. Two ways to tell, both fitted to clean images alone: `patches`, which needs no network, and
`network:SPEC`, which asks one of the user's that is not in the basket.

A score counts in standard deviations of clean held-out images' distances from the typical: 0 is as near as these are on
average, one more or less is ordinary, −5 is unlike any. Resampling by a small warp costs about one; exchanged pixels
cost tens.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from foible.basket import Basket
from foible.errors import UserError
from foible.permission import Permission
from foible.processes import one_thread
from foible.realism.features import Features
from foible.realism.patches import Patches
from foible.realism.separation import Separation, separation

__all__ = ["Realism", "Separation", "check", "fit", "separation"]

LEAST = 8  # clean images; fewer do not tell what is typical
HELD = 4  # every fourth image is held out of the fit, and says what is typical


class Realism(Protocol):
    def score(self, images: Tensor, origins: Tensor | None = None) -> Tensor:
        """(n,) of images (n, channels, height, width) in [0, 1], of the shape it was fitted to; higher is more real.
        origins: what each was made of, the same shape, for what only counts where it is new."""


def check(spec: str) -> None:
    """Refuse what is no kind of realism."""
    network = spec.startswith("network:") and spec != "network:"
    if not network and spec not in ("patches", "none"):
        raise UserError(f"realism is {spec!r}: expected patches, network:SPEC or none")


def fit(
    spec: str,
    images: Tensor,
    *,
    basket: Basket | None = None,
    seed: int = 0,
    trust: bool = False,
    may: Permission | None = None,
) -> Realism | None:
    """Learn what is typical from clean images, uint8 or in [0, 1] (n, channels, height, width); up to 2,000 do.

    spec: "patches", "network:SPEC", or "none". basket: the networks under test, which a held-out network must not be
    one of; its device is worked on. trust: load a network's file that can run code.
    may: which code may be run; without it what `spec` names was typed by the caller.
    None for "none", and for fewer than eight images.
    """
    check(spec)
    may = Permission.typed(spec, trust=trust) if may is None else may
    if spec == "none" or len(images) < LEAST:
        return None
    images = images.to(images.device if basket is None else basket.device)
    held = torch.arange(len(images), device=images.device) % HELD == HELD - 1
    with torch.no_grad(), one_thread():  # so that the same images give the same bits
        if spec == "patches":
            return Patches.fit(images[~held], images[held], seed)
        return Features.fit(spec.removeprefix("network:"), images[~held], images[held], basket, may)
