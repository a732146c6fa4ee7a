"""What clean images' distances are like, in whose terms every score is told."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from foible.errors import UserError


@dataclass(frozen=True, eq=False)
class Typical:
    """What clean distances are like; (n,) distances to scores."""

    mean: Tensor
    spread: Tensor

    @staticmethod
    def of(distances: Tensor) -> Typical:
        return Typical(distances.mean(), distances.std(correction=0).clamp_min(1e-6))

    def score(self, distances: Tensor) -> Tensor:
        return (self.mean - distances) / self.spread


def check_shape(images: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(images.shape[1:]) != shape:
        raise UserError(f"images of shape {tuple(images.shape[1:])}: realism was fitted to images of {shape}")
