"""Teach one fleet: the loop behind `foible train`.

Everything random is a function of the seed: first weights of (spec, seed), the order of the images of (seed, epoch),
augmentation of (seed, step, place in the batch), dropout of (seed, layer, step). Each member has its own order. So a
member learns the same alone and in a fleet, and a run that was killed goes on from its checkpoint to the same weights
(the same bits where device, thread count and torch are the same).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.augment import Crops, draws_for
from foible.networks.fleet import Fleet, cross_entropy, members_at_once
from foible.networks.preprocess import Preprocess
from foible.networks.progress_file import Checkpoint
from foible.randomness import words

SPARSITY, SPARSITY_WEIGHT = 0.05, 0.1  # of the autoencoder's features: their wanted mean, and how much it counts


@dataclass(frozen=True, eq=False)
class Material:
    """The data, on the device. images: uint8 (n, channels, height, width); labels: (n,)."""

    images: Tensor
    labels: Tensor
    test: tuple[Tensor, Tensor] | None
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self.images.shape[1:]
        return channels, height, width


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


def order(seeds: Tensor, epoch: int, n: int) -> Tensor:
    """(K, n): the order in which the network of each seed (K,) sees the images in this epoch."""
    return words(0, seeds, epoch, stream="fleet.order", count=n).argsort(dim=1, stable=True)


def batches(
    material: Material,
    index: Tensor,
    preprocess: Preprocess,
    change: Callable[[Tensor], Tensor] = lambda images: images,
) -> tuple[Tensor, Tensor]:
    """Each member's images (K, batch, channels, height, width), preprocessed, and labels; `index` is (K, batch).

    `change` is done to all of them, (K * batch, channels, height, width) in [0, 1], before.
    """
    flat = index.reshape(-1)
    images = preprocess(change(material.images.index_select(0, flat).to(torch.float32) / 255))
    return images.view(*index.shape, *images.shape[1:]), material.labels.index_select(0, flat).view_as(index)


def accuracies(fleet: Fleet, images: Tensor, labels: Tensor, preprocess: Preprocess) -> list[float]:
    """The share of images that each member gets right, in batches that suit the size of the fleet."""
    rows = min(max(8192 // len(fleet.seeds), 64), 1024)
    right = torch.zeros(len(fleet.seeds), dtype=torch.long, device=fleet.device)
    for start in range(0, len(images), rows):
        batch = preprocess(images[start : start + rows].to(torch.float32) / 255)
        right += (fleet.predict(batch).argmax(2) == labels[start : start + rows]).sum(1)
    return [count / len(images) for count in right.tolist()]


def sparse_reconstruction(outputs: tuple[Tensor, Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the pixels, and how far each feature's mean activity is from SPARSITY (as a KL divergence)."""
    del labels
    logits, features = outputs
    pixels = F.binary_cross_entropy_with_logits(logits, images.flatten(2), reduction="none").sum(2).mean(1)
    mean = features.mean(1).clamp(1e-6, 1 - 1e-6)
    kept, lost = SPARSITY * (SPARSITY / mean).log(), (1 - SPARSITY) * ((1 - SPARSITY) / (1 - mean)).log()
    return pixels + SPARSITY_WEIGHT * (kept + lost).sum(1)


def train_fleet(
    lesson: Lesson, material: Material, checkpoint: Checkpoint, advance: Callable[[str], None]
) -> dict[int, Trained]:
    """Train every member to its end, `group_size` of them at a time. `advance(note)` is called after each step."""
    size = group_size(lesson, material)
    first_phase = "autoencode" if lesson.pretraining_epochs else "classify"
    kept = checkpoint.read()
    tensors, standing = (kept[0], Standing(**kept[1])) if kept else ({}, Standing(waiting=list(lesson.seeds)))
    _check_standing(standing, lesson, len(material.images) // lesson.batch, checkpoint)
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


def _check_standing(standing: Standing, lesson: Lesson, per_epoch: int, checkpoint: Checkpoint) -> None:
    """Refuse a place in the training that these settings do not lead to."""
    seeds = [*standing.waiting, *standing.seeds, *map(int, standing.finished)]
    if sorted(seeds) != sorted(lesson.seeds):
        raise checkpoint.damaged(f"it is of the seeds {sorted(seeds)}, asked for are {sorted(lesson.seeds)}")
    autoencoding = standing.phase == "autoencode"
    steps = per_epoch * (lesson.pretraining_epochs if autoencoding else lesson.epochs)
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
        self.epochs = lesson.epochs if self.classifying else lesson.pretraining_epochs
        self.per_epoch = len(material.images) // lesson.batch
        modules = [
            fresh_module(lesson.spec, material.shape, material.classes, seed, phase=standing.phase)
            for seed in standing.seeds
        ]
        self.fleet = Fleet(
            modules, standing.seeds, device=material.images.device, rate=lesson.rate,
            weight_decay=lesson.weight_decay, loss=cross_entropy if self.classifying else sparse_reconstruction,
            stream=f"fleet.dropout {lesson.spec}",
        )  # fmt: skip
        self.loss_sum = torch.zeros(len(standing.seeds), device=self.fleet.device)
        self.order: Tensor | None = None

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.fleet.restore(tensors)
        self.loss_sum.copy_(tensors["loss_sum"])

    def run(self) -> None:
        standing, total = self.standing, self.epochs * self.per_epoch
        while standing.step < total and standing.seeds:
            if self.lesson.decay:  # half a cosine, from the rate to nothing
                self.fleet.set_rate(self.lesson.rate * 0.5 * (1 + math.cos(math.pi * standing.step / total)))
            images, labels = self._batch()
            self.loss_sum += self.fleet.step(images, labels, standing.step)
            standing.step += 1
            note = ""
            if standing.step % self.per_epoch == 0:
                note = self._end_of_epoch()
            if self.classifying and self.lesson.target is not None:
                self._look_for_target(self.lesson.target)
            if self.classifying and standing.step == total:
                self._finish(list(range(len(standing.seeds))), "epochs")
            if self.checkpoint.due or (self.classifying and not standing.seeds):
                self._check_finite()
                self.checkpoint.write(self._tensors, vars(standing))
            self.advance(note)

    def _batch(self) -> tuple[Tensor, Tensor]:
        """What is left over at the end of an epoch is not seen in that epoch, so that all batches have one size."""
        epoch, number = divmod(self.standing.step, self.per_epoch)
        if self.order is None or number == 0:
            self.order = order(self.fleet.lanes, epoch, len(self.material.images))
        index = self.order[:, number * self.lesson.batch : (number + 1) * self.lesson.batch]
        augment = self.lesson.augment if self.classifying else None
        if augment is None:
            return batches(self.material, index, self.lesson.preprocess)
        draws = draws_for(self.fleet.lanes, self.standing.step, self.lesson.batch).flatten(0, 1)
        return batches(self.material, index, self.lesson.preprocess, lambda images: augment(images, draws))

    def _end_of_epoch(self) -> str:
        self._check_finite()
        means = (self.loss_sum / self.per_epoch).tolist()
        self.loss_sum.zero_()
        for seed, mean in zip(self.standing.seeds, means, strict=True):
            self.standing.losses.setdefault(str(seed), []).append(round(mean, 6))
        epoch = self.standing.step // self.per_epoch
        loss = sum(means) / len(means)
        return f"{zoo.name_of(self.lesson.spec)} {self.standing.phase} epoch {epoch}/{self.epochs} loss {loss:.3f}"

    def _look_for_target(self, target: float) -> None:
        """Four looks an epoch, and twenty once the error is within half of the one wanted.

        Which steps a member is looked at depends on itself alone.
        """
        standing = self.standing
        coarse, fine = max(1, self.per_epoch // 4), max(1, self.per_epoch // 20)

        def due(seed: int) -> bool:
            near = 1 - standing.last_test.get(str(seed), 0.0) <= 1.5 * (1 - target)
            return standing.step % (fine if near else coarse) == 0 or standing.step % self.per_epoch == 0

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
        self._check_finite()
        standing = self.standing
        for row in rows:
            seed = standing.seeds[row]
            weights = self.fleet.state_dict(row)
            if not all(value.isfinite().all() for value in weights.values()):
                raise self._diverged(seed)
            record = {
                "epochs": round(standing.step / self.per_epoch, 4),
                "steps": standing.step,
                "stopped_because": why,
                "history": standing.losses.get(str(seed), []),
            }
            standing.finished[str(seed)] = record
            self.trained[seed] = Trained(weights, record)
        left = [row for row in range(len(standing.seeds)) if row not in rows]
        standing.seeds = [standing.seeds[row] for row in left]
        if left:
            index = torch.tensor(left, device=self.fleet.device)
            self.fleet.keep(left)
            self.loss_sum = self.loss_sum.index_select(0, index)
            self.order = None if self.order is None else self.order.index_select(0, index)

    def _check_finite(self) -> None:
        finite = self.loss_sum.isfinite().tolist()
        for seed, fine in zip(self.standing.seeds, finite, strict=False):
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
        return held | ({**self.fleet.tensors(), "loss_sum": self.loss_sum} if self.standing.seeds else {})


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
