"""A layer's output as what is distorted, instead of the image: the rest of the network is then the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from foible.basket import Basket, padded
from foible.basket.hooks import above, activations
from foible.class_names import align
from foible.errors import UserError
from foible.networks.one_logit import two_classes

RANGES: tuple[tuple[tuple[type[nn.Module], ...], float, float], ...] = (  # what layers can give, by their kind
    ((nn.ReLU, nn.Softplus), 0.0, math.inf),
    ((nn.Sigmoid, nn.Softmax), 0.0, 1.0),
    ((nn.ReLU6,), 0.0, 6.0),
    ((nn.Tanh, nn.Softsign), -1.0, 1.0),
)


@dataclass(frozen=True)
class Layer:
    """The part of the first network of a basket that follows a named layer."""

    basket: Basket
    name: str
    image: Tensor  # (1, channels, height, width) in [0, 1]: any one, where everything passes through the layer
    _models: dict[int, Callable[[Tensor], Tensor]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return self.basket.names[0]

    @property
    def network(self) -> nn.Module:
        network = self.basket.network(self.source)
        if not isinstance(network, nn.Module):
            raise UserError(f"network {self.source!r} is no torch.nn.Module: it has no layers to name")
        return network

    @torch.no_grad()
    def points(self, images: Tensor) -> Tensor:
        """(n, …): what the layer gives for images (n, channels, height, width) in [0, 1]."""
        prepared = self.basket.hows[self.source](padded(images))
        return activations(self.network, self.name, prepared)[: len(images)]

    def model(self, points: Tensor) -> Tensor:
        """Logits (n, classes) of what the layer gives; any number of rows."""
        values, known = padded(points), self.basket.lists[self.source]
        rows = len(values)
        if rows not in self._models:
            prepared = self.basket.hows[self.source](self.image)
            self._models[rows] = above(self.network, self.name, prepared.expand(rows, *prepared.shape[1:]))
        logits = self._models[rows](values)
        if len(known) == 2:
            logits = two_classes(logits, rows)  # type: ignore[assignment]
        columns = align(self.basket.classes, known)
        return logits[: len(points), columns].float()

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest that the layer can give; infinite where its kind does not say."""
        module = self.network.get_submodule(self.name)
        return next(((low, high) for kinds, low, high in RANGES if isinstance(module, kinds)), (-math.inf, math.inf))

    @torch.no_grad()
    def check(self, images: Tensor) -> None:
        """Refuse a layer that part of the network goes around: its output would not be all that decides."""
        points = self.points(images)
        ours, theirs = self.model(points), self.basket.judge(images, [self.source])[0]
        if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True):
            raise UserError(
                f"part of network {self.source!r} goes around its layer {self.name!r} (a shortcut): name a layer that "
                "everything passes through, such as the block around it"
            )
