"""Train networks into a basket: `train(["mlp:10", "mlp:20"], "digits", seeds=3, out="basket")`.

Networks of one spec are a fleet and train together; fleets train in turn. With `out`, a run that is killed goes on
where it was when the same call is made again, and ends with the same weights. Small dense networks train on one
thread; others use as many as the caller has set in torch, and the bits of their weights depend on that number.
With `within`, networks are kept where their test accuracy stands in a band around each target (`networks/bands.py`).
`probe:BACKBONE` is another matter, a head on the features of a network that is there already: see `probe.py`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from foible.basket import pick_device
from foible.data import Dataset, Photographs, load
from foible.disk import write_atomically
from foible.errors import Interrupted, UserError
from foible.networks import files, training_folder, zoo
from foible.networks.files import Entry
from foible.networks.fleet import Fleet
from foible.networks.lesson import Lesson, Missed, Trained
from foible.networks.material import Material, accuracies
from foible.networks.probe import is_probe
from foible.recipes.train.config import TrainConfig
from foible.recipes.train.fleets import check_task, fleets, names_of, restored
from foible.recipes.train.soft import soft_hashes, soft_told
from foible.records import COUNT, NUMBER, check, read_json
from foible.text import some

MISSED = "missed.json"  # beside a basket: the targets that no seed stood at


class NotReached(UserError):
    """No network stood at any of its targets."""


def train(
    specs: str | Sequence[str],
    data: str | Dataset | Photographs = "digits",
    *,
    test: Dataset | Photographs | None = None,
    seeds: int | Sequence[int] = 1,
    out: str | Path | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    rate: float | None = None,
    weight_decay: float = 0.0,
    target: float | Sequence[float] | None = None,
    within: float | None = None,
    augment: str | None = None,
    soft: str | Path | None = None,
    smooth: float | None = None,
    teacher: str | Path | None = None,
    temperature: float | None = None,
    device: str = "auto",
    trust: bool = False,
    checkpoint_seconds: float = 10.0,
    quiet: bool = False,
) -> list[Entry]:
    """Train every spec once for each seed; the networks come back in eval mode on the CPU, with their accuracy.

    specs: networks of the zoo, or probes of networks that you have: `probe:BACKBONE`, `probe:BACKBONE,hidden=128`.
    data: a spec such as `digits` (both its splits are used), or a `Dataset` to train on, with `test` beside it.
    seeds: how many networks of each spec (seeds 0, 1, …), or the seeds themselves.
    augment: training images changed anew in every step: "crops" or "paper" (paper 1, Sec. 4), as in
        "paper?flip=true"; options are those of `foible.networks.augment`.
    target, within: a network stops once its test accuracy is at least `target`. With `within` there may be several
        targets: on its way up it is kept as a network of its own where it stands within ± this of each, and one that
        never does is tried again from another seed. What no seed reached is in `out/missed.json`.
    soft: a NumPy file (n, classes) for the training images: distributions, or counts, learnt in place of the labels.
    smooth: label smoothing; 0.1 spreads a tenth of each label evenly over all classes.
    teacher, temperature: a basket whose mean softmax, at this temperature (1), is learnt in place of the labels.
    out: a folder for the basket. A finished basket of the same settings there is not trained again.
    trust: load backbones of probes that can run code when loaded.
    checkpoint_seconds: how often, at most, the state of training is written into `out`.
    """
    config = TrainConfig(
        specs=(specs,) if isinstance(specs, str) else tuple(specs),
        data=data if isinstance(data, str) else data.name,
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        epochs=epochs, batch=batch, rate=rate, weight_decay=weight_decay,
        target=tuple(map(float, target)) if isinstance(target, Sequence) else target, within=within,
        augment=augment, soft=None if soft is None else str(soft), smooth=smooth,
        teacher=None if teacher is None else str(teacher), temperature=temperature,
    )  # fmt: skip
    place = pick_device(device)
    if is_probe(config.specs[0]):
        from foible.recipes.train.probe import Probes

        probes = Probes(config, data, test, place, trust=trust, quiet=quiet)
        return _kept(out, probes.record, probes.names, lambda _: probes.train(), probes.load, quiet)
    if test is None and isinstance(data, str):
        test = load(data, "test", quiet=quiet)
    lesson_data = _eager(data, "train", quiet)
    test = None if test is None else _eager(test, "test", quiet)
    if target is not None and test is None:
        raise UserError("a target needs a test split: give test= beside the data set")
    record = asdict(config) | {"data_sha256": [split.sha256 for split in (lesson_data, test) if split]}
    record |= soft_hashes(config, lesson_data)
    check_task(config, lesson_data, test)
    return _kept(
        out,
        record,
        [name for spec in config.specs for name in names_in_bands(config, spec)],
        lambda folder: _train_all(config, lesson_data, test, place, folder, checkpoint_seconds, quiet),
        files.load_folder,
        quiet,
    )


def _eager(data: str | Dataset | Photographs, split: str, quiet: bool) -> Dataset:
    """The images in memory: photographs that were only listed are read by their spec."""
    return load(data.name if isinstance(data, Photographs) else data, split, quiet=quiet)


def _kept(
    out: str | Path | None, record: Mapping[str, Any], names: Sequence[str],
    make: Callable[[Path | None], list[Entry]], read: Callable[[Path], list[Entry]], quiet: bool,
) -> list[Entry]:  # fmt: skip
    """What `make` trains, kept in the folder `out`, if one is given. A finished basket is read and not made again."""
    if out is None:
        return make(None)
    folder = Path(out)

    def begin() -> list[Entry]:
        training_folder.claim(folder, names, record)
        return make(folder)

    try:
        entries = training_folder.once(folder, record, begin)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped: what was learnt is in {folder / training_folder.TRAINING}, and the same command goes on "
            "from there"
        ) from None
    shutil.rmtree(folder / training_folder.TRAINING, ignore_errors=True)  # of now, or of a kill just before the end
    if entries is None:
        if not quiet:
            print(f"{folder} already holds this basket: nothing to train", file=sys.stderr)
        return read(folder)
    return entries


def names_in_bands(config: TrainConfig, spec: str) -> tuple[str, ...]:
    """`names_of`, or `mlp-10-s0-at-97.5`, … : those of the lowest target first."""
    names = names_of(config, spec)
    return tuple(f"{name}-at-{100 * target:g}" for target in config.bands for name in names) or names


def _train_all(
    config: TrainConfig, data: Dataset, test: Dataset | None, device: torch.device, folder: Path | None,
    seconds: float, quiet: bool,
) -> list[Entry]:  # fmt: skip
    entries, missed = list[Entry](), list[tuple[str, Missed]]()
    for lesson, material, outcome in fleets(config, data, test, device, folder, seconds, quiet):
        missed += [(lesson.spec, one) for one in outcome.missed]
        if outcome.trained:
            entries += _entries(lesson, outcome.trained, material, config, data.classes)
    if not entries:
        best = some([f"{zoo.name_of(spec)}: {one.said()}" for spec, one in missed])
        raise NotReached(
            f"no network stood within ±{config.within:g} of a target ({best}): give more --epochs, a wider --within "
            "or other targets"
        )
    if folder is not None and config.bands:
        told = [{"spec": spec, **one._asdict()} for spec, one in missed]
        write_atomically(folder / MISSED, (json.dumps(told, indent=1) + "\n").encode())
    return entries


def missed_in(folder: Path) -> list[tuple[str, Missed]]:
    """The networks, by spec, that a training with bands into `folder` could not keep at a target."""
    if not (folder / MISSED).exists():
        return []
    form = {"spec": str, "seed": COUNT, "target": NUMBER, "overshot": COUNT, "tries": COUNT, "best": NUMBER}
    rows = check(read_json(folder / MISSED, "train again"), [form], str(folder / MISSED))
    return [(row["spec"], Missed(**{name: row[name] for name in Missed._fields})) for row in rows]


def _entries(
    lesson: Lesson, trained: dict[str, Trained], material: Material, config: TrainConfig, classes: tuple[str, ...]
) -> list[Entry]:
    """The trained members as networks, with their accuracy on both splits."""
    entries = restored(lesson, trained, material)
    fleet = Fleet([one.module for one in entries], [one.seed for one in entries], device=material.images.device)
    splits = {"train": (material.images, material.labels)} | ({"test": material.test} if material.test else {})
    scores = {name: accuracies(fleet, *split, lesson.preprocess) for name, split in splits.items()}
    settings = {
        "data": config.data,
        "split": "train",
        "images": len(material.images),
        "batch": lesson.batch,
        "optimiser": "adamw" if lesson.weight_decay else "adam",
        "rate": lesson.rate,
        "decay": "cosine" if lesson.decay else None,
        "weight_decay": lesson.weight_decay,
        "target": lesson.target,
        "pretraining_epochs": lesson.pretraining_epochs,
        "augment": None if lesson.augment is None else {"spec": config.augment, **asdict(lesson.augment)},
        "device": material.images.device.type,
        "torch": torch.__version__,
    } | soft_told(config)
    return [
        replace(
            entry,
            classes=classes,
            accuracy={split: score[row] for split, score in scores.items()},
            training=settings | entry.training,
        )
        for row, entry in enumerate(entries)
    ]
