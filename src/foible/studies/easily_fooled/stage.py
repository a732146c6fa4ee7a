"""What the studies of ascended images begin with: a network, another of its kind, data, and the mean of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import answers
from foible.basket.judging import judged
from foible.basket.matching import Matched, match, shape_of
from foible.data import open_data
from foible.data.catalogue import KNOWN
from foible.errors import UserError
from foible.networks.progress_file import Checkpoint
from foible.processes import one_thread
from foible.randomness import uniforms
from foible.runs.record import whole_hash
from foible.search.climb.ascend import KEPT, PRESETS, Ascended, ascend, mean_image, starts
from foible.studies.common import basket_for, fewer
from foible.text import did_you_mean

# The presets, and S5 with another length of steps: the default of the authors' program.
WAYS = PRESETS | {"longer": replace(PRESETS["decay"], late=0.1)}
FIGURES = {
    "plain": "plain", "decay": "decay (S5)", "sparse": "sparse (S6)", "blur": "blur (S7)",
    "longer": "decay, late 0.1 (S5)",
}  # fmt: skip
SECONDS = 20.0  # between two notes of where a climb stands


@dataclass(frozen=True, eq=False)
class Stage:
    """named: the data. test: its test split, as the basket sees it. mean: (channels, height, width) in [0, 1], of the
    training images where networks are trained here, else of the test split. suspect: whose probability is climbed.
    out: a folder for what is kept."""

    named: str
    basket: Basket
    suspect: str
    test: Matched
    mean: Tensor
    out: Path

    @property
    def everyone(self) -> list[str]:
        return [self.suspect, *self.basket.peers(self.suspect)]


def stand_in(data: str | None) -> str:
    """The data that was asked for; else CIFAR-10 in ImageNet's place, MNIST, or the bundled digits."""
    at_hand = (name for name in ("cifar10", "mnist") if KNOWN[name].find() is not None)
    return data if data is not None else next(at_hand, "digits")


def open_stage(
    named: str, plan: Mapping[str, Any], out: Path, *, seed: int, device: str, basket: str | None, quiet: bool
) -> Stage:
    """Networks from `basket` (a folder, or specs with blanks between them), or two of plan["network"] trained now."""
    used = named
    if basket is None:
        if plan["images"] and named in KNOWN:
            used = fewer(named, plan["images"], out, tested=plan["tested"])
        with one_thread():
            group = basket_for(
                [plan["network"]], used, out, seed=seed, device=device, quiet=quiet, epochs=plan["epochs"],
                seeds=[seed, seed + 1],
            )  # fmt: skip
        test = match(open_data(used, "test", quiet=quiet), group)
        mean = mean_image(match(open_data(used, "train", quiet=quiet), group))
    else:
        data = open_data(named, "test", whole=True, quiet=quiet)
        group = Basket.open(basket.split(), device=device, classes=data.classes, shape=shape_of(data))
        test = match(data, group)
        mean = mean_image(test)
    return Stage(named, group, group.names[0], test, mean.to(group.device), out)


@torch.no_grad()
def real_logits(stage: Stage) -> tuple[Tensor, Tensor]:
    """Labels (n,) and logits (networks, n, classes), the suspect's first, of the test split; those that a network
    answers with NaN are left out."""
    labels, logits = [], []
    for part in judged(stage.basket.only(stage.everyone), stage.test.data, index=stage.test.index,
                       canvas=stage.test.canvas):  # fmt: skip
        labels.append(stage.test.labels[part.index])
        logits.append(part.logits)
    label, said = torch.cat(labels), torch.cat(logits, 1)
    sound = (answers(said) >= 0).all(0)
    return label[sound], said[:, sound]


def chosen_classes(basket: Basket, asked: str, seed: int) -> list[int]:
    """Places of classes. asked: how many, drawn by the seed where there are more; or names with ; between them."""
    known = len(basket.classes)
    if asked.isascii() and asked.isdigit() and int(asked) > 0:
        order = uniforms(seed, torch.arange(known), stream="ascent.classes", count=1)[:, 0].argsort(stable=True)
        return sorted(order[: int(asked)].tolist())
    places = []
    for name in (one.strip() for one in asked.split(";")):
        if name not in basket.classes:
            raise UserError(
                f"classes has {name!r}{did_you_mean(name, basket.classes)}: expected how many, or names of the "
                f"basket's {known} classes with ; between them"
            )
        places.append(basket.classes.index(name))
    return places


@dataclass(frozen=True, eq=False)
class Climbed:
    """Ascended images, start by start: of start s and the class at place c of `classes`, row s · classes + c."""

    classes: list[int]
    starts: int
    came: Ascended

    @property
    def images(self) -> Tensor:
        """(starts, classes, channels, height, width) in [0, 1], on the CPU."""
        return self._each(self.came.images.cpu().float() / 255)

    @property
    def confidence(self) -> Tensor:
        """(starts, classes), of what a PNG holds; NaN where the network was not a number."""
        return self._each(self.came.confidence.masked_fill(self.came.invalid, torch.nan).cpu())

    def _each(self, values: Tensor) -> Tensor:
        return values.view(self.starts, len(self.classes), *values.shape[1:])


def climb(stage: Stage, way: str, classes: list[int], count: int, seed: int, steps: int = 0) -> Climbed:
    """`count` starts of every class. A start is a function of the seed, the class and its number, whatever the way.

    way: one of `WAYS`. steps: 0 takes its own. Where it stands, or ended, is kept in the stage's folder.
    """
    how = replace(WAYS[way], steps=steps or WAYS[way].steps)
    known = len(stage.basket.classes)
    aims = torch.tensor(classes).repeat(count)
    lanes = aims + known * torch.arange(count).repeat_interleave(len(classes))
    begin = starts(stage.mean, seed, lanes.to(stage.basket.device))
    basket, suspect = stage.basket, stage.suspect
    about = whole_hash({
        "network": [basket.fingerprints[suspect], str(basket.hows[suspect]), basket.device.type], "how": asdict(how),
        "aims": aims.tolist(), "seed": seed, "mean": stage.mean.tolist(),
    })  # fmt: skip
    folder = stage.out / "climbs"
    folder.mkdir(parents=True, exist_ok=True)
    kept = Checkpoint(folder / f"{way}.safetensors", SECONDS, KEPT)
    came = ascend(basket, suspect, begin, stage.mean, aims, how, kept=kept, about=about)
    return Climbed(classes, count, came)
