"""How a network treats what it is given, learnt when it is first asked.

Networks of a basket see one tensor. One that works on it in place (`x.sub_(0.5)`) would change what the others see, and
one that keeps something between two calls (a buffer that it answers in) cannot be asked by two threads at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from foible.errors import FoibleError, UserError
from foible.images import LEAST_ROWS, pixels_together
from foible.networks.load.opened import first_line

Network = nn.Module | Callable[[Tensor], Tensor]

# Nobody asks a network that is being met, and one at a time asks those that keep something. A network may ask another.
ONE_AT_A_TIME = threading.RLock()


@dataclass
class Habits:
    """writes: it changes the images it is given. keeps: it holds something from one call to the next.
    together: on a CPU it is shown images with a pixel's channels side by side.
    asked: how often, as far as that is counted: what it makes in its first call alone is not kept from call to call."""

    writes: bool
    keeps: bool
    together: bool = False
    asked: int = 1
    hook: Any = None  # of a module: hands it the copies

    @property
    def copies(self) -> bool:
        """Whether it gets copies of its images."""
        return self.writes or self.keeps


def ask(network: Network, images: Tensor, what: str) -> Any:
    """What a network says of prepared images; what goes wrong inside it is told of `what`, as "network 'A'"."""
    try:
        return network(images)
    except (FoibleError, MemoryError):
        raise
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"{what} needs more memory than the device has for images of shape {tuple(images.shape)}: free some, give "
            "it a smaller size=, or use --device cpu"
        ) from error
    except Exception as error:
        raise UserError(
            f"{what} cannot take images of shape {tuple(images.shape)}: {first_line(error)}: give it the size and "
            "channels that it was trained on (size=, mean=), or mend it (FOIBLE_DEBUG=1 shows where it failed)"
        ) from error


def meet(network: Network, images: Tensor, what: str) -> tuple[Any, Habits]:
    """What it says of prepared images when it is first asked, and its habits. A module that writes or keeps is handed
    copies from then on, whoever calls it; its name, layers and weights stay as they are."""
    before, given = held(network), images.clone()
    answers = ask(network, given, what)
    habits = Habits(writes=_differ(given, images), keeps=held(network) != before)
    if habits.copies and isinstance(network, nn.Module) and own_copy not in network._forward_pre_hooks.values():
        habits.hook = network.register_forward_pre_hook(own_copy)
    return answers.clone() if isinstance(answers, Tensor) else answers, habits


def takes_together(network: Network, images: Tensor, answers: Any) -> bool:
    """Whether a network with convolutions says the same of images with a pixel's channels side by side, as it did of
    prepared images. Convolutions and pools on a CPU are then up to four times as fast. Not, for one, where it says
    `view` and would have to say `reshape`."""
    parts = network.modules() if isinstance(network, nn.Module) else ()
    if not any(isinstance(part, nn.Conv2d) for part in parts) or not isinstance(answers, Tensor) or images.ndim != 4:
        return False
    some = images[:LEAST_ROWS].detach()
    before = answers[: len(some)].detach()
    try:
        with torch.no_grad():
            after = network(pixels_together(some))
        near = 1e-3 * float(before.nan_to_num(0.0, 0.0, 0.0).abs().max())
        return torch.allclose(after, before, rtol=1e-3, atol=near, equal_nan=True)
    except Exception:  # whatever it cannot do, it is not asked to
        return False


def ask_again(network: Network, images: Tensor, what: str, habits: Habits) -> Any:
    """The same of one that keeps something, perhaps: alone, and the answer is taken before the next call."""
    with ONE_AT_A_TIME:
        before = held(network) if habits.asked == 1 else None
        answers = ask(network, images, what)
        if habits.asked == 1:
            habits.keeps, habits.asked = held(network) != before, 2
            if not habits.copies and habits.hook is not None:
                habits.hook.remove()
        return answers.clone() if isinstance(answers, Tensor) else answers


def own_copy(_module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """A hook before `forward`: tensors are copied, so that what it writes into them is its own."""
    return tuple(one.clone() if isinstance(one, Tensor) else one for one in given)


def version(images: Tensor) -> int:
    """Counts what was written into a tensor in place. Tensors of inference mode do not count."""
    return 0 if images.is_inference() else images._version


def _differ(one: Tensor, other: Tensor) -> bool:
    one, other = one.detach(), other.detach()
    if one.shape != other.shape:
        return True
    return not bool(((one == other) | (one.isnan() & other.isnan())).all())


class _Held:
    """One thing that a network holds: the same one is equal, as long as nothing was written into it."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing  # kept alive, so that nothing else takes its place in memory
        self.state: Any = version(thing) if isinstance(thing, Tensor) else None
        if isinstance(thing, list | tuple | set):
            self.state = [id(part) for part in thing]
        elif isinstance(thing, dict):
            self.state = [(key, id(part)) for key, part in thing.items()]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.thing is other.thing and self.state == other.state


def held(network: Network) -> dict[tuple[int, str], _Held]:
    """All that its modules hold by name; of a plain callable, what stands in it itself."""
    parts = list(network.modules()) if isinstance(network, nn.Module) else [getattr(network, "__self__", network)]
    found: dict[tuple[int, str], _Held] = {}
    for place, part in enumerate(parts):
        for key, value in getattr(part, "__dict__", {}).items():
            inner = value if key in ("_parameters", "_buffers") and isinstance(value, dict) else {"": value}
            found |= {(place, f"{key}.{name}"): _Held(one) for name, one in inner.items()}
    return found
