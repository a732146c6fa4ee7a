"""What one network of a basket answers to prepared images, and whether that is logits.

A network is met when it is first asked (`networks/habits.py`), and then asked as its habits allow: as a recorded graph,
by a copy made for searching, or itself; on a CPU with a pixel's channels side by side, and a cache full of images at a
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from foible.basket.folded import folded
from foible.basket.graphs import Graphs
from foible.basket.padding import CACHED
from foible.basket.quick import Quick
from foible.errors import UserError
from foible.images import pixels_together
from foible.networks.habits import ONE_AT_A_TIME, Habits, Network, ask, ask_again, meet, takes_together, version
from foible.networks.one_logit import two_classes

# What is judged is judged in float32. Searches may ask copies of networks: on a GPU "folded" ones, whose float32 has
# other last bits, or, by the user's choice, some in bfloat16.
Precision = Literal["float32", "folded", "bf16"]
ALIKE = 1e-4  # of the largest logit: by how much a folded copy may differ


class Answering:
    """Asks networks by name, and keeps what it learnt of each."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.graphs = Graphs()
        self.habits: dict[str, Habits] = {}  # of the networks that have been asked
        self.copies: dict[tuple[str, Precision], nn.Module | None] = {}  # for searching; None: cannot be copied so
        self.heavy: dict[str, bool] = {}  # whether it has convolutions, or many layers

    def __call__(self, name: str, network: Network, prepared: Tensor, known: int, precision: Precision) -> Tensor:
        """Logits (n, known) of images that are preprocessed already; `known` is how many classes its list has."""
        rows = len(prepared)
        quick = None
        if precision == "bf16" or (precision == "folded" and prepared.is_cuda and not torch.is_grad_enabled()):
            quick = self._copy(name, network, prepared, precision)
        if precision != "bf16" or quick is not None:
            logits = self._asked(name, quick or network, prepared)
        else:
            with torch.autocast(self.device.type, torch.bfloat16):
                logits = self._asked(name, network, prepared)
        if known == 2:
            logits = two_classes(logits, rows)
        if not isinstance(logits, Tensor):
            given = f"returned {type(logits).__name__}: expected a tensor of logits (n, classes)"
        elif logits.ndim != 2 or len(logits) != rows:
            given = f"returned shape {tuple(logits.shape)} for {rows} images: expected {(rows, known)}"
        elif logits.shape[1] != known:
            given = (
                f"gives {logits.shape[1]} numbers an image, its list has {known} classes: give the list it was trained "
                "with (classes=FILE)"
            )
        elif not logits.is_floating_point() or logits.layout != torch.strided or logits.device != prepared.device:
            given = (
                f"returned {logits.dtype}, {logits.layout}, on {logits.device}: expected logits of floating point, "
                f"dense, on {prepared.device} as its images"
            )
        else:
            return logits.detach() if logits.requires_grad and not torch.is_grad_enabled() else logits
        raise UserError(f"network {name!r} {given}")

    def parts(self, name: str, network: Network, prepared: Tensor) -> Sequence[Tensor]:
        """The images that a network is shown at once: on a CPU as many as what it computes of them stays in a cache,
        where it computes much. Its answers are the same bits."""
        many = -(-len(prepared) // CACHED)
        if self.device.type != "cpu" or many < 2 or not isinstance(network, nn.Module):
            return (prepared,)
        if name not in self.heavy:
            convolves = any(isinstance(part, _ConvNd) for part in network.modules())
            self.heavy[name] = convolves or self.graphs.is_deep(network)
        return prepared.tensor_split(many) if self.heavy[name] else (prepared,)

    def _copy(self, name: str, network: Network, prepared: Tensor, precision: Precision) -> nn.Module | None:
        """The copy of a network that searches ask; None where it holds something between two calls, or cannot be copied
        or asked so, or has not been met."""
        if name not in self.habits:
            return None
        key = name, precision
        if key not in self.copies:
            made = None
            if isinstance(network, nn.Module) and not self.habits[name].keeps:
                try:
                    whole = folded(network) if prepared.is_cuda else None
                    made = Quick(whole or network) if precision == "bf16" else _alike(whole, network, prepared)
                    if made is not None:
                        made(prepared)
                        self.graphs.deep[id(made)] = self.graphs.is_deep(network)
                except Exception:  # whatever it was, it says it better when it is asked itself
                    made = None
            self.copies[key] = made
        return self.copies[key]

    def _asked(self, name: str, network: Network, prepared: Tensor) -> Any:
        """What the network itself says, and nothing that it does to the images or to its answer later is seen."""
        what = f"network {name!r}"
        if name not in self.habits:
            with ONE_AT_A_TIME:
                if name not in self.habits:
                    logits, habits = meet(network, prepared, what)
                    if self.device.type == "cpu" and not habits.keeps:
                        habits.together = takes_together(network, prepared, logits)
                    self.habits[name] = habits
                    if not habits.together:
                        return logits
        habits, module = self.habits[name], isinstance(network, nn.Module)
        logits = self.graphs.answer(network, prepared) if isinstance(network, nn.Module) and not habits.keeps else None
        if logits is not None:
            return logits
        if habits.together:
            prepared = pixels_together(prepared)
        own = prepared.clone() if habits.copies and not module else prepared  # a module copies by itself
        before = version(prepared)
        if habits.keeps:
            logits = ask_again(network, own, what, habits)
        else:
            logits = ask(network, own, what)
            if not module and isinstance(logits, Tensor):
                logits = logits.clone()  # it may write its next answer into the same memory
        if version(prepared) != before:
            raise UserError(
                f"{what} changed the images that it was given (in place), and did not when it was first asked: "
                "what the others say would be wrong; let its forward begin with images = images.clone()"
            )
        return logits


def _alike(made: nn.Module | None, network: nn.Module, prepared: Tensor) -> nn.Module | None:
    """The copy, if it says the same of these images."""
    if made is None:
        return None
    ours, theirs = made(prepared), network(prepared)
    least = ALIKE * theirs.abs().amax().clamp_min(1)
    return made if ours.shape == theirs.shape and bool(((ours - theirs).abs() <= least).all()) else None
