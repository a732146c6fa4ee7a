"""The features of a network: what its last layer with weights is given."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from foible.errors import UserError

if TYPE_CHECKING:
    from foible.networks.load.specs import Network


class Backbone(nn.Module):
    """A frozen network up to the input of `layer`: images (n, channels, height, width) to features (n, d).

    Probes of one backbone share this module, and asked in turn about one tensor they share its features too.
    """

    def __init__(self, network: Network, layer: str | None) -> None:
        super().__init__()
        self.network = network.eval().requires_grad_(False) if isinstance(network, nn.Module) else network
        self.layer = layer
        self._held = threading.local()  # a basket may judge in several threads
        if layer is not None:
            assert isinstance(network, nn.Module)
            # For good, not for a while (`basket.hooks`): the hook is part of the network, pickled with it.
            network.get_submodule(layer).register_forward_pre_hook(self._catch, with_kwargs=True)

    def _catch(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        del module
        self._held.input = next(iter((*given, *named.values())))

    def forward(self, images: Tensor) -> Tensor:
        capturing = images.is_cuda and torch.cuda.is_current_stream_capturing()
        if torch.is_grad_enabled() or images.is_inference() or capturing:
            return self._features(images)
        state = (images._version, torch.is_autocast_enabled(images.device.type))
        image, known, features = getattr(self._held, "last", (lambda: None, None, images))
        if image() is not images or known != state:
            features = self._features(images)
            self._held.last = weakref.ref(images), state, features
        return features

    def _features(self, images: Tensor) -> Tensor:
        answers = self.network(images)
        if self.layer is None:
            return answers.flatten(1)
        assert isinstance(self.network, nn.Module)
        inputs: Tensor = self._held.input
        del self._held.input
        if len(inputs) != len(images):
            raise UserError(f"layer {self.layer!r} saw {len(inputs)} of {len(images)} images: add ,features=logits")
        return _one_row_each(inputs, self.network.get_submodule(self.layer))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_held"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._held = threading.local()


def is_convolution(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d)


def _one_row_each(inputs: Tensor, layer: nn.Module) -> Tensor:
    """The input of a layer as (n, features): its mean over positions, or all of it where one window covers it."""
    if not is_convolution(layer):
        return inputs if inputs.ndim == 2 else inputs.flatten(1, -2).mean(1)
    if tuple(inputs.shape[2:]) == layer.kernel_size:
        return inputs.flatten(1)
    return inputs.flatten(2).mean(2)
