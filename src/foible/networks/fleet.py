"""A fleet: networks of one architecture that train together, each as it would alone.

Every weight is stacked over the K members, so that one operation serves all of them. How a step runs:

- grouped: fully connected networks, as batched matmuls over the stacked weights (`grouped.py`);
- convolved: chains of convolutions on a GPU, as grouped convolutions in bfloat16 (`convolved.py`);
- attended: vision transformers on a GPU, as batched matmuls in bfloat16 (`attended.py`);
- mapped: any other network on a GPU, with `torch.func.functional_call` under `vmap`;
- looped: any other network on a CPU, one member after another within each step. There a single convolution
  already fills the cores, and fleets do not pay: `members_at_once` says 1, and `foible train` takes each in turn.

Members never touch: a member's weights depend on its own seed, batches and masks alone, so that they agree to
float tolerance whether it trains alone or in any company. (On a GPU to the tolerance of rounded products: a step may
use TF32, and chains of convolutions and transformers bfloat16. What networks say is float32 again.)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from foible.networks.losses import Loss, cross_entropy
from foible.networks.repeated import Repeated, set_rate
from foible.networks.zoo.attended import Attended
from foible.networks.zoo.convolved import Convolved, is_chain
from foible.networks.zoo.grouped import Grouped, suits
from foible.networks.zoo.layers import Dropout
from foible.networks.zoo.vit import ViT
from foible.randomness import uniforms

CACHE = 8 * 2**20  # bytes
LAUNCHED = 16  # members up to which a GPU waits for kernels to be launched
COARSE = torch.bfloat16  # of convolutions and transformers on a GPU, while training and in looks that leave it open


def members_at_once(module: nn.Module, device: torch.device) -> int | None:
    """How many members it pays to train together; None is all of them.

    On a CPU a step is quickest while weights, gradients and Adam's two averages stay in the cache: as many members
    as fill about 8 MB, but one for each thread. A CPU is busy with one convolutional network at a time.
    """
    if device.type != "cpu":
        return None
    if not suits(module):
        return 1
    threads = torch.get_num_threads()
    size = 4 * sum(weight.numel() * weight.element_size() for weight in module.parameters())
    return max(1, CACHE // (size * threads)) * threads


@contextmanager
def rounded_products(yes: bool) -> Iterator[None]:
    """Whether a GPU may round the factors of its products to 10 bits (TF32), which is several times as quick: it may in
    training, and what a network says is computed in float32."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.allow_tf32, convolutions.allow_tf32
    products.allow_tf32 = convolutions.allow_tf32 = yes
    try:
        yield
    finally:
        products.allow_tf32, convolutions.allow_tf32 = before


class Fleet:
    """K networks, stacked, and their Adam (AdamW where there is weight decay)."""

    def __init__(
        self,
        modules: Sequence[nn.Module],
        seeds: Sequence[int],
        *,
        device: torch.device,
        rate: float = 1e-3,
        weight_decay: float = 0.0,
        loss: Loss = cross_entropy,
        stream: str = "fleet.dropout",
    ) -> None:
        """modules: K networks alike but for their weights. seeds: one number below 2**32 each; dropout draws its
        masks from `stream` with them."""
        self.seeds = list(seeds)
        self.lanes = torch.tensor(self.seeds, device=device)
        self.loss = loss
        self.device = device
        self.stream = stream
        self.template = copy.deepcopy(modules[0]).to("meta")  # its code without its weights
        self.dense = Grouped(self.template) if loss is cross_entropy and suits(modules[0]) else None
        self.stacked = _stacked(self.template)
        weights, buffers = stack_module_state([copy.deepcopy(module).to(device) for module in modules])
        self.weights: dict[str, Tensor] = weights
        self.buffers: dict[str, Tensor] = buffers
        self.trained = [name for name, weight in weights.items() if weight.requires_grad]
        self.dropouts = {name: layer for name, layer in modules[0].named_modules() if isinstance(layer, Dropout)}
        on_gpu = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(
            [weights[name] for name in self.trained], lr=torch.tensor(rate, device=device) if on_gpu else rate,
            weight_decay=weight_decay, fused=True, capturable=on_gpu,
        )  # fmt: skip
        self.recorded = Repeated(self._descend)
        for name in self.trained:
            self.optimiser.state[weights[name]] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(weights[name]),
                "exp_avg_sq": torch.zeros_like(weights[name]),
            }

    @property
    def how(self) -> Literal["grouped", "convolved", "attended", "mapped", "looped"]:
        if self.dense is not None:
            return "grouped"
        if self.device.type == "cpu":
            return "looped"
        if self.stacked is not None:
            return "convolved" if isinstance(self.stacked, Convolved) else "attended"
        return "mapped" if len(self.seeds) > 1 else "looped"

    @property
    def rows_at_once(self) -> int:
        """How many images to ask all members about at a time."""
        if self.how == "convolved":  # one member after another
            return 4096
        if self.how == "attended":
            return min(max(32768 // len(self.seeds), 64), 4096)
        few = min(max(8192 // len(self.seeds), 64), 1024)
        return 1024 if self.how == "grouped" and self.device.type == "cuda" else few

    def set_rate(self, rate: float) -> None:
        """The rate of the steps to come."""
        set_rate(self.optimiser, rate)

    def step(self, images: Tensor, labels: Tensor, number: int) -> Tensor:
        """One step of every member on its own batch: images (K, n, channels, height, width), preprocessed, and
        labels (K, n). `number` counts the steps. Gives the losses (K,) before the step."""
        self.template.train()
        if self.how in ("convolved", "attended") and not self.dropouts and len(self.seeds) <= LAUNCHED:
            return self.recorded(images, labels)
        return self._descend(images, labels, self._noise(number, images.shape[1]))

    def _descend(self, images: Tensor, labels: Tensor, noise: dict[str, Tensor] | None = None) -> Tensor:
        with rounded_products(True):
            if self.how == "looped":
                losses = self._backward_each(images, labels, noise or {})
            elif self.how == "grouped":
                assert self.dense is not None
                losses = self.dense.gradients(self.weights, images, labels)
            else:
                self.optimiser.zero_grad()
                losses = self.loss(self._forward(images, noise or {}), images, labels)
                losses.sum().backward()
        self.optimiser.step()
        return losses.detach()

    @torch.no_grad()
    def predict(self, images: Tensor, *, rough: bool = False) -> Tensor:
        """Logits (K, n, classes) of all members, in eval mode, for the same images (n, channels, height, width), or
        for images of each member's own (K, n, channels, height, width).

        rough: a GPU may round, as in training.
        """
        self.template.eval()
        own = images if images.dim() == 5 else images.unsqueeze(0).expand(len(self.seeds), *images.shape)
        with rounded_products(rough):
            if self.how == "looped":
                return torch.stack([functional_call(self.template, self._member(k), (own[k],)) for k in self._rows()])
            if self.how in ("convolved", "attended") and rough:
                assert self.stacked is not None
                return self.stacked.says(self.weights, self.buffers, own, COARSE)
            if self.how == "convolved":  # single networks judge large batches quicker than grouped convolutions do
                return torch.stack([self._one_by_one(k, own[k]) for k in self._rows()])
            logits: Tensor = self._forward(own, {})
            return logits

    def state_dict(self, row: int) -> dict[str, Tensor]:
        """The weights and buffers of one member, copied to the CPU under the module's own names."""
        return {key: value.detach().to("cpu", copy=True) for key, value in self._member(row).items()}

    def only(self, rows: Sequence[int]) -> Fleet:
        """These members alone, to be asked and not to be taught; of all of them, the fleet itself."""
        if list(rows) == list(self._rows()):
            return self
        part = copy.copy(self)
        index = torch.tensor(rows, dtype=torch.long, device=self.device)
        part.seeds, part.lanes = [self.seeds[row] for row in rows], self.lanes.index_select(0, index)
        part.weights = {name: weight.detach().index_select(0, index) for name, weight in self.weights.items()}
        part.buffers = {name: buffer.index_select(0, index) for name, buffer in self.buffers.items()}
        return part

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these members only."""
        index = torch.tensor(rows, dtype=torch.long, device=self.device)
        self.seeds = [self.seeds[row] for row in rows]
        self.lanes = self.lanes.index_select(0, index)
        states = [self.optimiser.state.pop(self.weights[name]) for name in self.trained]
        self.buffers = {name: buffer.index_select(0, index) for name, buffer in self.buffers.items()}
        for name, weight in self.weights.items():
            self.weights[name] = weight.detach().index_select(0, index).requires_grad_(weight.requires_grad)
        self.optimiser.param_groups[0]["params"] = [self.weights[name] for name in self.trained]
        for name, state in zip(self.trained, states, strict=True):
            averages = {key: state[key].index_select(0, index) for key in ("exp_avg", "exp_avg_sq")}
            self.optimiser.state[self.weights[name]] = {"step": state["step"], **averages}
        self.recorded = Repeated(self._descend)

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step changes, by name: what a checkpoint holds."""
        held = {f"weights.{name}": weight.detach() for name, weight in self.weights.items()}
        held |= {f"buffers.{name}": buffer for name, buffer in self.buffers.items()}
        for name in self.trained:
            state = self.optimiser.state[self.weights[name]]
            held |= {f"adam.{key}.{name}": state[key] for key in ("step", "exp_avg", "exp_avg_sq")}
        return held

    @torch.no_grad()
    def restore(self, held: dict[str, Tensor]) -> None:
        """Take over what `tensors` gave."""
        for name, tensor in self.tensors().items():
            tensor.copy_(held[name])

    def _rows(self) -> range:
        return range(len(self.seeds))

    def _member(self, row: int) -> dict[str, Tensor]:
        """Views of one member's weights and buffers, without gradients."""
        return {name: stack.detach()[row] for name, stack in (self.weights | self.buffers).items()}

    def _noise(self, number: int, n: int) -> dict[str, Tensor]:
        """A dropout mask for each member and layer, a function of (seed, layer, step) alone."""
        masks = {}
        for layer, (name, dropout) in enumerate(self.dropouts.items()):
            drawn = uniforms(0, self.lanes, number, member=layer, stream=self.stream, count=n * dropout.features)
            kept = (drawn >= dropout.p).to(torch.float32) / (1 - dropout.p)
            masks[f"{name}.noise" if name else "noise"] = kept.view(len(self.seeds), n, dropout.features)
        return masks

    def _forward(self, images: Tensor, noise: dict[str, Tensor]) -> Any:
        """images: (K, n, …). The outputs of the network with K in front."""
        if self.how == "grouped":
            assert self.dense is not None
            return self.dense.forward(self.weights, images)
        if self.how in ("convolved", "attended"):
            assert self.stacked is not None
            coarse = COARSE if self.device.type == "cuda" and torch.is_grad_enabled() else None
            return self.stacked.forward(self.weights, self.buffers, images, noise, coarse)

        def one(weights: dict[str, Tensor], buffers: dict[str, Tensor], batch: Tensor) -> Any:
            return functional_call(self.template, {**weights, **buffers}, (batch,))

        return vmap(one)(self.weights, self.buffers | noise, images)

    def _one_by_one(self, row: int, images: Tensor) -> Tensor:
        """What one member says, its kernels laid out as a GPU's convolutions like them."""
        member = {
            name: one.contiguous(memory_format=torch.channels_last) if one.dim() == 4 else one
            for name, one in self._member(row).items()
        }
        logits: Tensor = functional_call(self.template, member, (images,))
        return logits.to(images.dtype)

    def _backward_each(self, images: Tensor, labels: Tensor, noise: dict[str, Tensor]) -> Tensor:
        losses = []
        for row in self._rows():
            member = self._member(row) | {name: mask[row] for name, mask in noise.items()}
            leaves = [member[name].requires_grad_() for name in self.trained]
            outputs = functional_call(self.template, member, (images[row],))
            outputs = tuple(one[None] for one in outputs) if isinstance(outputs, tuple) else outputs[None]
            loss = self.loss(outputs, images[row : row + 1], labels[row : row + 1])
            for name, gradient in zip(self.trained, torch.autograd.grad(loss.sum(), leaves), strict=True):
                weight = self.weights[name]
                if weight.grad is None:
                    weight.grad = torch.empty_like(weight)
                weight.grad[row] = gradient
            losses.append(loss)
        return torch.cat(losses)


def _stacked(module: nn.Module) -> Convolved | Attended | None:
    """The layers of a network of which a GPU takes all members at once, where it has such."""
    if isinstance(module, ViT):
        return Attended(module)
    return Convolved(module) if is_chain(module) else None
