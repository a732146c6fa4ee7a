"""Teach one fleet, by the one loop (`loop.py`): what `foible train` does with each spec.

Everything random is a function of the seed: first weights of (spec, seed), the order of the images of (seed, epoch),
augmentation of (seed, step, place in the batch), dropout of (seed, layer, step). Each member has its own order. So a
member learns the same alone and in a fleet, and a run that was killed goes on from its checkpoint to the same weights
(the same bits where device, thread count and torch are the same).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from foible.networks import zoo
from foible.networks.bands import APART, tries
from foible.networks.course import Course
from foible.networks.fleet import members_at_once
from foible.networks.lesson import Lesson, Missed, Outcome, Standing, Trained, key
from foible.networks.material import Material
from foible.networks.progress_file import Checkpoint


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
        course = Course(lesson, material, standing, checkpoint, advance, trained)
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


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
