"""From settings to fleets, one for each spec, and from what they learnt to networks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor

from foible.data import Dataset, Photographs
from foible.errors import UserError
from foible.networks import training_folder, zoo
from foible.networks.augment import augmentation
from foible.networks.bands import APART, tries
from foible.networks.files import Entry
from foible.networks.fresh import fresh_module
from foible.networks.lesson import Lesson, Outcome, Trained, key
from foible.networks.loop import enough
from foible.networks.material import Material
from foible.networks.preprocess import Preprocess, statistics
from foible.networks.progress_file import Checkpoint
from foible.networks.training import group_size, train_fleet
from foible.networks.zoo import grouped
from foible.processes import one_thread
from foible.progress import progress
from foible.recipes.train.config import RECIPES, TrainConfig
from foible.recipes.train.soft import distributions


def names_of(config: TrainConfig, spec: str) -> tuple[str, ...]:
    """`mlp-10`, or `mlp-10-s0`, `mlp-10-s1`, … where there is more than one seed."""
    name = zoo.name_of(spec)
    return (name,) if len(config.seeds) == 1 else tuple(f"{name}-s{seed}" for seed in config.seeds)


def meet(data: Dataset | Photographs, classes: tuple[str, ...]) -> Tensor:
    """The labels of `data` as indices into `classes`, by class name; -1 where an image has none."""
    known = {name: index for index, name in enumerate(classes)}
    unknown = [name for name in data.classes if name not in known]
    if unknown:
        raise UserError(
            f"the {data.split} split of {data.name} has classes that the training split lacks: {', '.join(unknown[:5])}"
        )
    labels = data.labels.cpu()
    return torch.tensor([known[name] for name in data.classes])[labels.clamp(0)].where(labels >= 0, -1)


def check_task(config: TrainConfig, data: Dataset, test: Dataset | None) -> None:
    """An error where the networks, or the test images, do not fit the training images."""
    if test is not None and test.images.shape[1:] != data.images.shape[1:]:
        raise UserError(
            f"test images have shape {tuple(test.images.shape[1:])}, training images {tuple(data.images.shape[1:])}"
        )
    channels, height, width = data.images.shape[1:]
    with torch.device("meta"):  # every spec is checked before the first is trained
        for spec in config.specs:
            zoo.build(spec, (channels, height, width), len(data.classes))


def fleets(
    config: TrainConfig, data: Dataset, test: Dataset | None, device: torch.device, folder: Path | None = None,
    seconds: float = 10.0, quiet: bool = False,
) -> Iterator[tuple[Lesson, Material, Outcome]]:  # fmt: skip
    """Train one spec after another: what each fleet was to do, with what, and what it came to."""
    tested = None if test is None else (test.images.to(device), meet(test, data.classes).to(device))
    learnt = distributions(config, data, device)
    material = Material(data.images.to(device), data.labels.to(device), tested, len(data.classes), learnt)
    lessons = [_lesson(config, spec, data) for spec in config.specs]
    steps = sum(
        math.ceil(len(lesson.seeds) / group_size(lesson, material))
        * (lesson.epochs + lesson.pretraining_epochs)
        * (len(data) // lesson.batch)
        for lesson in lessons
    )
    with progress("Training", steps, quiet=quiet) as bar:
        done, left, shown = 0, steps, time.monotonic()

        def advance(note: str) -> None:
            nonlocal done, left, shown
            done += 1
            if note or time.monotonic() - shown > 0.2:  # drawing a bar costs as much as a step of a small fleet
                told = min(done, left)  # nobody knows beforehand how many have to begin once more
                bar.advance(told, note if left or not note else f"{note}, from another seed")
                done, left, shown = 0, left - told, time.monotonic()

        for lesson in lessons:
            path = (
                None
                if folder is None
                else folder / training_folder.TRAINING / f"{zoo.name_of(lesson.spec)}.safetensors"
            )
            try:
                with one_thread() if _small(lesson, material) else nullcontext():
                    outcome = train_fleet(lesson, material, Checkpoint(path, seconds), advance)
                yield lesson, material, outcome
            except torch.OutOfMemoryError as error:
                raise UserError(
                    f"{len(lesson.seeds)} networks {lesson.spec!r} at batch {lesson.batch} do not fit on {device}: "
                    "give fewer seeds, a smaller --batch or --device cpu"
                ) from error


def _small(lesson: Lesson, material: Material) -> bool:
    """Would a second thread only wait? Beside another busy process it makes a small network many times slower."""
    with torch.device("meta"):
        module = zoo.build(lesson.spec, material.shape, material.classes)
    weights = sum(weight.numel() for weight in module.parameters()) * len(lesson.seeds)
    return material.images.device.type == "cpu" and grouped.suits(module) and weights * lesson.batch < 5e7


def _lesson(config: TrainConfig, spec: str, data: Dataset) -> Lesson:
    recipe = RECIPES[spec.partition(":")[0]]
    batch = min(config.batch or recipe.batch, len(data))

    def epochs_of(usual: int) -> int:
        return config.epochs or enough(usual, recipe.least_steps, len(data), batch)

    normalise = zoo.family_of(spec).normalise
    return Lesson(
        spec=spec,
        seeds=config.seeds,
        names=names_of(config, spec),
        preprocess=statistics(data.images) if normalise else Preprocess(),
        epochs=epochs_of(recipe.epochs),
        batch=batch,
        rate=config.rate or recipe.rate,
        decay=recipe.decay,
        weight_decay=config.weight_decay,
        target=None if config.bands or not config.targets else config.targets[0],
        bands=config.bands,
        within=config.within or 0.0,
        pretraining_epochs=recipe.pretraining_epochs and epochs_of(recipe.pretraining_epochs),
        augment=augmentation(config.augment),
    )


def restored(lesson: Lesson, trained: Mapping[str, Trained], material: Material) -> list[Entry]:
    """The trained members as networks in eval mode, in the order of their names, without accuracies.

    With bands: of the lowest target first, without those that no seed reached; `training` says which it was.
    """
    entries = []
    for target in lesson.bands or (None,):
        for name, asked in zip(lesson.names, lesson.seeds, strict=True):
            filed = [key(seed, target) for seed in (tries(asked) if lesson.bands else [asked])]
            found = next((one for one in filed if one in trained), None)
            if found is None:
                continue
            seed, record = int(found.partition("@")[0]), trained[found].record
            if target is not None:
                record = record | {"target": target, "within": lesson.within, "retries": (seed - asked) // APART}
            module = fresh_module(lesson.spec, material.shape, material.classes, seed)
            module.load_state_dict(trained[found].weights)
            entries.append(
                Entry(
                    name=name if target is None else f"{name}-at-{100 * target:g}",
                    module=module.eval(),
                    preprocess=lesson.preprocess,
                    classes=None,
                    shape=material.shape,
                    spec=lesson.spec,
                    seed=seed,
                    training=record,
                )
            )
    return entries
