"""The papers' networks, built from short specs: `mlp:30`, `mlp:100-100,sigmoid`, `resnet:20,width=8`."""

from foible.networks.zoo.build import FAMILIES, autoencoder_for, build, family_of, name_of

__all__ = [
    "FAMILIES",
    "autoencoder_for",
    "build",
    "family_of",
    "name_of",
]
