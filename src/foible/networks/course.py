"""One phase of a fleet's training: its steps, when its members are looked at, and who leaves it, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.augment import draws_for
from foible.networks.bands import APART, Climb, Looks, retry
from foible.networks.fleet import Fleet
from foible.networks.fresh import fresh_module
from foible.networks.lesson import Lesson, Standing, Trained, key
from foible.networks.loop import Place, Turn, loop
from foible.networks.losses import Loss, cross_entropy, sparse_reconstruction
from foible.networks.material import Material, accuracies, batches
from foible.networks.progress_file import CLIMB, Checkpoint

LOSSES: dict[str, Loss] = {"autoencode": sparse_reconstruction, "classify": cross_entropy}  # of the phases


class Course:
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
        if self.climbs and not self.looks.restore(tensors, self.standing.seeds):
            raise self.checkpoint.damaged("its hard images are none of the test images")

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
        if self.standing.seeds:
            held |= {**self.fleet.tensors(), "loss_sum": self.place.losses}
        return held | (self.looks.tensors(self.standing.seeds) if self.climbs else {})
