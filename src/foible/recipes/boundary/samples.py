"""Samples of a generator, of which the networks choose one clean example of each class (paper 4 had a person do it)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from foible.basket.accuracy import answers
from foible.data import read
from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings.rows import agreed
from foible.generators.base import Shape
from foible.generators.pictures import sheet
from foible.images import encode_png, to_floats
from foible.objectives import probabilities
from foible.progress import progress
from foible.randomness import normals
from foible.realism import fit
from foible.runs.task import Task
from foible.search.walk import Walked, walk
from foible.text import some

FIRST = "first"
SAMPLED = ("samples", FIRST)  # ways to choose ends among samples: the clearest, or the first that is called so
ACROSS = 12  # samples of a class on the sheet
TYPICAL, TYPICAL_PIXELS = 2000, 40_000_000  # real images that say what is typical

End = dict[str, Any]  # the code that stands for a class, and how it was chosen


def shape_of(task: Task) -> Shape:
    """Of the images: channels, height, width."""
    data, (height, width) = task.matched.data, task.matched.size
    channels = getattr(data, "channels", None) or data.images.shape[1]  # type: ignore[union-attr]
    return int(channels), height, width


def read_images(task: Task, places: Tensor) -> Tensor:
    """uint8 (k, …): images of the data that can be read."""
    images: Tensor = read(task.matched.data, places, [task.matched.canvas]).images[0]
    return images


class NotShown(UserError):
    """No sample shows a class."""


class Sampled:
    """Samples of the generator, and what the networks make of them."""

    def __init__(self, task: Task) -> None:
        self.task, config, shape = task, task.config, shape_of(task)
        line, device = task.parts["space"], task.basket.device
        latent = line.on(device, shape).latent
        self.codes = normals(config.seed, torch.arange(config.samples), stream="boundary.samples", count=latent)
        with progress("Drawing samples", config.samples, quiet=task.quiet) as bar:
            made: Walked = walk(lambda codes: line.draw(codes, shape), task.basket, self.codes, bar.advance)
        self.images = made.images
        self.mean = probabilities(made.logits).mean(0).nan_to_num(0.0)  # (n, classes)
        self.agreed = agreed(answers(made.logits))
        self.sure = self.mean.gather(1, self.agreed.clamp_min(0)[:, None])[:, 0]
        self.clean = (self.agreed >= 0) & (self.sure >= config.sure)
        matched = task.matched
        most = max(64, min(TYPICAL, TYPICAL_PIXELS // (shape[1] * shape[2])))
        spread = torch.linspace(0, len(matched.index) - 1, min(most, len(matched.index)), dtype=torch.float64).long()
        model = fit("patches", read_images(task, matched.index[spread]), basket=task.basket)
        self.realism = self.sure if model is None else model.score(to_floats(self.images).to(device)).cpu()

    def best(self, number: int) -> Tensor:
        """Places of all samples, those first that may stand for a class: clean ones, the most realistic first; then
        whatever the networks take for it most."""
        clean = self.clean & (self.agreed == number)
        rank = torch.where(clean, self.realism.double().clamp(-1e6, 1e6) + 2e6, self.mean[:, number].double())
        return rank.argsort(descending=True, stable=True)

    def ends(self, classes: Sequence[int], *, first: bool = False) -> dict[int, End]:
        """The best of each class, or the first that the networks take for it, however sure they are; a class that no
        sample shows is an error, with the sheet to look at."""
        config, names = self.task.config, self.task.basket.classes
        top, taken = self.mean.max(1)
        shows = taken.where(top > 0, -1) if first else self.agreed.where(self.clean, -1)
        missing = [number for number in classes if not bool((shows == number).any())]
        if missing:
            surest = ", ".join(f"{names[number]} {float(self.mean[:, number].max()):.2f}" for number in missing[:8])
            asked, less = "what the networks together take for it", ""
            if not first:
                asked = f"called so by all networks with a mean probability of {config.sure:g}"
                less = "ask for less with --sure, "
            raise NotShown(
                f"no sample shows {some([names[number] for number in missing], 8)}: of {config.samples:,} none is "
                f"{asked} (at most: {surest}).{self._written(classes)} Draw more with --samples, {less}choose by eye "
                "with --candidates 12 and then --ends, or train the generator longer"
            )
        places = {number: int((shows == number).nonzero()[0] if first else self.best(number)[0]) for number in classes}
        if not self.task.quiet:
            least = min(float(self.mean[at, number]) for number, at in places.items())
            print(
                f"Ends: of each class the first sample that the networks take for it; of the least clear one they are "
                f"{least:.2f} sure" if first else
                f"Ends: {int(self.clean.sum()):,} of {config.samples:,} samples are called the same by all networks, "
                f"with a mean probability of {config.sure:g} or more; of each class the most realistic one is taken",
                file=sys.stderr,
            )  # fmt: skip
        return {
            number: {
                "code": self.codes[at].tolist(), "sample": at, "sure": round(float(self.mean[at, number]), 6),
                "realism": round(float(self.realism[at]), 3),
            }
            for number, at in places.items()
        }  # fmt: skip

    def _written(self, classes: Sequence[int]) -> str:
        """Where the sheet of samples is: a line of images for each class."""
        if self.task.kept is None:
            return ""
        file = self.task.kept.folder.with_name(f"{self.task.kept.folder.name}-samples.png")
        rows = torch.cat([self.best(number)[:ACROSS] for number in classes])
        write_atomically(file, encode_png(sheet(to_floats(self.images[rows]), min(ACROSS, len(self.images)))))
        return f" What is nearest to each class, line by line: {file}."
