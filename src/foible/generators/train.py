"""Train a generator: `train_generator("vae:10", "mnist", out="G")`, on the one loop.

Everything random is a function of the seed: first weights of (spec, seed), the order of the images of (seed, epoch),
noise of (seed, step, place in the batch). So a training that was killed goes on from its checkpoint to the same weights
(the same bits where device, thread count and torch are the same).
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.data import Dataset, load
from foible.errors import Interrupted, UserError
from foible.generators import files
from foible.generators.base import Drawer, Shape
from foible.generators.build import begin, build, family_of
from foible.generators.files import Collapsed
from foible.generators.health import collapse, measure
from foible.generators.learning import Learning, drawer, held, restore
from foible.generators.pictures import draw
from foible.images import to_floats
from foible.networks import training_folder
from foible.networks.loop import Place, Schedule, Turn, check_schedule, enough, loop
from foible.networks.progress_file import Checkpoint
from foible.processes import pick_device
from foible.progress import Bar, progress
from foible.records import COUNT

STANDING = {"step": COUNT, "history": files.CURVES}
MOST_HELD_OUT = 2000  # images on which losses are told after each epoch


@dataclass(frozen=True)
class GeneratorConfig:
    """What `train_generator` does. None takes the default of the family (`build.FAMILIES`)."""

    spec: str
    data: str = "digits"
    seed: int = 0
    epochs: int | None = None
    batch: int | None = None
    rate: float | None = None  # of Adam; it falls to nothing by half a cosine

    def __post_init__(self) -> None:
        family_of(self.spec)
        if not 0 <= self.seed < 2**32:
            raise UserError(f"seed is {self.seed}: expected 0 to 2**32 - 1")
        check_schedule(self.epochs, self.batch, self.rate)

    def schedule(self, images: int) -> Schedule:
        family = family_of(self.spec)
        batch = min(self.batch or family.batch, images)
        epochs = self.epochs or enough(family.epochs, family.least_steps, images, batch)
        return Schedule(images, batch, epochs, self.rate or family.rate, decay=True, stream="generator.order")


def train_generator(
    spec: str, data: str | Dataset = "digits", *, out: str | Path | None = None, test: Dataset | None = None,
    epochs: int | None = None, batch: int | None = None, rate: float | None = None, seed: int = 0,
    device: str = "auto", checkpoint_seconds: float = 10.0, quiet: bool = False,
) -> Drawer:  # fmt: skip
    """Train the generator of `spec` (`vae:10`, `vaegan:1024?width=64`) on the images of `data`, whatever their labels.

    With `out`, it is kept there: a call that was stopped goes on when it is made again, and a finished one is read.
    A generator that collapsed raises `Collapsed`, which says how; its files are kept.

    test: held-out images, where `data` is no spec; by default the test split.
    """
    name = data if isinstance(data, str) else data.name
    config = GeneratorConfig(spec, name, seed, epochs, batch, rate)
    place = pick_device(device)
    images = load(data, "train", quiet=quiet) if isinstance(data, str) else data
    if test is None:
        if not isinstance(data, str):
            raise UserError("a generator is measured on held-out images: give test= beside the data set")
        test = load(data, "test", quiet=quiet)
    if test.images.shape[1:] != images.images.shape[1:]:
        raise UserError(
            f"test images have shape {tuple(test.images.shape[1:])}, training images {tuple(images.images.shape[1:])}"
        )
    with torch.device("meta"):  # an error in the spec is told before anything is written
        build(spec, _shape(images))
    record = asdict(config) | {"data_sha256": [images.sha256, test.sha256]}
    if out is None:
        return _Course(config, record, images, test, place, Checkpoint(None), quiet).finish(None)
    folder = Path(out)
    try:
        with training_folder.only_here(folder):
            if not _is_finished(folder, record):
                training_folder.claim(folder, [Path(files.WEIGHTS).stem], record)
                path = folder / training_folder.TRAINING / files.WEIGHTS
                checkpoint = Checkpoint(path, checkpoint_seconds, STANDING)
                _Course(config, record, images, test, place, checkpoint, quiet).finish(folder)
            elif not quiet:
                print(f"{folder} already holds this generator: nothing to train", file=sys.stderr)
            shutil.rmtree(folder / training_folder.TRAINING, ignore_errors=True)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped: what was learnt is in {folder / training_folder.TRAINING}, and the same command goes on from "
            "there"
        ) from None
    return files.load_folder(folder)


def _is_finished(folder: Path, record: dict[str, Any]) -> bool:
    if not (folder / files.FILE).exists():
        return False
    training_folder.agree(folder, "a finished generator", files.read_record(folder)["config"], record)
    return True


def _shape(images: Dataset) -> Shape:
    channels, height, width = images.images.shape[1:]
    return channels, height, width


class _Course:
    """One training, from where it stands to its end."""

    def __init__(
        self, config: GeneratorConfig, record: dict[str, Any], images: Dataset, test: Dataset, device: torch.device,
        checkpoint: Checkpoint, quiet: bool,
    ) -> None:  # fmt: skip
        self.config, self.record, self.checkpoint, self.quiet = config, record, checkpoint, quiet
        self.images, self.test, self.device = images.images.to(device), test.images.to(device), device
        self.schedule = config.schedule(len(images))
        self.learning: Learning = begin(config.spec, _shape(images), config.seed, self.schedule.rate, device)
        self.history: dict[str, dict[str, list[float]]] = {
            split: {part: [] for part in self.learning.parts} for split in ("train", "test")
        }
        self.place = Place(torch.tensor([config.seed], device=device), self._nothing())
        self.diverged = False

    def _nothing(self) -> Tensor:
        return torch.zeros(len(self.learning.parts), device=self.device)

    def finish(self, folder: Path | None) -> Drawer:
        """Train to the end, and keep the generator in the folder. `Collapsed` where there is no folder to look into."""
        self._go_on()
        try:
            self._train()
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"{self.config.spec!r} at batch {self.schedule.batch} does not fit on {self.device}: give a smaller "
                "--batch or width, or --device cpu"
            ) from error
        model = self.learning.model.eval()
        model.spec = self.config.spec
        self.diverged = self.diverged or not all(value.isfinite().all() for value in model.state_dict().values())
        found = None if self.diverged else measure(model, self.test)
        collapsed = self._diverged() if found is None else collapse(found, family_of(self.config.spec).adversarial)
        if folder is None:
            if collapsed:
                raise Collapsed(f"the generator is of no use: {collapsed}")
            return files.opened(model, model.spec)
        training = {
            "images": len(self.images), "batch": self.schedule.batch, "epochs": self.schedule.epochs,
            "steps": self.place.step, "rate": self.schedule.rate, "decay": "cosine", "device": self.device.type,
            "parameters": sum(weight.numel() for weight in model.parameters()), "torch": torch.__version__,
        }  # fmt: skip
        measures = None if found is None else asdict(found)
        if found is not None:
            draw(model, self.test, folder)
        files.save(
            folder, model,
            {"config": self.record, "training": training, "history": self.history, "measures": measures,
             "collapsed": collapsed},
        )  # fmt: skip
        return model

    def _go_on(self) -> None:
        """From the checkpoint, where there is one."""
        kept = self.checkpoint.read()
        if kept is None:
            return
        tensors, standing = kept
        try:
            restore(self.learning, tensors)
            self.place.losses.copy_(tensors["losses"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise self.checkpoint.damaged(f"{type(error).__name__}: {error}") from error
        self.place.step = standing["step"]
        epochs = self.place.step // self.schedule.per_epoch
        kept_curves = [standing["history"].get(split, {}) for split in self.history]
        told = [len(curves.get(part, ())) == epochs for curves in kept_curves for part in self.learning.parts]
        if self.place.step > self.schedule.steps or not all(told):
            raise self.checkpoint.damaged(f"it stands at step {self.place.step} of {self.schedule.steps}")
        self.history = standing["history"]

    def _train(self) -> None:
        with progress("Training", self.schedule.steps, done=self.place.step, quiet=self.quiet) as bar:
            self._told, self._shown = self.place.step, time.monotonic()
            self.learning.modules.train()
            loop(self.schedule, self.place, self._step, lambda sums: self._after(sums, bar))

    def _step(self, turn: Turn) -> Tensor:
        images = to_floats(self.images.index_select(0, turn.rows[0]))
        noise = drawer(self.learning.model, len(images), self.config.seed, turn.number, self.device)
        return self.learning.step(images, noise, turn, turn.number / self.schedule.steps)

    def _after(self, sums: Tensor | None, bar: Bar) -> None:
        note = "" if sums is None else self._end_of_epoch(sums)
        if self.checkpoint.due and self._finite(self.place.losses):
            tensors = lambda: {**held(self.learning), "losses": self.place.losses}  # noqa: E731
            self.checkpoint.write(tensors, {"step": self.place.step, "history": self.history})
        if note or time.monotonic() - self._shown > 0.2:  # drawing a bar costs as much as a small step
            bar.advance(self.place.step - self._told, note)
            self._told, self._shown = self.place.step, time.monotonic()

    def _end_of_epoch(self, sums: Tensor) -> str:
        if not self._finite(sums):
            return ""
        means = {"train": sums / self.schedule.per_epoch, "test": self._held_out()}
        for split, values in means.items():
            for part, value in zip(self.learning.parts, values.tolist(), strict=True):
                self.history[split][part].append(round(value, 6))
        epoch, first = self.place.step // self.schedule.per_epoch, self.learning.parts[0]
        told = {split: curves[first][-1] for split, curves in self.history.items()}
        return f"epoch {epoch}/{self.schedule.epochs} loss {told['train']:.1f}, held-out {told['test']:.1f}"

    def _finite(self, losses: Tensor) -> bool:
        """Whether all is well; else training ends here."""
        if not losses.isfinite().all():
            self.diverged, self.place.seeds = True, self.place.seeds[:0]
        return not self.diverged

    @torch.no_grad()
    def _held_out(self) -> Tensor:
        """The losses (parts,) on held-out images, with the same noise after each epoch."""
        self.learning.modules.eval()
        sums, images = self._nothing(), self.test[:MOST_HELD_OUT]
        parts = -(-len(images) // self.schedule.batch)  # all about as large: a loss may compare the images of a batch
        for number, batch in enumerate(images.tensor_split(parts)):
            noise = drawer(self.learning.model, len(batch), self.config.seed, number, self.device)
            sums += self.learning.losses(to_floats(batch), noise) * len(batch)
        self.learning.modules.train()
        return sums / len(images)

    def _diverged(self) -> str:
        return (
            f"NaN: a loss or a weight is no longer a number after {self.place.step} steps at rate "
            f"{self.schedule.rate:g}. Give a lower --rate"
        )
