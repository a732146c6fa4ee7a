"""A network of the zoo with its first weights, which are a function of its spec and a seed."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

from foible.networks import zoo


def fresh_module(
    spec: str, shape: tuple[int, int, int], classes: int, seed: int, *, phase: str = "classify"
) -> nn.Module:
    """The network of `spec` with the first weights of `seed`; the caller's generator is left alone."""
    digest = hashlib.sha256(f"{spec}\n{phase}\n{seed}".encode()).digest()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        if phase == "autoencode":
            autoencoder = zoo.autoencoder_for(spec, shape)
            assert autoencoder is not None
            return autoencoder
        return zoo.build(spec, shape, classes)
