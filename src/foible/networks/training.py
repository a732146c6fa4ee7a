"""Teach one fleet, by the one loop (`loop.py`): what `foible train` does with each spec.

Everything random is a function of the seed: first weights of (spec, seed), the order of the images of (seed, epoch),
augmentation of (seed, step, place in the batch), dropout of (seed, layer, step). Each member has its own order. So a
member learns the same alone and in a fleet, and a run that was killed goes on from its checkpoint to the same weights
(the same bits where device, thread count and torch are the same).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.augment import Crops, draws_for
from foible.networks.fleet import Fleet, members_at_once
from foible.networks.loop import Place, Schedule, Turn, loop
from foible.networks.losses import Loss, cross_entropy, sparse_reconstruction
from foible.networks.material import Material, accuracies, batches
from foible.networks.preprocess import Preprocess
from foible.networks.progress_file import Checkpoint

LOSSES: dict[str, Loss] = {"autoencode": sparse_reconstruction, "classify": cross_entropy}  # of the phases


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
    finished: dict[str, dict[str, Any]] = field(default_factory=dict)  # by seed


@dataclass(frozen=True)
class Trained:
    """One member at the end: its weights on the CPU and the record of its training."""

    weights: dict[str, Tensor]
    record: dict[str, Any]


def fresh_module(
    spec: str, shape: tuple[int, int, int], classes: int, seed: int, *, phase: str = "classify"
) -> nn.Module:
    """The network of `spec` with the first weights of `seed`; the caller's generator is left alone."""
    digest = hashlib.sha256(f"{spec}\n{phase}\n{seed}".encode()).digest()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
        if phase == "autoencode":
            autoencoder = zoo.autoencoder_for(spec, shape)
            assert autoencoder is not None
            return autoencoder
        return zoo.build(spec, shape, classes)


def train_fleet(
    lesson: Lesson, material: Material, checkpoint: Checkpoint, advance: Callable[[str], None]
) -> dict[int, Trained]:
    """Train every member to its end, `group_size` of them at a time. `advance(note)` is called after each step."""
    size = group_size(lesson, material)
    first_phase = "autoencode" if lesson.pretraining_epochs else "classify"
    kept = checkpoint.read()
    tensors, standing = (kept[0], Standing(**kept[1])) if kept else ({}, Standing(waiting=list(lesson.seeds)))
    _check_standing(standing, lesson, len(material.images), checkpoint)
    trained = {
        int(seed): Trained(_under(f"finished.{seed}.", tensors), record) for seed, record in standing.finished.items()
    }
    handed: dict[str, Tensor] = {}
    while standing.seeds or standing.waiting:
        if not standing.seeds:
            standing.seeds, standing.waiting = standing.waiting[:size], standing.waiting[size:]
            standing.phase, standing.step, tensors = first_phase, 0, {}
        course = _Course(lesson, material, standing, checkpoint, advance, trained)
        course.fleet.weights.update(handed)
        handed = {}
        if tensors:
            try:
                course.restore(tensors)
            except (KeyError, RuntimeError) as error:
                raise checkpoint.damaged(f"{type(error).__name__}: {error}") from error
            tensors = {}
        course.run()
        if standing.phase == "autoencode":
            handed = {name: course.fleet.weights[name].detach() for name in ("encoder.weight", "encoder.bias")}
            standing.phase, standing.step, standing.losses = "classify", 0, {}
    return trained


def _check_standing(standing: Standing, lesson: Lesson, images: int, checkpoint: Checkpoint) -> None:
    """Refuse a place in the training that these settings do not lead to."""
    seeds = [*standing.waiting, *standing.seeds, *map(int, standing.finished)]
    if sorted(seeds) != sorted(lesson.seeds):
        raise checkpoint.damaged(f"it is of the seeds {sorted(seeds)}, asked for are {sorted(lesson.seeds)}")
    autoencoding = standing.phase == "autoencode"
    steps = lesson.schedule(standing.phase, images).steps
    over = standing.step > steps or (standing.step == steps and standing.seeds and not autoencoding)
    if over or (autoencoding and not lesson.pretraining_epochs):
        raise checkpoint.damaged(f"it stands at step {standing.step} of {steps}, phase {standing.phase}")


def group_size(lesson: Lesson, material: Material) -> int:
    """How many members of the fleet are trained at a time on the device of the data."""
    with torch.device("meta"):
        module = zoo.build(lesson.spec, material.shape, material.classes)
    return members_at_once(module, material.images.device) or len(lesson.seeds)


class _Course:
    """One phase of training, from where it stands to its end."""

    def __init__(
        self, lesson: Lesson, material: Material, standing: Standing, checkpoint: Checkpoint,
        advance: Callable[[str], None], trained: dict[int, Trained],
    ) -> None:  # fmt: skip
        self.lesson, self.material, self.standing = lesson, material, standing
        self.checkpoint, self.advance, self.trained = checkpoint, advance, trained
        self.classifying = standing.phase == "classify"
        self.schedule = lesson.schedule(standing.phase, len(material.images))
        modules = [
            fresh_module(lesson.spec, material.shape, material.classes, seed, phase=standing.phase)
            for seed in standing.seeds
        ]
        self.fleet = Fleet(
            modules, standing.seeds, device=material.images.device, rate=lesson.rate,
            weight_decay=lesson.weight_decay, loss=LOSSES[standing.phase], stream=f"fleet.dropout {lesson.spec}",
        )  # fmt: skip
        self.place = Place.start(standing.seeds, self.fleet.device, standing.step)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.fleet.restore(tensors)
        self.place.losses.copy_(tensors["loss_sum"])

    def run(self) -> None:
        loop(self.schedule, self.place, self._step, self._after)

    def _step(self, turn: Turn) -> Tensor:
        self.fleet.set_rate(turn.rate)
        return self.fleet.step(*self._batch(turn), turn.number)

    def _batch(self, turn: Turn) -> tuple[Tensor, Tensor]:
        augment = self.lesson.augment if self.classifying else None
        if augment is None:
            return batches(self.material, turn.rows, self.lesson.preprocess)
        draws = draws_for(self.fleet.lanes, turn.number, self.lesson.batch).flatten(0, 1)
        return batches(self.material, turn.rows, self.lesson.preprocess, lambda images: augment(images, draws))

    def _after(self, sums: Tensor | None) -> None:
        standing = self.standing
        standing.step = self.place.step
        note = "" if sums is None else self._end_of_epoch(sums)
        if self.classifying and self.lesson.target is not None:
            self._look_for_target(self.lesson.target)
        if self.classifying and standing.step == self.schedule.steps:
            self._finish(list(range(len(standing.seeds))), "epochs")
        if self.checkpoint.due or (self.classifying and not standing.seeds):
            self._check_finite(self.place.losses)
            self.checkpoint.write(self._tensors, vars(standing))
        self.advance(note)

    def _end_of_epoch(self, sums: Tensor) -> str:
        self._check_finite(sums)
        means = (sums / self.schedule.per_epoch).tolist()
        for seed, mean in zip(self.standing.seeds, means, strict=True):
            self.standing.losses.setdefault(str(seed), []).append(round(mean, 6))
        epoch = self.standing.step // self.schedule.per_epoch
        name, loss = zoo.name_of(self.lesson.spec), sum(means) / len(means)
        return f"{name} {self.standing.phase} epoch {epoch}/{self.schedule.epochs} loss {loss:.3f}"

    def _look_for_target(self, target: float) -> None:
        """Four looks an epoch, and twenty once the error is within half of the one wanted.

        Which steps a member is looked at depends on itself alone.
        """
        standing, per_epoch = self.standing, self.schedule.per_epoch
        coarse, fine = max(1, per_epoch // 4), max(1, per_epoch // 20)

        def due(seed: int) -> bool:
            near = 1 - standing.last_test.get(str(seed), 0.0) <= 1.5 * (1 - target)
            return standing.step % (fine if near else coarse) == 0 or standing.step % per_epoch == 0

        rows = [row for row, seed in enumerate(standing.seeds) if due(seed)]
        if not rows:
            return
        assert self.material.test is not None
        tested = accuracies(self.fleet, *self.material.test, self.lesson.preprocess)
        for row in rows:
            standing.last_test[str(standing.seeds[row])] = tested[row]
        self._finish([row for row in rows if tested[row] >= target], "target")

    def _finish(self, rows: Sequence[int], why: str) -> None:
        """These members are done: take their weights out of the fleet."""
        if not rows:
            return
        self._check_finite(self.place.losses)
        standing = self.standing
        for row in rows:
            seed = standing.seeds[row]
            weights = self.fleet.state_dict(row)
            if not all(value.isfinite().all() for value in weights.values()):
                raise self._diverged(seed)
            record = {
                "epochs": round(standing.step / self.schedule.per_epoch, 4),
                "steps": standing.step,
                "stopped_because": why,
                "history": standing.losses.get(str(seed), []),
            }
            standing.finished[str(seed)] = record
            self.trained[seed] = Trained(weights, record)
        left = [row for row in range(len(standing.seeds)) if row not in rows]
        standing.seeds = [standing.seeds[row] for row in left]
        self.place.keep(left)
        if left:
            self.fleet.keep(left)

    def _check_finite(self, losses: Tensor) -> None:
        for seed, fine in zip(self.standing.seeds, losses.isfinite().tolist(), strict=True):
            if not fine:
                raise self._diverged(seed)

    def _diverged(self, seed: int) -> UserError:
        name = self.lesson.names[self.lesson.seeds.index(seed)]
        return UserError(
            f"network {name!r} diverged: its loss or weights are no longer numbers after {self.standing.step} steps "
            f"at rate {self.lesson.rate:g}; give a lower --rate"
        )

    def _tensors(self) -> dict[str, Tensor]:
        held = {
            f"finished.{seed}.{name}": value
            for seed, one in self.trained.items()
            for name, value in one.weights.items()
        }
        return held | ({**self.fleet.tensors(), "loss_sum": self.place.losses} if self.standing.seeds else {})


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
