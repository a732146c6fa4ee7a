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
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.augment import Crops, draws_for
from foible.networks.bands import APART, Climb, Looks, retry, tries
from foible.networks.fleet import Fleet, members_at_once
from foible.networks.loop import Place, Schedule, Turn, loop
from foible.networks.losses import Loss, cross_entropy, sparse_reconstruction
from foible.networks.material import Material, accuracies, batches
from foible.networks.preprocess import Preprocess
from foible.networks.progress_file import CLIMB, Checkpoint

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


def train_fleet(lesson: Lesson, material: Material, checkpoint: Checkpoint, advance: Callable[[str], None]) -> Outcome:
    """Train every member to its end, `group_size` of them at a time. `advance(note)` is called after each step."""
    size = group_size(lesson, material)
    first_phase = "autoencode" if lesson.pretraining_epochs else "classify"
    kept = checkpoint.read()
    tensors, standing = (kept[0], Standing(**kept[1])) if kept else ({}, Standing(waiting=list(lesson.seeds)))
    _check_standing(standing, lesson, len(material.images), checkpoint)
    trained = {
        name: Trained(_under(f"finished.{name}.", tensors), record) for name, record in standing.finished.items()
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
    return Outcome(trained, _missed(lesson, standing))


def _missed(lesson: Lesson, standing: Standing) -> list[Missed]:
    """The targets that a seed and all its retries have not stood at."""
    missed = []
    for seed in lesson.seeds if lesson.bands else ():
        climbs = {tried: standing.climbs[str(tried)] for tried in tries(seed) if str(tried) in standing.climbs}
        for target in lesson.bands:
            if not any(key(tried, target) in standing.finished for tried in climbs):
                over = sum(target in climb["overshot"] for climb in climbs.values())
                best = max(climb["best"] for climb in climbs.values())
                missed.append(Missed(seed, target, over, len(climbs), best))
    return missed


def _check_standing(standing: Standing, lesson: Lesson, images: int, checkpoint: Checkpoint) -> None:
    """Refuse a place in the training that these settings do not lead to."""
    finished = [int(name.partition("@")[0]) for name in standing.finished]
    seeds = [*standing.waiting, *standing.seeds, *finished]
    if not all(seed.isdecimal() for seed in standing.climbs):
        raise checkpoint.damaged("it has climbs of something that is no seed")
    if lesson.bands:  # a network may be kept at several targets and tried again, or be gone without any
        seeds = list({seed % APART for seed in (*seeds, *map(int, standing.climbs))})
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
        advance: Callable[[str], None], trained: dict[str, Trained],
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
        self.climbs: dict[int, Climb] = {}
        if self.classifying and lesson.bands:
            assert material.test is not None
            self.looks = Looks(*material.test, lesson.preprocess)
            for seed in standing.seeds:
                had = standing.climbs.get(str(seed), {"wanted": list(lesson.bands)})
                self._climb(seed, Climb(**{name: had[name] for name in had if name in CLIMB}))

    def _climb(self, seed: int, climb: Climb) -> None:
        """Follow the climb of `seed`; what the checkpoint holds is its own dictionary, always as it stands."""
        self.climbs[seed], self.standing.climbs[str(seed)] = climb, vars(climb)

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
        if self.climbs:
            self._look_at_bands()
        if self.classifying and standing.step == self.schedule.steps:
            self._finish(range(len(standing.seeds)), "epochs")
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

    def _look_at_bands(self) -> None:
        """Keep whoever stands at one of its targets; whoever has no target left leaves the fleet."""
        standing, per_epoch, within = self.standing, self.schedule.per_epoch, self.lesson.within
        climbs = [self.climbs[seed] for seed in standing.seeds]
        rows = [row for row, climb in enumerate(climbs) if climb.due(standing.step, per_epoch, within)]
        if not rows:
            return
        end = standing.step % per_epoch == 0
        seen = self.looks(self.fleet, [climbs[row] for row in rows], rows, within, whole=end)
        for row, (accuracy, whole) in seen.items():
            for target in climbs[row].saw(accuracy, standing.step, per_epoch, within, whole=whole):
                self._file(row, "target", target)
        self._leave([row for row, climb in enumerate(climbs) if not climb.wanted])

    def _finish(self, rows: Sequence[int], why: str) -> None:
        """These members are done: take their weights out of the fleet, unless they were to be kept in a band."""
        for row in rows if not self.climbs else ():
            self._file(row, why)
        self._leave(rows)

    def _file(self, row: int, why: str, target: float | None = None) -> None:
        """Keep the weights of a member as they are now."""
        self._check_finite(self.place.losses)
        standing = self.standing
        seed = standing.seeds[row]
        weights = self.fleet.state_dict(row)
        if not all(value.isfinite().all() for value in weights.values()):
            raise self._diverged(seed)
        record = {
            "epochs": round(standing.step / self.schedule.per_epoch, 4),
            "steps": standing.step,
            "stopped_because": why,
            "history": list(standing.losses.get(str(seed), [])),
        }
        standing.finished[key(seed, target)] = record
        self.trained[key(seed, target)] = Trained(weights, record)

    def _leave(self, rows: Sequence[int]) -> None:
        """Go on without these members; a target that one of them has missed is tried from another seed, later."""
        if not rows:
            return
        standing = self.standing
        for seed in (standing.seeds[row] for row in rows) if self.climbs else ():
            climb, again = self.climbs[seed], retry(seed)
            lost = sorted({*climb.overshot, *climb.wanted})
            if lost and again is not None:
                standing.waiting.append(again)
                standing.climbs[str(again)] = vars(Climb(lost))
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
        name = self.lesson.names[self.lesson.seeds.index(seed % APART if self.lesson.bands else seed)]
        return UserError(
            f"network {name!r} diverged: its loss or weights are no longer numbers after {self.standing.step} steps "
            f"at rate {self.lesson.rate:g}; give a lower --rate"
        )

    def _tensors(self) -> dict[str, Tensor]:
        held = {
            f"finished.{filed}.{name}": value
            for filed, one in self.trained.items()
            for name, value in one.weights.items()
        }
        return held | ({**self.fleet.tensors(), "loss_sum": self.place.losses} if self.standing.seeds else {})


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
