"""The training loop: everything here that learns from batches goes through `loop`.

    place = Place.start([seed], device)
    step = descent(torch.optim.Adam(module.parameters()), lambda rows: F.cross_entropy(module(x[rows]), y[rows]))
    loop(Schedule(images=len(x), batch=128, epochs=10, rate=1e-3), place, step)

The loop knows which images are seen in which step and at what rate; a step is a function of that (`Turn`) and gives
losses back. `descent` makes the step of one optimiser that lowers one loss; a fleet takes one for all of its members
(`training.py`). A step with several optimisers, as a GAN has two, is a function that takes them in turn:

    judge, forge = descent(judges_adam, judges_loss), descent(forgers_adam, forgers_loss)

    def step(turn: Turn) -> Tensor:
        judge(turn)
        return forge(turn)

and has the schedule, the order, the notes and the way back from a checkpoint as all others do. What such a loss draws
should be a function of (seed, step), as `Place.seeds` and `Turn.number` are: then training goes on to the same weights
wherever it was broken off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from foible.errors import UserError
from foible.networks.repeated import set_rate
from foible.randomness import words


@dataclass(frozen=True)
class Schedule:
    """How often the images are seen, how many at a time, and at what rate.

    What is left over at the end of an epoch is not seen in that epoch, so that all batches have one size.
    """

    images: int
    batch: int  # at most as many as there are images
    epochs: int
    rate: float
    decay: bool = False  # does the rate fall to nothing by the end?
    stream: str = "fleet.order"  # of randomness, for the order of the images
    inverse: tuple[float, float] | None = None  # γ and power: Caffe's "inv" policy, step by step

    @property
    def per_epoch(self) -> int:
        return self.images // self.batch

    @property
    def steps(self) -> int:
        return self.epochs * self.per_epoch

    def rate_at(self, step: int) -> float:
        """The rate itself, rate · (1 + γ · step)^−power, or half a cosine from it to nothing."""
        if self.inverse is not None:
            gamma, power = self.inverse
            return self.rate * float((1 + gamma * step) ** -power)
        return self.rate * 0.5 * (1 + math.cos(math.pi * step / self.steps)) if self.decay else self.rate


def check_schedule(epochs: int | None, batch: int | None, rate: float | None) -> None:
    """Refuse what a user may have asked for; None is the default of whatever is trained."""
    for name, value in (("epochs", epochs), ("batch", batch)):
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}: expected at least 1")
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise UserError(f"rate is {rate}: expected a number above 0, such as 0.001")


def enough(epochs: int, least_steps: int, images: int, batch: int) -> int:
    """`epochs`, or more of them where a small data set has to be seen more often to make `least_steps` steps."""
    return max(epochs, math.ceil(least_steps / max(1, images // batch)))


def order(seeds: Tensor, epoch: int, n: int, stream: str = "fleet.order") -> Tensor:
    """(K, n): the order in which the network of each seed (K,) sees the images in this epoch."""
    return words(0, seeds, epoch, stream=stream, count=n).argsort(dim=1, stable=True)


@dataclass(eq=False)
class Place:
    """Where the training of K networks stands. A checkpoint holds all but `order`, which is drawn again."""

    seeds: Tensor  # (K,)
    losses: Tensor  # (K,), or as many as a step gives: the sums over this epoch so far
    step: int = 0
    order: Tensor | None = None  # (K, n), of this epoch

    @staticmethod
    def start(seeds: Sequence[int], device: torch.device, step: int = 0) -> Place:
        return Place(torch.tensor(seeds, device=device), torch.zeros(len(seeds), device=device), step)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these networks only."""
        index = torch.tensor(rows, dtype=torch.long, device=self.seeds.device)
        self.seeds, self.losses = self.seeds.index_select(0, index), self.losses.index_select(0, index)
        self.order = None if self.order is None else self.order.index_select(0, index)


@dataclass(frozen=True, eq=False)
class Turn:
    """One step that is to be taken: its number, counted over all epochs, and the rate."""

    number: int
    rows: Tensor  # (K, batch): which images each network sees
    rate: float


Step = Callable[[Turn], Tensor]  # gives the losses (K,) before the step
After = Callable[[Tensor | None], None]  # after each step; at the end of an epoch with the sums (K,) of its losses


def loop(schedule: Schedule, place: Place, step: Step, after: After = lambda _: None) -> None:
    """Go on from `place` to the end of the schedule, or until `after` has left nobody in `place`."""
    while place.step < schedule.steps and len(place.seeds):
        epoch, number = divmod(place.step, schedule.per_epoch)
        if place.order is None or number == 0:
            place.order = order(place.seeds, epoch, schedule.images, schedule.stream)
        rows = place.order[:, number * schedule.batch : (number + 1) * schedule.batch]
        place.losses += step(Turn(place.step, rows, schedule.rate_at(place.step)))
        place.step += 1
        sums = None
        if place.step % schedule.per_epoch == 0:
            sums, place.losses = place.losses, torch.zeros_like(place.losses)
        after(sums)


def descent(optimiser: torch.optim.Optimizer, loss: Callable[[Tensor], Tensor]) -> Step:
    """The step of one network by one optimiser. loss: from the rows of the images (batch,) to a single number."""

    def step(turn: Turn) -> Tensor:
        set_rate(optimiser, turn.rate)
        optimiser.zero_grad()
        value = loss(turn.rows[0])
        value.backward()
        optimiser.step()
        return value.detach().view(1)

    return step
