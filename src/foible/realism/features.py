"""Realism by a held-out network: the distance to the nearest clean images in its features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from foible.basket import Basket, padded
from foible.basket.hooks import find_layer
from foible.errors import UserError
from foible.images import to_floats
from foible.networks.features import Backbone
from foible.networks.habits import ask, meet
from foible.networks.load.specs import fingerprint
from foible.networks.preprocess import Preprocess
from foible.networks.probe import open_backbone
from foible.permission import Permission
from foible.realism.typical import Typical, check_shape

NEAREST = 5


@dataclass(frozen=True, eq=False)
class Features:
    """The mean distance to the nearest clean images, in the features of a network: what its last layer is given, or
    its answers where no layer can be seen. bank: (m, d), features of clean images."""

    shape: tuple[int, ...]
    backbone: Backbone
    preprocess: Preprocess
    bank: Tensor
    typical: Typical

    @staticmethod
    def fit(spec: str, images: Tensor, held: Tensor, basket: Basket | None, may: Permission) -> Features:
        channels, height, width = images.shape[1:]
        shape = channels, height, width
        entry, _ = open_backbone(spec, () if basket is None else basket.classes, shape, may)
        known = {} if basket is None else basket.fingerprints
        mark = entry.sha256 or fingerprint(entry.module)
        twins = [name for name in known if known[name] in (mark, fingerprint(entry.module))]
        if twins:
            raise UserError(f"realism network:{spec} is {twins[0]!r} of the basket: give one that is not under test")
        module = entry.module.eval().requires_grad_(False).to(images.device)
        how = entry.preprocess
        if how.size is None and entry.shape:
            how = replace(how, size=entry.shape[1:])
        few = how(padded(to_floats(images[:2])))
        meet(module, few, f"the realism network {entry.name!r}")
        layer = find_layer(module, few, f"network {entry.name!r}")
        bare = Features(shape, Backbone(module, layer), how, images, Typical(images, images))
        bank = bare.features(images)
        return replace(bare, bank=bank, typical=Typical.of(_to_nearest(bare.features(held), bank)))

    def features(self, images: Tensor) -> Tensor:
        """(n, d)"""
        parts = [
            ask(self.backbone, self.preprocess(padded(to_floats(part))), "the realism network")[: len(part)]
            for part in images.split(256)
        ]
        return torch.cat(parts).float()

    @torch.no_grad()
    def score(self, images: Tensor, origins: Tensor | None = None) -> Tensor:  # noqa: ARG002 (it sees borders itself)
        check_shape(images, self.shape)
        if not len(images):
            return torch.empty(0, device=self.bank.device)
        return self.typical.score(_to_nearest(self.features(images.to(self.bank.device)), self.bank))


def _to_nearest(features: Tensor, bank: Tensor) -> Tensor:
    """(n,) mean distance of features (n, d) to the nearest of the bank (m, d)."""
    nearest = min(NEAREST, len(bank))
    return torch.cat(
        [torch.cdist(part, bank).topk(nearest, largest=False).values.mean(1) for part in features.split(256)]
    )
