"""What the trainings of generators share: who learns, noise as a function of (seed, step), optimisers on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from foible.generators.base import Drawer
from foible.networks.loop import Turn
from foible.randomness import normals

Draw = Callable[[str], Tensor]  # from what it is for ("code", "sample") to standard normal numbers (n, latent)
Optimisers = dict[str, torch.optim.Optimizer]


class Learning(Protocol):
    """How one generator learns, on the device of its weights."""

    modules: nn.ModuleDict
    """The model, and what only training needs."""
    optimisers: Optimisers

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the losses; the first is the one that a user is told."""

    @property
    def model(self) -> Drawer:
        """The generator."""

    def losses(self, images: Tensor, draw: Draw) -> Tensor:
        """(parts,): means over the images (n, *shape) in [0, 1]."""

    def step(self, images: Tensor, draw: Draw, turn: Turn, share: float) -> Tensor:
        """Learn from these images; the losses (parts,) before the step. share: of the training that is done."""


def drawer(model: Drawer, count: int, seed: int, step: int, device: torch.device) -> Draw:
    """Noise for `count` images in one step."""
    lanes = torch.arange(count, device=device)
    return lambda purpose: normals(seed, lanes, step, stream=f"generator.{purpose}", count=model.latent)


def lower(loss: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """One step of one optimiser down one loss; what is not its own gets no gradient."""
    optimiser.zero_grad()
    loss.backward(inputs=[weight for group in optimiser.param_groups for weight in group["params"]])
    optimiser.step()


def steepness(discriminator: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Half the mean square of a discriminator's slopes at real images (n, …). Where they cost it something, it goes on
    telling the decoder what to do: one that is certain of everything has no slope (Mescheder et al. 2018)."""
    images = images.detach().requires_grad_()
    with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
        said = discriminator(images)
    [slope] = torch.autograd.grad(said.float().sum(), images, create_graph=True)
    return 0.5 * slope.square().sum((1, 2, 3)).mean()


def held(learning: Learning) -> dict[str, Tensor]:
    """All that a training needs to go on: weights, and what the optimisers remember."""
    tensors = dict(learning.modules.state_dict())
    for name, optimiser in learning.optimisers.items():
        for number, memory in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{name}.{number}.{key}": value for key, value in memory.items()}
    return tensors


def restore(learning: Learning, tensors: Mapping[str, Tensor]) -> None:
    """The opposite of `held`. KeyError or RuntimeError where tensors are missing or of other shapes."""
    own = learning.modules.state_dict()
    learning.modules.load_state_dict({name: tensors[name] for name in own})
    for name, optimiser in learning.optimisers.items():
        state: dict[int, dict[str, Tensor]] = {}
        prefix = f"optimiser.{name}."
        for key, value in tensors.items():
            if key.startswith(prefix):
                number, _, what = key.removeprefix(prefix).partition(".")
                state.setdefault(int(number), {})[what] = value
        record = optimiser.state_dict()
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        if set(state) != set(range(len(weights))):
            raise KeyError(f"{prefix}: {len(state)} of {len(weights)}")
        for place, weight in enumerate(weights):
            if any(value.ndim and value.shape != weight.shape for value in state[place].values()):
                raise KeyError(f"{prefix}{place}")
        optimiser.load_state_dict({**record, "state": state})
        for weight in weights:  # laid out as the weights are, which a fused step insists on
            memory = optimiser.state[weight]
            memory |= {what: torch.empty_like(weight).copy_(value) for what, value in memory.items() if value.ndim}
