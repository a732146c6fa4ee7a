"""What a fleet is to learn, how far it has come, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from foible.networks.augment import Crops
from foible.networks.loop import Schedule
from foible.networks.preprocess import Preprocess


@dataclass(frozen=True)
class Lesson:
    """What one fleet is to do; every choice is made."""

    spec: str
    seeds: tuple[int, ...]
    names: tuple[str, ...]
    preprocess: Preprocess
    epochs: int
    batch: int
    rate: float
    decay: bool  # does the rate fall to nothing by the end?
    weight_decay: float = 0.0
    target: float | None = None
    bands: tuple[float, ...] = ()  # with `within`: the targets around which networks are kept, lowest first
    within: float = 0.0
    pretraining_epochs: int = 0  # of the autoencoder
    augment: Crops | None = None  # never while an autoencoder is pretrained

    def schedule(self, phase: str, images: int) -> Schedule:
        epochs = self.epochs if phase == "classify" else self.pretraining_epochs
        return Schedule(images, self.batch, epochs, self.rate, self.decay)


@dataclass
class Standing:
    """How far a fleet has come, apart from its tensors. Goes into the checkpoint as JSON."""

    waiting: list[int] = field(default_factory=list)  # seeds that have not begun
    seeds: list[int] = field(default_factory=list)  # seeds in training
    phase: str = "classify"
    step: int = 0
    losses: dict[str, list[float]] = field(default_factory=dict)  # by seed, one an epoch
    last_test: dict[str, float] = field(default_factory=dict)  # by seed, the last look at the test split
    finished: dict[str, dict[str, Any]] = field(default_factory=dict)  # by `key`
    climbs: dict[str, dict[str, Any]] = field(default_factory=dict)  # by seed, `Climb`s; only where there are bands


@dataclass(frozen=True)
class Trained:
    """One member at the end, or at a target: its weights on the CPU and the record of its training."""

    weights: dict[str, Tensor]
    record: dict[str, Any]


class Missed(NamedTuple):
    """A target that a network was not kept at, whichever seed it was tried from."""

    seed: int  # as it was asked for
    target: float
    overshot: int  # how many of the tries went past it; the others had not arrived when their epochs were over
    tries: int
    best: float  # the highest test accuracy of all tries

    def said(self) -> str:
        late = self.tries - self.overshot
        ways = [f"{self.overshot} overshot"] if self.overshot else []
        ways += [f"{late} did not arrive"] if late else []
        return f"{' and '.join(ways)} of {self.tries} tries; best {self.best:.4f}"


class Outcome(NamedTuple):
    """What a fleet came to. trained: by `key`."""

    trained: dict[str, Trained]
    missed: list[Missed]


def key(seed: int, target: float | None = None) -> str:
    """What a trained network is filed under: `7`, or `7@0.98` where it is of the band around a target."""
    return str(seed) if target is None else f"{seed}@{target}"
